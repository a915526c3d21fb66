/**
 * Load curve of a stored measurement: a latency percentile over the offered rate. Pure: also runs
 * in a browser.
 *
 * The curve is linear in ln(latency) between points. It must not fall, so measured points that
 * contradict this are pooled (isotonic regression by pool adjacent violators: Ayer et al. 1955). It
 * passes through the estimate of the search (capacityRps, limitMs), which uses more information than
 * the points. So a derived capacity equals the measured one at the measured SLO, and changes
 * continuously with the SLO.
 */
import { storedPercentiles } from '../../load/latency-summary.ts'
import type { LatencySummary, LoadPoint } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'
import { exceedsErrorRate, haveSameLatency, type Slo } from '../../model/slo.ts'
import type { CurveKnot } from '../capacity-bounds.ts'
import { buildImportedCurve, isImported } from './imported-loads.ts'
import { viewUnderSlo } from './stream-points.ts'

/**
 * Builds the monotone load curve of the SLO's percentile, by rising rate. The first knot is the
 * unloaded server at rate 0. Points with too many errors, and windows that were cut for their
 * latency, count as infinitely slow.
 */
export function buildLoadCurve(original: Measurement, slo: Slo): CurveKnot[] {
  if (isImported(original)) return buildImportedCurve(original, slo)
  const measurement = haveSameLatency(original.slo, slo) ? original : viewUnderSlo(original, slo)
  const knots = collectKnots(measurement, slo)
  const anchor = makeAnchor(measurement, slo)
  if (!anchor) return poolAdjacentViolators(knots)
  const [low, high] = measurement.capacityCi90Rps
  // The curve must rise through the estimate. Points that contradict it are noise and are dropped.
  const below = knots.filter((k) => k.rateRps < Math.min(low, anchor.rateRps))
  const above = knots.filter((k) => k.rateRps > Math.max(high, anchor.rateRps))
  return [
    ...poolAdjacentViolators(below)
      .filter((k) => k.latencyMs < anchor.latencyMs)
      .map((k) => ({ ...k, highMs: Math.max(k.latencyMs, Math.min(k.highMs, anchor.highMs)) })),
    anchor,
    ...poolAdjacentViolators(above)
      .filter((k) => k.latencyMs > anchor.latencyMs)
      .map((k) => ({ ...k, lowMs: Math.min(k.latencyMs, Math.max(k.lowMs, anchor.lowMs)) })),
  ]
}

/** Collects the knots of the unloaded server and of the load points, by rising rate. */
function collectKnots(measurement: Measurement, slo: Slo): CurveKnot[] {
  // The percentiles of a sweep belong to no single rate.
  const isSweep = (p: LoadPoint) => p.load.kind === 'open' && p.load.arrivals.kind === 'sweep'
  const usable = measurement.points.filter(
    (p) => !p.generatorSaturated && p.offeredRps > 0 && !isSweep(p),
  )
  const open = usable.filter((p) => p.load.kind === 'open')
  // A closed loop hides waiting time (coordinated omission), so its points are used only where
  // there are fewer than two others.
  const knots = (open.length >= 2 ? open : usable)
    .map((p) => makeKnot(p, slo, measurement.slo))
    .sort((a, b) => a.rateRps - b.rateRps)
  const unloadedMs = computeUnloadedPercentile(measurement, slo)
  // NaN: no unloaded request was answered.
  if (Number.isNaN(unloadedMs) || unloadedMs <= 0) return knots
  const unloaded: CurveKnot = {
    rateRps: 0,
    latencyMs: unloadedMs,
    lowMs: unloadedMs,
    highMs: unloadedMs,
    requests: measurement.unloaded.requests,
  }
  return [unloaded, ...knots]
}

/** Points near the capacity whose percentiles scale its latency to another percentile. Assumed. */
const scalingPoints = 3

/**
 * Makes a knot of the profiler's estimate; for a pruned trial, of its upper bound. For another
 * percentile, its latency is scaled by the ratio of the percentiles at the nearest points.
 * Undefined without an estimate.
 */
