/** Profiles a running server: its capacity under an SLO, or its latency at one rate. */

import { describeViolation } from './capacity/capacity-bounds.ts'
import { collectCaveats } from './capacity/caveats.ts'
import { type CapacityOptions, measureCapacity } from './capacity/measure.ts'
import { describeErrors, Session } from './capacity/session.ts'
import { resolveGenerator } from './load/resolve-generator.ts'
import { judgeSweep, playSweep, playWarmUp, type SweepLoad } from './load-sweep.ts'
import type { Arrivals, OpenLoad, Phase } from './model/load.ts'
import type { LoadPoint } from './model/load-point.ts'
import type { LoadRun } from './model/load-run.ts'
import type { Measurement } from './model/measurement.ts'
import {
  exceedsErrorRate,
  isInvalidWindow,
  meetsSlo,
  type Slo,
  sloLimit,
  sloName,
  sloText,
  sloValue,
} from './model/slo.ts'
import type { PayloadSource } from './payload-source.ts'
import { ProtocolError } from './profiler-errors.ts'
import { defaultFirstAnswerMs } from './protocols/http.ts'
import { detectProtocol, protocolFor } from './protocols/index.ts'
import type { OnReason } from './protocols/protocol.ts'
import type { ProtocolOptions } from './protocols/protocol-module.ts'
import type { ProtocolName } from './protocols/protocol-table.ts'
import { NeverReadyError, prepareOnceAnswering } from './protocols/until-serving.ts'
import { computeViolationShare } from './statistics/dependence.ts'
import { provesPercentile } from './statistics/early-stopping.ts'
import {
  chooseTablePercentiles,
  computeLatencyHistogram,
  type HistogramBin,
} from './statistics/histogram.ts'
import { computeQuantileInterval, selectQuantile } from './statistics/percentile.ts'

export interface ProfileOptions extends ProtocolOptions {
  readonly url: string
  readonly model: string
  /** Default: recognised from the server. */
  readonly protocol?: ProtocolName
  readonly slo: Slo
  readonly payload: PayloadSource
  /** Plays this rate only, instead of searching for the capacity. */
  readonly rateRps?: number
  /** Plays these loads only, each for `durationS`, instead of searching for the capacity. */
  readonly sweep?: readonly SweepLoad[]
  readonly arrivals?: Arrivals
  /** Length of the steady window, default 10. */
  readonly durationS?: number
  readonly effort?: CapacityOptions['effort']
  readonly seed?: number
  readonly signal: AbortSignal
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
  /** Receives why the server is not ready yet. */
  readonly onReason?: OnReason
}

export interface PercentileRow {
  readonly percentile: number
  readonly ms: number
  /** Distribution-free 95 % interval, for independent requests. */
  readonly ci95Ms: readonly [number, number]
}

/** A steady open load at one rate, in detail. */
export interface SteadyWindow {
  readonly point: LoadPoint
  readonly percentiles: readonly PercentileRow[]
  readonly histogram: readonly HistogramBin[]
  /**
   * HDR histogram of the same latencies, for other tools: V2, compressed, base64, in microseconds
   * (load/hdr.ts).
   */
  readonly hdrHistogram: string
  /** Effective sample size. */
  readonly nEff: number
  /** LoadGen's early-stopping rule on nEff: the window alone proves the SLO percentile at 95 %. */
  readonly proven: boolean
}

export interface Profile {
  readonly url: string
  readonly model: string
  readonly protocol: ProtocolName
  readonly slo: Slo
  /**
   * 'met': a capacity was found, or the SLO was met at the given rate or at one of the given loads.
   * 'violated': it was violated. 'failed': no verdict, as the server or the generator failed.
   */
  readonly verdict: 'met' | 'violated' | 'failed'
  /** The verdict in one sentence. */
  readonly summary: string
  /** Absent with a given rate. */
  readonly measurement?: Measurement
  /**
   * 'lower': the capacity is a lower bound, as the generator was the limit or no load violated the
   * SLO. The interval may then have no upper end.
   */
  readonly bound?: 'lower'
  /**
   * Short windows well below the capacity. With the points of the measurement, they form the load
   * curve.
   */
  readonly below?: readonly LoadPoint[]
  /** Window at the given rate, or at the lower end of the interval. Absent for a capacity of 0. */
  readonly steady?: SteadyWindow
  /** The given loads, in order. */
  readonly sweep?: readonly LoadPoint[]
  readonly caveats: readonly string[]
}

