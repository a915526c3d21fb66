/**
 * Capacity under another SLO, re-derived from a stored load curve without a new trial. Pure: also
 * runs in a browser.
 *
 * The curve of a percentile q is made of ln(latency) against the offered rate: measured points,
 * pooled where they contradict "more load is never faster" (isotonic regression, pool adjacent
 * violators: Ayer et al. 1955), linear in between, and forced through the profiler's own estimate
 * (capacityRps, limitMs), which used more than the points alone. So at the SLO that was measured
 * the derived capacity is the measured one, and it moves away from it without a jump.
 */
import { countsTheSame, failsTooOften, sameSlo, type Slo } from '../../model/slo.ts'
import { keptPercentiles } from '../../load/latency-summary.ts'
import type { LatencySummary, LoadPoint } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'
import { type CapacityUnder, type CurveKnot, capacityOf } from '../capacity-bounds.ts'
import { importedCapacity, importedCurve, isImported } from './imported-loads.ts'
import { seenUnder } from './stream-points.ts'

/**
 * The capacity of a measured predictor under `slo`.
 * @param curve the load curve, for callers that ask for many limits of one percentile; else made
 * here.
 * @throws RangeError for a percentile outside (0, 1) or a limit that is not positive.
 */
export function capacityUnder(
  measurement: Measurement,
  slo: Slo,
  curve: readonly CurveKnot[] = loadCurve(measurement, slo),
): CapacityUnder {
  if (!(slo.percentile > 0 && slo.percentile < 1))
    throw new RangeError(`percentile must be between 0 and 1, not ${slo.percentile}`)
  if (!(slo.limitMs > 0)) throw new RangeError(`limitMs must be positive, not ${slo.limitMs}`)
  if (isImported(measurement)) return importedCapacity(measurement, slo, curve)
  if (sameSlo(measurement.slo, slo)) {
    const capacity = capacityOf(measurement)
    const { capacityRps } = capacity
    const sloMs =
      capacityRps > 0
        ? Math.min(latencyAt(curve, capacityRps), slo.limitMs)
        : idlePercentile(measurement, slo)
    return { ...capacity, sloMs, derived: false }
  }
  return derive(
    countsTheSame(measurement.slo, slo) ? measurement : seenUnder(measurement, slo),
    slo,
    curve,
  )
}

function derive(measurement: Measurement, slo: Slo, curve: readonly CurveKnot[]): CapacityUnder {
  const { limitMs } = slo
  const idleMs = idlePercentile(measurement, slo)
  const last = curve.at(-1)
  if (!last || (curve[0]?.latencyMs ?? Number.POSITIVE_INFINITY) > limitMs) {
    // Whether the true percentile of an idle predictor is under the limit is as uncertain as the
    // first knot.
    const high = crossing(curve, limitMs, 'lowMs')
    return {
      capacityRps: 0,
      capacityCi90Rps: [0, high],
      known: 'held',
      sloMs: idleMs,
      derived: true,
    }
  }
  const capacityRps = crossing(curve, limitMs, 'latencyMs')
  const open = capacityRps >= last.rateRps
  const [low, high] = interval(measurement, slo, curve, capacityRps)
  return {
    capacityRps,
    capacityCi90Rps: [low, open ? Math.max(high, measurement.saturationRps) : high],
    sloMs: Math.min(limitMs, latencyAt(curve, capacityRps)),
    derived: true,
    known: open
      ? 'bound below'
      : limitMs <= measurement.slo.limitMs
        ? capacityOf(measurement).known
        : 'held',
  }
}

/**
 * The interval of the curve's own noise and of the profiler's estimate, whichever is wider, times
 * 1.25: a stated allowance for the interpolation.
 */
function interval(
  measurement: Measurement,
  slo: Slo,
  curve: readonly CurveKnot[],
  capacityRps: number,
): [number, number] {
  const [measuredLow, measuredHigh] = measurement.capacityCi90Rps
  const lnRatio = (a: number, b: number) => (a > 0 && b > 0 ? Math.max(0, Math.log(a / b)) : 0)
  const down = Math.max(
    lnRatio(measurement.capacityRps, measuredLow),
    lnRatio(capacityRps, crossing(curve, slo.limitMs, 'highMs')),
  )
  const up = Math.max(
    lnRatio(measuredHigh, measurement.capacityRps),
    lnRatio(crossing(curve, slo.limitMs, 'lowMs'), capacityRps),
  )
  return [capacityRps * Math.exp(-1.25 * down), capacityRps * Math.exp(1.25 * up)]
}

/**
 * The monotone load curve of the SLO's percentile, knots by rising rate; the first is the idle
 * predictor at rate 0. Points that failed too many requests, and windows that were cut short
 * because of their latency, count as infinitely slow.
 */