function makeAnchor(measurement: Measurement, slo: Slo): CurveKnot | undefined {
  const { capacityRps, capacityCi90Rps, slo: measured, outcome } = measurement
  if (capacityRps <= 0 || outcome === 'generator-limit') return undefined
  let scale = 1
  if (slo.percentile !== measured.percentile) {
    const nearestPoints = measurement.points
      .filter((p) => p.offeredRps > 0 && interpolatePercentile(p, measured.percentile) > 0)
      .sort((a, b) => Math.abs(a.offeredRps - capacityRps) - Math.abs(b.offeredRps - capacityRps))
      .slice(0, scalingPoints)
    const summaries: readonly LatencySummary[] =
      nearestPoints.length > 0 ? nearestPoints : [measurement.unloaded]
    const logs = summaries.map((p) =>
      Math.log(
        interpolatePercentile(p, slo.percentile) / interpolatePercentile(p, measured.percentile),
      ),
    )
    scale = Math.exp(logs.reduce((sum, x) => sum + x, 0) / logs.length)
  }
  const latencyMs = measured.limitMs * scale
  if (!Number.isFinite(latencyMs) || capacityCi90Rps[0] > capacityRps) return undefined
  return {
    rateRps: capacityRps,
    latencyMs,
    lowMs: latencyMs,
    highMs: latencyMs,
    requests: measurement.requests,
    modelled: true,
  }
}

/** Makes a knot of a load point for the SLO's percentile. */
function makeKnot(point: LoadPoint, slo: Slo, measured: Slo): CurveKnot {
  const knot = { rateRps: point.offeredRps, requests: point.requests }
  const answeredMs = interpolatePercentile(point, measured.percentile)
  // NaN: no request was answered. A window that was cut would have become slower still, so its
  // percentile is unknown.
  if (Number.isNaN(answeredMs) || answeredMs <= 0 || point.cut || exceedsErrorRate(point, slo)) {
    return {
      ...knot,
      latencyMs: Number.POSITIVE_INFINITY,
      lowMs: Number.POSITIVE_INFINITY,
      highMs: Number.POSITIVE_INFINITY,
    }
  }
  // The SLO percentile counts failed requests. Other percentiles, and their intervals, are scaled
  // from it.
  const scale =
    slo.percentile === measured.percentile
      ? 1
      : interpolatePercentile(point, slo.percentile) / answeredMs
  const [low, high] = point.sloCi95Ms
  return {
    ...knot,
    latencyMs: point.sloMs * scale,
    lowMs: Math.min(low, point.sloMs) * scale,
    highMs: Math.max(high, point.sloMs) * scale,
  }
}

/** Replaces an infinite latency, as a multiple of the largest finite one. Assumed. */
const infinityFactor = 100

/**
 * Computes the isotonic regression of ln(latency) on the rate, weighted by requests. Interval ends
 * are pooled with their latencies.
 */
function poolAdjacentViolators(knots: readonly CurveKnot[]): CurveKnot[] {
  const finite = knots.flatMap((k) => [k.latencyMs, k.highMs]).filter(Number.isFinite)
  /** Replaces an infinite latency, which has no mean. */
  const ceilingMs = infinityFactor * Math.max(1, ...finite)
  const toLog = (ms: number) => Math.log(Math.min(ms, ceilingMs))
  const blocks: { members: CurveKnot[]; weight: number; low: number; mid: number; high: number }[] =
    []
  for (const knot of knots) {
    let block = {
      members: [knot],
      weight: knot.requests,
      low: toLog(knot.lowMs),
      mid: toLog(knot.latencyMs),
      high: toLog(knot.highMs),
    }
    for (let before = blocks.at(-1); before && before.mid > block.mid; before = blocks.at(-1)) {
      blocks.pop()
      const weight = before.weight + block.weight
      const mean = (a: number, b: number) => (a * before!.weight + b * block.weight) / weight
      block = {
        members: [...before.members, ...block.members],
        weight,
        low: mean(before.low, block.low),
        mid: mean(before.mid, block.mid),
        high: mean(before.high, block.high),
      }
    }
    blocks.push(block)
  }
  const toMs = (log: number) =>
    log >= Math.log(ceilingMs) ? Number.POSITIVE_INFINITY : Math.exp(log)
  const pooled = blocks.flatMap(({ members, low, mid, high }) => {
    const latencies = { latencyMs: toMs(mid), lowMs: toMs(low), highMs: toMs(high) }
    return members.map((knot) => ({ ...knot, ...latencies }))
  })
  // Pooling makes the latencies rise, but the ends of their intervals may still fall. Each upper
  // end is raised to those at lower rates, and each lower end is reduced to those at higher rates.
  const highs = pooled.map((k, i) =>
    Math.max(...pooled.slice(0, i).map((before) => before.highMs), k.highMs),
  )
  const lows = pooled.map((k, i) =>
    Math.min(...pooled.slice(i + 1).map((after) => after.lowMs), k.lowMs),
  )
  return pooled.map((k, i) => ({ ...k, lowMs: lows[i]!, highMs: highs[i]! }))
}