/** Bins of the histogram of a steady window. Assumed. */
const histogramBins = 24
/**
 * Rates of the load curve below the capacity, as shares of it, and the length of their windows, as
 * a share of the steady window. Assumed.
 */
const curveShares = [0.25, 0.5, 0.75]
const curveDurationShare = 0.15
/**
 * Lowest rate of the steady window, as a share of the capacity, however wide the interval. Assumed.
 */
const minSteadyShare = 0.5

/**
 * Profiles an endpoint. Throws a ProtocolError for a server that cannot be reached, a PayloadError
 * for bad bodies, a GeneratorError for unusable loads, and the signal's reason. Leaves no process
 * and no socket behind.
 */
export async function profileEndpoint(options: ProfileOptions): Promise<Profile> {
  const {
    url,
    model,
    slo,
    signal,
    seed = 1,
    durationS = 10,
    arrivals = { kind: 'poisson' },
    onReason,
  } = options
  const protocol = options.protocol ?? (await detectProtocol(url, model, options, signal, onReason))
  const target = await prepareOnceAnswering(
    {
      protocol: protocolFor(protocol, options),
      url,
      model,
      payload: options.payload,
      runsAlready: true,
      onReason,
    },
    options.firstAnswerMs ?? defaultFirstAnswerMs,
    signal,
  ).catch((error: unknown) => {
    if (error instanceof NeverReadyError)
      throw new ProtocolError(protocol, error.message, 'it is still loading', 'not-ready')
    throw error
  })
  const generator = resolveGenerator(target, undefined)
  const session = new Session(target, slo, generator, signal, options.onStep ?? (() => {}))
  const subject = { url, model, protocol, slo }
  try {
    if (options.sweep !== undefined) {
      const sweep = await playSweep(session, { loads: options.sweep, durationS, arrivals, seed })
      return {
        ...subject,
        ...judgeSweep(sweep, slo),
        sweep,
        caveats: collectCaveats(target, session),
      }
    }
    if (options.rateRps !== undefined) {
      await playWarmUp(session, durationS)
      const steady = await summariseSteadyWindow(
        await session.playOpen(options.rateRps, durationS, seed, 'confirm', arrivals),
        slo,
      )
      const verdict = judgeSteadyWindow(steady.point, slo)
      const caveats = collectCaveats(target, session)
      if (verdict.verdict === 'met') caveats.push(describeUnobservedOutages([steady.point]))
      return { ...subject, ...verdict, steady, caveats }
    }
    const measurement = await measureCapacity({
      target,
      slo,
      signal,
      seed,
      generator,
      effort: options.effort,
      onStep: options.onStep,
    })
    const verdict = summariseMeasurement(measurement)
    if (verdict.verdict !== 'met')
      return { ...subject, ...verdict, measurement, caveats: measurement.caveats }
    const below: LoadPoint[] = []
    for (const [i, share] of curveShares.entries())
      below.push(
        (
          await session.playOpen(
            share * measurement.capacityRps,
            curveDurationShare * durationS,
            // Other seeds than that of the steady window.
            seed + 10 + i,
            'curve',
          )
        ).point,
      )
    const rate = Math.max(measurement.capacityCi90Rps[0], minSteadyShare * measurement.capacityRps)
    const steady = await summariseSteadyWindow(
      await session.playOpen(rate, durationS, seed + 1, 'confirm', arrivals),
      slo,
    )
    const caveats = [...measurement.caveats]
    if (steady.point.generatorSaturated)
      caveats.push('the load generator could not sustain the steady window; it is marked')
    if (!meetsSlo(steady.point, slo))
      caveats.push(
        `the steady window at ${rate.toFixed(1)} requests per second, the lower end of the interval, violated the SLO`,
      )
    caveats.push(describeUnobservedOutages([...measurement.points, ...below, steady.point]))
    const bound = resolveBound(measurement.outcome, measurement.capacityCi90Rps[1])
    return { ...subject, ...verdict, measurement, ...(bound && { bound }), below, steady, caveats }
  } finally {
    await generator.close()
  }
}