export function loadCurve(made: Measurement, slo: Slo): CurveKnot[] {
  if (isImported(made)) return importedCurve(made, slo)
  const measurement = countsTheSame(made.slo, slo) ? made : seenUnder(made, slo)
  // A sweep has no one rate that its percentiles belong to.
  const sweeps = (p: LoadPoint) => p.load.kind === 'open' && p.load.arrivals.kind === 'sweep'
  const usable = measurement.points.filter(
    (p) => !p.generatorSaturated && p.offeredRps > 0 && !sweeps(p),
  )
  const open = usable.filter((p) => p.load.kind === 'open')
  const idleMs = idlePercentile(measurement, slo)
  const idle: CurveKnot = {
    rateRps: 0,
    latencyMs: idleMs,
    lowMs: idleMs,
    highMs: idleMs,
    requests: measurement.idle.requests,
  }
  // A closed loop hides waiting time (coordinated omission): its points stand in only where there
  // are no others.
  const points = (open.length >= 2 ? open : usable)
    .map((p) => knotOf(p, slo, measurement.slo))
    .sort((a, b) => a.rateRps - b.rateRps)
  const knots = idle.latencyMs > 0 ? [idle, ...points] : points
  const anchor = anchorOf(measurement, slo)
  if (!anchor) return pool(knots)
  const [low, high] = measurement.capacityCi90Rps
  // Points that contradict the estimate (noise, on the wrong side of it) give way to it.
  const below = knots.filter((k) => k.rateRps < Math.min(low, anchor.rateRps))
  const above = knots.filter((k) => k.rateRps > Math.max(high, anchor.rateRps))
  return [
    ...pool(below)
      .filter((k) => k.latencyMs < anchor.latencyMs)
      .map((k) => ({ ...k, highMs: Math.max(k.latencyMs, Math.min(k.highMs, anchor.highMs)) })),
    anchor,
    ...pool(above)
      .filter((k) => k.latencyMs > anchor.latencyMs)
      .map((k) => ({ ...k, lowMs: Math.min(k.latencyMs, Math.max(k.lowMs, anchor.lowMs)) })),
  ]
}

/**
 * The profiler's estimate (of a trial cut short its upper bound) as a knot; for another percentile,
 * its latency scaled as the nearest points' percentiles are to each other.
 */
function anchorOf(measurement: Measurement, slo: Slo): CurveKnot | undefined {
  const { capacityRps, capacityCi90Rps: interval, slo: measured, outcome } = measurement
  if (capacityRps <= 0 || outcome === 'generator-limit') return undefined
  let scale = 1
  if (slo.percentile !== measured.percentile) {
    const near = measurement.points
      .filter((p) => p.offeredRps > 0 && percentileOf(p, measured.percentile) > 0)
      .sort((a, b) => Math.abs(a.offeredRps - capacityRps) - Math.abs(b.offeredRps - capacityRps))
      .slice(0, 3)
    const source: readonly LatencySummary[] = near.length > 0 ? near : [measurement.idle]
    const logs = source.map((p) =>
      Math.log(percentileOf(p, slo.percentile) / percentileOf(p, measured.percentile)),
    )
    scale = Math.exp(logs.reduce((sum, x) => sum + x, 0) / logs.length)
  }
  const latencyMs = measured.limitMs * scale
  if (!Number.isFinite(latencyMs) || interval[0] > capacityRps) return undefined
  return {
    rateRps: capacityRps,
    latencyMs,
    lowMs: latencyMs,
    highMs: latencyMs,
    requests: measurement.requests,
    modelled: true,
  }
}

function knotOf(point: LoadPoint, slo: Slo, measured: Slo): CurveKnot {
  const knot = { rateRps: point.offeredRps, requests: point.requests }
  const answered = percentileOf(point, measured.percentile)
  // A window that was cut short was still getting slower when it ended.
  if (!(answered > 0) || point.cut || failsTooOften(point, slo)) {
    return {
      ...knot,
      latencyMs: Number.POSITIVE_INFINITY,
      lowMs: Number.POSITIVE_INFINITY,
      highMs: Number.POSITIVE_INFINITY,
    }
  }
  // The SLO percentile counts failed requests; another percentile, and its interval, is scaled from
  // it.
  const scale =
    slo.percentile === measured.percentile ? 1 : percentileOf(point, slo.percentile) / answered
  const [low, high] = point.sloCi95Ms
  return {
    ...knot,
    latencyMs: point.sloMs * scale,
    lowMs: Math.min(low, point.sloMs) * scale,
    highMs: Math.max(high, point.sloMs) * scale,
  }
}