/**
 * Interpolates the latency at an offered rate, ms. Infinity beyond the last finite knot before an
 * infinite one; the last knot's latency beyond the end.
 */
export function interpolateLatency(curve: readonly CurveKnot[], rateRps: number): number {
  const afterIndex = curve.findIndex((k) => k.rateRps >= rateRps)
  if (afterIndex === -1) return curve.at(-1)?.latencyMs ?? Number.NaN
  const [before, after] = [curve[afterIndex - 1], curve[afterIndex]!]
  if (!before || after.rateRps === rateRps || before.rateRps === after.rateRps)
    return after.latencyMs
  if (!Number.isFinite(after.latencyMs)) return after.latencyMs
  const share = (rateRps - before.rateRps) / (after.rateRps - before.rateRps)
  return Math.exp(Math.log(before.latencyMs) * (1 - share) + Math.log(after.latencyMs) * share)
}

/**
 * Finds the highest rate up to which a curve meets the limit, per second: the capacity without its
 * interval.
 */
export const findRateWithin = (curve: readonly CurveKnot[], limitMs: number): number =>
  findCrossing(curve, limitMs, 'latencyMs')

/**
 * Finds the rate at which the curve crosses the limit. 0 where its first knot exceeds the limit;
 * the last knot's rate where no knot exceeds it.
 */
export function findCrossing(
  curve: readonly CurveKnot[],
  limitMs: number,
  figure: 'latencyMs' | 'lowMs' | 'highMs',
): number {
  const afterIndex = curve.findIndex((k) => k[figure] > limitMs)
  if (afterIndex === -1) return curve.at(-1)?.rateRps ?? 0
  const [before, after] = [curve[afterIndex - 1], curve[afterIndex]!]
  if (!before) return 0
  if (!Number.isFinite(after[figure])) return before.rateRps
  const share =
    (Math.log(limitMs) - Math.log(before[figure])) /
    (Math.log(after[figure]) - Math.log(before[figure]))
  return before.rateRps + share * (after.rateRps - before.rateRps)
}

export const computeUnloadedPercentile = (measurement: Measurement, slo: Slo): number =>
  interpolatePercentile(measurement.unloaded, slo.percentile)

/**
 * Interpolates any percentile of the answered requests, ms, from the stored ones: linear in -ln(1 -
 * q) (exact for a fixed service time with an exponential tail), with the maximum as the 1 - 1/(n +
 * 1) quantile. NaN for an empty summary.
 */
export function interpolatePercentile(summary: LatencySummary, percentile: number): number {
  const knots = storedPercentiles.map(([stored, name]): [number, number] => [stored, summary[name]])
  const maxQuantile = 1 - 1 / (summary.requests + 1)
  if (maxQuantile > knots.at(-1)![0]) knots.push([maxQuantile, summary.maxMs])
  if (percentile >= knots.at(-1)![0]) return knots.at(-1)![1]
  const computeLogTail = (q: number) => -Math.log1p(-q)
  const upperIndex = Math.max(
    1,
    knots.findIndex(([q]) => q > percentile),
  )
  const [[q0, ms0], [q1, ms1]] = [knots[upperIndex - 1]!, knots[upperIndex]!]
  const tail0 = computeLogTail(q0)
  const share = (computeLogTail(percentile) - tail0) / (computeLogTail(q1) - tail0)
  return Math.max(ms0 * (1 - share) + ms1 * share, 0)
}