async function summariseSteadyWindow(
  { run, point }: { run: LoadRun; point: LoadPoint },
  slo: Slo,
): Promise<SteadyWindow> {
  const { encodeHdrHistogram } = await import('./load/hdr.ts')
  const sorted = run.latencyMs
    .map((ms) => (Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms))
    .sort()
  const { nEff, violations, dispersion } = computeViolationShare(run.latencyMs, slo.limitMs)
  return {
    point,
    percentiles: chooseTablePercentiles(sorted.length).map((percentile) => ({
      percentile,
      ms: selectQuantile(sorted, percentile),
      ci95Ms: computeQuantileInterval(sorted, percentile, 0.95),
    })),
    histogram: computeLatencyHistogram(run.latencyMs, histogramBins),
    hdrHistogram: encodeHdrHistogram(run.latencyMs),
    nEff,
    proven: provesPercentile(nEff, violations / dispersion, slo.percentile),
  }
}

/** Whether a capacity is only a lower bound. */
const resolveBound = (outcome: Measurement['outcome'], highRps: number): 'lower' | undefined =>
  outcome === 'generator-limit' || !Number.isFinite(highRps) ? 'lower' : undefined

type Verdict = Pick<Profile, 'verdict' | 'summary'>

function judgeSteadyWindow(point: LoadPoint, slo: Slo): Verdict {
  const rate = `${point.offeredRps.toFixed(1)} requests per second`
  const figure = `${sloName(slo)} ${sloValue(slo, point.sloMs)}${slo.limits ? '' : `, limit ${sloLimit(slo)}`}`
  if (point.errors === point.requests)
    return { verdict: 'failed', summary: `no request succeeded: ${describeErrors(point)}` }
  if (meetsSlo(point, slo))
    return { verdict: 'met', summary: `the SLO is met at ${rate}: ${figure}` }
  // Late sends count as latency. An SLO met in spite of them is met; one violated with them says
  // nothing about the server.
  if (point.generatorSaturated)
    return {
      verdict: 'failed',
      summary: `the load generator could not sustain ${rate}; the window says nothing about the server`,
    }
  const cause = exceedsErrorRate(point, slo) ? describeErrors(point) : figure
  return { verdict: 'violated', summary: `the SLO is violated at ${rate}: ${cause}` }
}

/** Finds the lowest rate whose open window violated the SLO; undefined without one. */
function findLowestViolatedRps(points: readonly LoadPoint[], slo: Slo): number | undefined {
  const violatedPoints = selectOpenPoints(points).filter(
    (point) => !meetsSlo(point, slo) && !isInvalidWindow(point, slo),
  )
  return violatedPoints.length === 0
    ? undefined
    : Math.min(...violatedPoints.map(({ load }) => load.rateRps))
}

type OpenPoint = LoadPoint & { readonly load: OpenLoad }
const selectOpenPoints = (points: readonly LoadPoint[]): OpenPoint[] =>
  points.filter(
    (point): point is OpenPoint =>
      point.load.kind === 'open' && point.load.arrivals.kind !== 'sweep',
  )

/** Describes the outages that are too rare for the time under open load. */
function describeUnobservedOutages(points: readonly LoadPoint[]): string {
  const openS = points.reduce(
    (sum, { load, seconds }) => sum + (load.kind === 'open' ? seconds : 0),
    0,
  )
  const secondsText = openS < 10 ? openS.toFixed(1) : openS.toFixed(0)
  return `the server was observed under open load for ${secondsText} s: outages rarer than one per ${secondsText} s would have gone unnoticed`
}

/** Summarises a measurement in one sentence. */
export function summariseMeasurement({
  outcome,
  capacityRps,
  capacityCi90Rps: [low, high],
  detail,
  bounds,
  points,
  slo,
}: Measurement): Verdict {
  if (outcome === 'slo-unattainable')
    return { verdict: 'violated', summary: `the SLO cannot be met: ${detail}` }
  const violatedRps = findLowestViolatedRps(points, slo)
  if (capacityRps === 0 && bounds === 'upper' && violatedRps !== undefined)
    return { verdict: 'violated', summary: describeViolation(violatedRps) }
  if (capacityRps === 0 || outcome === 'server-died' || outcome === 'errors')
    return { verdict: 'failed', summary: `${outcome}: ${detail ?? 'no capacity was found'}` }
  const bound = resolveBound(outcome, high) === 'lower' ? 'at least ' : ''
  const interval = Number.isFinite(high)
    ? `90 % interval ${low.toFixed(1)} to ${high.toFixed(1)}`
    : 'no load violated the SLO'
  const limitNote = outcome === 'generator-limit' ? `; ${detail}` : ''
  return {
    verdict: 'met',
    summary: `${bound}${capacityRps.toFixed(1)} requests per second at ${sloText(slo)} (${interval})${limitNote}`,
  }
}