/**
 * Isotonic regression of ln(latency) on the rate, weighted by requests; an interval's ends are
 * pooled as their latencies are.
 */
function pool(knots: readonly CurveKnot[]): CurveKnot[] {
  const finite = knots.flatMap((k) => [k.latencyMs, k.highMs]).filter(Number.isFinite)
  const ceiling = 100 * Math.max(1, ...finite)
  const blocks: { members: CurveKnot[]; weight: number; low: number; mid: number; high: number }[] =
    []
  for (const knot of knots) {
    const log = (ms: number) => Math.log(Math.min(ms, ceiling))
    let block = {
      members: [knot],
      weight: knot.requests,
      low: log(knot.lowMs),
      mid: log(knot.latencyMs),
      high: log(knot.highMs),
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
  const ms = (log: number) => (log >= Math.log(ceiling) ? Number.POSITIVE_INFINITY : Math.exp(log))
  const pooled = blocks.flatMap((b) =>
    b.members.map((k) => ({ ...k, latencyMs: ms(b.mid), lowMs: ms(b.low), highMs: ms(b.high) })),
  )
  // The ends are not pooled on their own, so they may still fall: an upper end holds from there on,
  // a lower end up to there.
  const highs = pooled.map((k, i) =>
    Math.max(...pooled.slice(0, i).map((before) => before.highMs), k.highMs),
  )
  const lows = pooled.map((k, i) =>
    Math.min(...pooled.slice(i + 1).map((after) => after.lowMs), k.lowMs),
  )
  return pooled.map((k, i) => ({ ...k, lowMs: lows[i]!, highMs: highs[i]! }))
}

/**
 * Latency on the curve at an offered rate, ms; Infinity beyond a point that failed, the last knot's
 * beyond the end.
 */
export function latencyAt(curve: readonly CurveKnot[], rateRps: number): number {
  const after = curve.findIndex((k) => k.rateRps >= rateRps)
  if (after === -1) return curve.at(-1)?.latencyMs ?? Number.NaN
  const [b, a] = [curve[after]!, curve[after - 1]]
  if (!a || b.rateRps === rateRps || a.rateRps === b.rateRps) return b.latencyMs
  if (!Number.isFinite(b.latencyMs)) return b.latencyMs
  const share = (rateRps - a.rateRps) / (b.rateRps - a.rateRps)
  return Math.exp(Math.log(a.latencyMs) * (1 - share) + Math.log(b.latencyMs) * share)
}

/**
 * Highest rate up to which a curve keeps the limit, requests per second: the capacity without its
 * interval, quickly.
 */
export const rateWithin = (curve: readonly CurveKnot[], limitMs: number): number =>
  crossing(curve, limitMs, 'latencyMs')

/**
 * Highest rate up to which the curve keeps the limit; 0 when its first knot does not, the last
 * knot's rate when all do.
 */
function crossing(
  curve: readonly CurveKnot[],
  limitMs: number,
  of: 'latencyMs' | 'lowMs' | 'highMs',
): number {
  const beyond = curve.findIndex((k) => k[of] > limitMs)
  if (beyond === -1) return curve.at(-1)?.rateRps ?? 0
  const [b, a] = [curve[beyond]!, curve[beyond - 1]]
  if (!a) return 0
  if (!Number.isFinite(b[of])) return a.rateRps
  const share = (Math.log(limitMs) - Math.log(a[of])) / (Math.log(b[of]) - Math.log(a[of]))
  return a.rateRps + share * (b.rateRps - a.rateRps)
}

const idlePercentile = (measurement: Measurement, slo: Slo): number =>
  percentileOf(measurement.idle, slo.percentile)

/**
 * Any percentile of the answered requests, ms, from those that are kept: linear in -ln(1 - q)
 * between neighbours (exact for a fixed service time with an exponential tail), with the maximum as
 * the 1 - 1/(n + 1) quantile. NaN for an empty summary.
 */
export function percentileOf(summary: LatencySummary, percentile: number): number {
  const known = keptPercentiles.map(([kept, name]): [number, number] => [kept, summary[name]])
  const top = 1 - 1 / (summary.requests + 1)
  if (top > 0.99) known.push([top, summary.maxMs])
  if (percentile >= known.at(-1)![0]) return known.at(-1)![1]
  const tail = (q: number) => -Math.log1p(-q)
  const upper = Math.max(
    1,
    known.findIndex(([q]) => q > percentile),
  )
  const [[q0, ms0], [q1, ms1]] = [known[upper - 1]!, known[upper]!]
  const share = (tail(percentile) - tail(q0)) / (tail(q1) - tail(q0))
  return Math.max(ms0 * (1 - share) + ms1 * share, 0)
}
