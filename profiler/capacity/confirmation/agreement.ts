/**
 * Decides whether the measurements of one configuration agree: the windows of a confirmation with
 * each other and with those of earlier trials. Where they disagree, the server varies over minutes,
 * and a few seconds of load prove little.
 */

import type { OpenLoad } from '../../model/load.ts'
import type { LatencySummary, LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Measurement, Variation } from '../../model/measurement.ts'
import { isInvalidWindow, meetsSlo, type Slo } from '../../model/slo.ts'
import { computeCriticalStandardErrors } from '../../statistics/change-detector.ts'
import { computeViolationShare } from '../../statistics/dependence.ts'
import { compareSpeeds } from '../changes/speed-change.ts'
import { doSharesDiffer, formatShare } from '../consistency-checks.ts'
import {
  computeCoalescingMs,
  extractServiceLog,
  type ServiceLog,
} from '../service-log/service-log.ts'
import type { PlayedLoad } from '../session.ts'

/** Requests over the limit in one window of open load. JSON-safe. */
interface WindowViolations {
  readonly rateRps: number
  readonly seconds: number
  readonly n: number
  /** Requests that failed or exceeded the limit. */
  readonly violations: number
  /** Effective sample size. */
  readonly nEff: number
  readonly met: boolean
}

/** Summary of the unloaded latency. */
type UnloadedSummary = Pick<LatencySummary, 'requests' | 'p50Ms' | 'p90Ms'>

/** An earlier measurement of the same configuration. JSON-safe. */
export interface EarlierMeasurement {
  readonly windows: readonly WindowViolations[]
  /** One request at a time. */
  readonly unloaded: UnloadedSummary
}

/**
 * Speeds within this share count as equal: the safety margin of a confirmed rate, which is 0.9 of
 * the estimated capacity.
 */
const speedTolerance = 0.1
/**
 * Smallest relevant change of the median unloaded latency, ms. Clocks and schedulers vary less.
 * Assumed.
 */
const minUnloadedChangeMs = 0.5
/**
 * Standard error of the median, times √n, over the distance from the median to the 90th percentile;
 * for a normal distribution.
 */
const errorByP90 = 1.2533 / 1.2816
/**
 * Violations at rates up to this factor on the confirmed rate count as disagreement. The confirmed
 * rate is 0.9 of the estimated capacity, so higher ones are expected to violate the SLO.
 */
const maxViolatedShare = 1.1
/** Shortest window that is compared with a violated one, as a share of its length. Assumed. */
const minComparedShare = 0.5
/** Tolerance for the rounding of planned rates. */
const rateRounding = 0.001

/** Extracts the windows and the unloaded latency of a stored measurement for a confirmation. */
export function extractEarlierMeasurement({
  points,
  unloaded,
  slo,
}: Measurement): EarlierMeasurement {
  const { requests, p50Ms, p90Ms } = unloaded
  const windows = points.flatMap((point): WindowViolations[] => {
    const { load, latencies } = point
    if (load.kind !== 'open' || load.arrivals.kind === 'sweep' || latencies === undefined) return []
    // Points store no count of violations; the goodput times the length is the number within the
    // limit.
    const violations = point.requests - Math.round(point.goodputRps * point.seconds)
    const nEff = point.requests / latencies.dispersion
    return countViolations(point, slo, { load, violations, nEff })
  })
  return { windows, unloaded: { requests, p50Ms, p90Ms } }
}

/** Counts the violations of a window; empty for an invalid one. */
function countViolations(
  point: LoadPoint,
  slo: Slo,
  {
    load: { rateRps, durationS },
    ...counts
  }: { readonly load: OpenLoad } & Pick<WindowViolations, 'violations' | 'nEff'>,
): WindowViolations[] {
  const met = !point.cut && meetsSlo(point, slo)
  if (point.requests === 0 || (!met && isInvalidWindow(point, slo))) return []
  return [{ rateRps, seconds: durationS, n: point.requests, ...counts, met }]
}

interface AgreementOptions {
  readonly slo: Slo
  /** Rate to be confirmed. */
  readonly rateRps: number
  /**
   * Unloaded latency before the windows. Where it differed from earlier ones, it was measured again
   * on the warm server.
   */
  readonly unloaded: UnloadedSummary
  readonly earlier: readonly EarlierMeasurement[]
}

/** Collects the measurements of a configuration, and lists their disagreements. */
export class MeasurementAgreement {
  private readonly windows: WindowViolations[]
  /** Windows of this confirmation, in time order. */
  private readonly ownWindows: {
    readonly rateRps: number
    readonly sloMs: number
    readonly speed: number
  }[] = []
  /** Service log of the first window at each rate. */
  private readonly firstLogs = new Map<number, ServiceLog>()
  private readonly unloadedBefore: UnloadedSummary | undefined
  private disturbedWindows = 0
  /** Describes a window that violated the SLO where others met it. */
  private violation: string | undefined

  constructor(private readonly options: AgreementOptions) {
    const { earlier, unloaded } = options
    this.windows = earlier.flatMap(({ windows }) => windows)
    this.unloadedBefore = findOtherUnloaded(earlier, unloaded)
    this.findViolation()
  }

  /** Adds a counted window (rate-windows.ts). */
  add({ run, point }: PlayedLoad): void {
    const { slo } = this.options
    const { load } = run
    if (load.kind !== 'open') return
    const { rateRps } = load
    const { violations, nEff } = computeViolationShare(run.latencyMs, slo.limitMs)
    this.windows.push(...countViolations(point, slo, { load, violations, nEff }))
    this.ownWindows.push({ rateRps, sloMs: point.sloMs, speed: this.measureSpeed(run, rateRps) })
    this.findViolation()
  }

  /** Adds a window that host interference made invalid. */
  addDisturbed(): void {
    this.disturbedWindows++
  }

  get agrees(): boolean {
    return this.disagreements.length === 0
  }

  /**
   * Describes the variation of the windows at a rate. Undefined where all measurements agree, or
   * without windows.
   * @param spanS wall-clock time from the first to the end of the last window
   */
  describeVariation(rateRps: number, spanS: number): Variation | undefined {
    const windows = this.ownWindows.filter((window) => window.rateRps === rateRps)
    const disagreements = this.disagreements
    if (disagreements.length === 0 || windows.length === 0) return undefined
    return {
      found: disagreements,
      windows: windows.length,
      spanS,
      sloMs: computeRange(windows.map(({ sloMs }) => sloMs)),
      speed: computeRange(windows.map(({ speed }) => speed)),
    }
  }

  /** One sentence per disagreement. */
  private get disagreements(): string[] {
    const disagreements: string[] = []
    if (this.violation !== undefined) disagreements.push(this.violation)
    const variedSpeeds = [...this.firstLogs.keys()]
      .map((rateRps) => this.ownWindows.filter((window) => window.rateRps === rateRps))
      .map((windows) => computeRange(windows.map(({ speed }) => speed)))
      .find(([slowest, fastest]) => fastest > (1 + speedTolerance) * slowest)
    if (variedSpeeds !== undefined)
      disagreements.push(
        `the server ran at ${variedSpeeds[0].toFixed(2)} to ${variedSpeeds[1].toFixed(2)} times the speed of its first window`,
      )
    if (this.unloadedBefore !== undefined) {
      const [before, now] = [this.unloadedBefore, this.options.unloaded]
      disagreements.push(
        `one request at a time took ${before.p50Ms.toPrecision(3)} ms in an earlier measurement and ${now.p50Ms.toPrecision(3)} ms in this one`,
      )
    }
    if (this.disturbedWindows > 0)
      disagreements.push(
        `other work on this machine disturbed ${this.disturbedWindows} more window${this.disturbedWindows === 1 ? '' : 's'}`,
      )
    return disagreements
  }

  /**
   * Measures the speed of a window relative to the first one at its rate. 1 for streams: their many
   * concurrent requests have no comparable steps.
   */
  private measureSpeed(run: LoadRun, rateRps: number): number {
    if (run.stream !== undefined) return 1
    const log = extractServiceLog(run, computeCoalescingMs(this.options.unloaded.p50Ms))
    const first = this.firstLogs.get(rateRps)
    if (first === undefined) this.firstLogs.set(rateRps, log)
    return first === undefined ? 1 : compareSpeeds([first], log).ratio
  }

  /**
   * Finds a window that violated the SLO where others met it at the same or a higher rate. Much
   * shorter windows that met it are ignored: each begins with an empty server, whose queue grows
   * slowly.
   */
  private findViolation(): void {
    if (this.violation !== undefined) return
    const violated = this.windows.filter(
      ({ met, rateRps }) => !met && rateRps <= maxViolatedShare * this.options.rateRps,
    )
    for (const window of violated) {
      const met = this.windows.filter(
        (other) =>
          other.met &&
          other.rateRps >= (1 - rateRounding) * window.rateRps &&
          other.seconds >= minComparedShare * window.seconds,
      )
      if (met.length === 0 || !doSharesDiffer(window, poolViolations(met))) continue
      this.violation = `one window violated the SLO at ${window.rateRps.toFixed(1)} requests per second (${formatShare(window)} of requests over the limit), ${met.length === 1 ? 'another' : `${met.length} others`} met it at that rate or higher (${formatShare(poolViolations(met))})`
      return
    }
  }
}

/** Finds the first earlier unloaded latency that differs from the present one. */
export const findOtherUnloaded = (
  earlier: readonly EarlierMeasurement[],
  now: UnloadedSummary,
): UnloadedSummary | undefined =>
  earlier.map(({ unloaded }) => unloaded).find((before) => doMediansDiffer(before, now))

const poolViolations = (windows: readonly WindowViolations[]) => ({
  n: windows.reduce((sum, { n }) => sum + n, 0),
  violations: windows.reduce((sum, { violations }) => sum + violations, 0),
  nEff: windows.reduce((sum, { nEff }) => sum + nEff, 0),
})

const computeRange = (values: readonly number[]): readonly [number, number] => [
  Math.min(...values),
  Math.max(...values),
]

/** Whether medians of unloaded latencies differ by more than tolerance, jitter and chance. */
function doMediansDiffer(before: UnloadedSummary, now: UnloadedSummary): boolean {
  const estimateErrorMs = ({ requests, p50Ms, p90Ms }: UnloadedSummary) =>
    (errorByP90 * (p90Ms - p50Ms)) / Math.sqrt(requests)
  const minChangeMs = Math.max(
    speedTolerance * Math.min(before.p50Ms, now.p50Ms),
    minUnloadedChangeMs,
    computeCriticalStandardErrors() * Math.hypot(estimateErrorMs(before), estimateErrorMs(now)),
  )
  return Math.abs(before.p50Ms - now.p50Ms) > minChangeMs
}
