/** Collects the open windows of a search: which of them count, and the bounds that they set. */

import type { Load } from '../../model/load.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import {
  exceedsErrorRate,
  excludeTimeouts,
  judgeSloByInterval,
  maxLimitMs,
  meetsSlo,
  type Slo,
} from '../../model/slo.ts'
import { compareSpeeds, detectSlowdown, estimateSpeedUpPerS } from '../changes/speed-change.ts'
import { findInterference, sumSpansMs, type TimeSpans } from '../host-interference.ts'
import { findOutageSpans, type OutageSpan } from '../outage-spans.ts'
import type { Batching } from '../queue-model/batching.ts'
import { extractBatchServices } from '../queue-model/disciplines/identify-batching.ts'
import { extractFcfsServices } from '../queue-model/disciplines/workers.ts'
import { isBatchServer } from '../queue-model/queue-model.ts'
import type { IdentifiedDiscipline } from '../queue-model/service-discipline.ts'
import {
  departureCoalescingMs,
  emptyServiceLog,
  extractServiceLog,
  joinServiceLogs,
  type ObservedRun,
  type ServiceLog,
} from '../service-log/service-log.ts'

/**
 * An invalid window is repeated up to this many times in a row, and all windows together up to
 * `maxTotalRepeats`.
 */
const maxRepeats = 3
const maxTotalRepeats = 6
/** Largest relative difference of rates at which step durations are comparable. */
const rateTolerance = 0.05
/** A slower server counts as restored from this share of its speed in the first window. */
const minRestoredSpeed = 0.95
/**
 * No rate is tried below this factor on the lowest rate so far. For a sweep that is its start rate.
 */
const minRateFactor = 0.5
/**
 * With this many requests, a window at a quarter beyond the capacity violates the SLO: far more
 * than the allowed share exceed the limit.
 */
const minRequestsToRejectNearRate = 100
/**
 * With this many requests, a window at twice the capacity violates the SLO: at least one in five
 * exceeds the limit.
 */
const minRequestsToRejectDoubleRate = 20
/** The same for the length of the window, in SLO limits. */
const minWindowLimits = 4
/** Factor on a rate that the generator could not sustain. */
const generatorBackoff = 0.7

/**
 * Verdict on a window. 'counts': it is evidence. 'repeat': it is invalid or has a first outage, and
 * must be played again. 'faster', 'slower': the server changed its speed, and earlier windows were
 * dropped.
 */
type WindowVerdict = 'counts' | 'repeat' | 'faster' | 'slower'

/** A window that counts, and its load point. */
interface CountedWindow {
  readonly window: ObservedRun
  readonly point: LoadPoint
  /** The window has one rate; false for a sweep. */
  readonly steady: boolean
}

export class Evidence {
  private counted: CountedWindow[] = []
  /** Highest throughput of a steady window. */
  servedRps = 0
  /**
   * Highest steady rate whose window met the SLO, and the highest one whose 95 % interval met it.
   */
  metRps = 0
  ciMetRps = 0
  /** Lowest steady rate whose window violated the SLO. */
  violatedRps = Number.POSITIVE_INFINITY
  /** Lowest steady rate with an error rate beyond the SLO, and the highest one without. */
  failingRps = Number.POSITIVE_INFINITY
  errorFreeRps = 0
  /**
   * Lowest rate to try next, 0 before the first window. A few requests at a far lower rate would
   * not bound the rates in between.
   */
  minNextRps = 0
  /** Highest rate that the generator sustains; Infinity while it sustained all rates. */
  maxGeneratorRps = Number.POSITIVE_INFINITY
  /** Speed of the last window relative to the windows before it; 1 where it was not faster. */
  change = 1
  /** Present speed relative to the first window, for a server that slowed down. */
  relativeSpeed = 1
  /** The end of the last window was slower; another window has to confirm it. */
  maySlowDown = false
  /** Workers that serve requests in arrival order; defined once two estimates in a row agree. */
  workers: Pick<IdentifiedDiscipline, 'workers' | 'overheadMs'> | undefined
  private lastWorkers: number | undefined
  /** Batching parameters of a server with dynamic batching. */
  batching: Batching | undefined
  private hasSlowedDown = false
  /** Invalid windows in a row, and in total. */
  private invalidInARow = 0
  private invalidWindows = 0
  private playedMs = 0
  private disturbedMs = 0
  /** A window with a single outage longer than the limit, set aside until a second one occurs. */
  private outageWindow: (CountedWindow & { readonly outage: OutageSpan }) | undefined
  private outagesObserved = 0
  private readonly loopLogs = new Map<LoadRun, ServiceLog>()
  private readonly minInterferenceMs: number

  constructor(
    private readonly slo: Slo,
    private readonly unloadedMs: number,
    private readonly slowdownDetector = detectSlowdown,
  ) {
    this.minInterferenceMs = Math.max(10, 0.1 * slo.limitMs)
  }

  /** Departure coalescing tolerance. */
  get coalescingMs(): number {
    return departureCoalescingMs(this.unloadedMs)
  }

  /** Records the discipline that was identified after a window; undefined: none was. */
  recordDiscipline(discipline: IdentifiedDiscipline | undefined): void {
    const batching = discipline?.batching
    this.batching = batching?.cores === undefined ? batching : undefined
    if (discipline !== undefined && batching === undefined)
      this.recordWorkers(discipline.sharesCores ? undefined : discipline)
  }

  /**
   * Records the number of workers of the latest estimate. It is discarded where it differs from the
   * estimate before: the service times then depend on the load, which contradicts both.
   */
  recordWorkers(
    identified: Pick<IdentifiedDiscipline, 'workers' | 'overheadMs'> | undefined,
  ): void {
    const { lastWorkers = identified?.workers } = this
    this.workers = identified?.workers === lastWorkers ? identified : undefined
    this.lastWorkers = identified?.workers
  }

  /**
   * Runs that calibrate the queue model: open load only. A closed loop waits for its own answers,
   * which leaves the stages of a concurrent server idle.
   */
  get windows(): ObservedRun[] {
    return this.counted.map(({ window }) => window)
  }

  /** Whether the windows were invalid so often that repeating them is useless. */
  get isDisturbed(): boolean {
    return (
      this.invalidInARow > 0 &&
      (this.invalidInARow > maxRepeats || this.invalidWindows > maxTotalRepeats)
    )
  }

  /** Finds the host interference of a run and adds it to the total. */
  countDisturbed(run: LoadRun): TimeSpans {
    const spans = findInterference(run, this.minInterferenceMs)
    this.playedMs += 1000 * run.elapsedS
    this.disturbedMs += sumSpansMs(spans)
    return spans
  }

  /** Service logs of closed loops, memoised. */
  extractLoopLogs(loops: readonly LoadRun[]): ServiceLog[] {
    return loops.map((loop) => {
      const known =
        this.loopLogs.get(loop) ??
        extractServiceLog(loop, this.coalescingMs, findInterference(loop, this.minInterferenceMs))
      this.loopLogs.set(loop, known)
      return known
    })
  }

  /** Adds an open window. */
  add(run: LoadRun, point: LoadPoint, steady: boolean): WindowVerdict {
    this.minNextRps = Math.min(
      this.minNextRps || Number.POSITIVE_INFINITY,
      minRateFactor * lowestRate(run.load),
    )
    if (run.latencyMs.length < 0.97 * run.planned || run.generatorCores > 0.95) {
      this.maxGeneratorRps = Math.min(
        this.maxGeneratorRps,
        (generatorBackoff * run.latencyMs.length) / run.seconds,
      )
      return 'counts'
    }
    const served = shiftToActualSends(run)
    const disturbed = this.countDisturbed(run)
    const window = {
      run: served,
      disturbed,
      log: extractServiceLog(served, this.coalescingMs, disturbed),
    }
    if (sumSpansMs(disturbed) > 500 * run.elapsedS || point.invalid) {
      if (steady && run.cutMs === undefined && meetsSlo(point, this.slo)) {
        // An SLO met in spite of interference is met. But the window does not show the server's
        // speed, so it enters no service log.
        this.recordRate({ window, point, steady })
        return 'counts'
      }
      this.invalidInARow++
      this.invalidWindows++
      return 'repeat'
    }
    this.invalidInARow = 0
    const outages = findOutageSpans(served, this.slo.limitMs)
    this.outagesObserved += outages.length
    if (this.outagesObserved === 1 && outages.length === 1) {
      this.outageWindow = { window, point, steady, outage: outages[0]! }
      return 'repeat'
    }
    if (outages.length > 0 && this.outageWindow !== undefined) {
      // The outage has returned: outages are part of the server's behaviour.
      const { outageWindow } = this
      this.outageWindow = undefined
      this.absorb(outageWindow)
    }
    return this.absorb({ window, point, steady })
  }

  /** Counts a valid window, and checks whether the server changed its speed. */
  private absorb(counted: CountedWindow): WindowVerdict {
    const { log } = counted.window
    this.recordRate(counted)
    if (log.present.length === 0) return 'counts'
    const before = this.counted
    this.change =
      before.length > 0
        ? Math.max(
            1,
            compareSpeeds(
              before.map(({ window }) => window.log),
              log,
            ).ratio,
          )
        : 1
    if (this.change > 1) {
      this.counted = [counted]
      this.violatedRps = Number.POSITIVE_INFINITY
      this.maySlowDown = false
      const speed = this.relativeSpeed * this.change
      this.relativeSpeed = speed > minRestoredSpeed ? 1 : speed
      return 'faster'
    }
    this.counted.push(counted)
    const slowdown = this.slowdownDetector(this.collectComparableLogs())
    this.maySlowDown = slowdown !== undefined && slowdown.from === this.counted.length
    if (slowdown === undefined || this.maySlowDown) return 'counts'
    this.relativeSpeed *= slowdown.speed
    this.hasSlowedDown = true
    this.forgetBefore(slowdown.from)
    return 'slower'
  }

  /**
   * Logs whose step durations are comparable between rates: batch durations or service times. Other
   * servers, for example with shared cores, return `otherwise`.
   */
  private collectComparableLogs(otherwise: readonly ServiceLog[] = []): readonly ServiceLog[] {
    const { windows, workers } = this
    const logs = windows.map((window) => window.log)
    const extractServices = () =>
      workers === undefined ? undefined : extractFcfsServices(windows, workers)
    const extractBatches = () =>
      this.batching && extractBatchServices(windows, this.batching, this.coalescingMs)
    const known =
      extractBatches() ??
      (isBatchServer(joinServiceLogs(logs)) ? logs : (extractServices() ?? otherwise))
    // A server that refuses requests serves a selection of the arrivals, so its log is not
    // comparable.
    return known.map((of, i) =>
      exceedsErrorRate(excludeTimeouts(this.counted[i]!.point), this.slo) ? emptyServiceLog : of,
    )
  }

  /**
   * Share of its speed that the server gains per second, over its steady windows. Where step
   * durations depend on the rate, only windows at about the last rate are compared.
   */
  get speedUpPerS(): number {
    const lastRps = this.counted.at(-1)?.point.offeredRps ?? 0
    const known = this.collectComparableLogs(
      this.counted.map(({ window, point }) =>
        Math.abs(point.offeredRps / lastRps - 1) > rateTolerance ? emptyServiceLog : window.log,
      ),
    )
    return estimateSpeedUpPerS(known.filter((_, i) => this.counted[i]!.steady))
  }

  /**
   * Highest steady rate below `rateRps` whose window met the SLO with at least this many requests
   * and seconds; 0 without one.
   */
  findMetBelow(rateRps: number, minRequests = 0, minS = 0): number {
    const isLongEnough = ({ requests, seconds }: LoadPoint) =>
      requests >= minRequests && seconds >= minS
    const met = this.counted.filter(
      ({ window, point, steady }) =>
        steady &&
        window.run.cutMs === undefined &&
        isLongEnough(point) &&
        meetsSlo(point, this.slo),
    )
    return met.reduce(
      (highest, { point }) =>
        point.offeredRps < rateRps ? Math.max(highest, point.offeredRps) : highest,
      0,
    )
  }

  /**
   * Lowest steady rate from which every window violated the SLO, if there are two: an upper bound
   * of the capacity. Else Infinity.
   */
  get ciViolatedRps(): number {
    const steady = this.counted
      .filter(({ steady }) => steady)
      .sort((a, b) => b.point.offeredRps - a.point.offeredRps)
    // An error rate beyond the SLO bounds another capacity than latency does.
    const notViolated = steady.findIndex(
      ({ point }) =>
        judgeSloByInterval(point, this.slo) !== false ||
        exceedsErrorRate(excludeTimeouts(point), this.slo),
    )
    const violated = notViolated < 0 ? steady : steady.slice(0, notViolated)
    return violated.length > 1 ? violated.at(-1)!.point.offeredRps : Number.POSITIVE_INFINITY
  }

  /**
   * Highest steady rate below all violations whose window met the SLO with so many requests that it
   * would have violated the SLO a quarter beyond the capacity; 0 without one.
   */
  get credibleMetRps(): number {
    return this.findMetBelow(
      this.violatedRps,
      Math.max(minRequestsToRejectNearRate, 1 / (1 - this.slo.percentile)),
    )
  }

  /**
   * The same with fewer requests, enough for a violation at twice the capacity, where the queue
   * exceeds the limit.
   */
  get brieflyMetRps(): number {
    return this.findMetBelow(
      this.violatedRps,
      minRequestsToRejectDoubleRate,
      (minWindowLimits * maxLimitMs(this.slo)) / 1000,
    )
  }

  /**
   * Drops the windows before index `window`, which the server served at another speed, and the rate
   * bounds that they set.
   */
  private forgetBefore(window: number): void {
    this.counted = this.counted.slice(window)
    this.metRps = this.ciMetRps = this.servedRps = this.errorFreeRps = 0
    this.violatedRps = this.failingRps = Number.POSITIVE_INFINITY
    for (const window of this.counted) this.recordRate(window)
  }

  /** Updates the rate bounds by a window. */
  private recordRate({ window: { run }, point, steady }: CountedWindow): void {
    const { slo } = this
    if (!steady) return
    this.servedRps = Math.max(this.servedRps, point.achievedRps)
    if (exceedsErrorRate(excludeTimeouts(point), slo))
      this.failingRps = Math.min(this.failingRps, point.offeredRps)
    else if (run.cutMs === undefined)
      this.errorFreeRps = Math.max(this.errorFreeRps, point.offeredRps)
    if (meetsSlo(point, slo) && run.cutMs === undefined) {
      this.metRps = Math.max(this.metRps, point.offeredRps)
      if (judgeSloByInterval(point, slo) === true)
        this.ciMetRps = Math.max(this.ciMetRps, point.offeredRps)
    } else this.violatedRps = Math.min(this.violatedRps, point.offeredRps)
  }

  caveats(): string[] {
    const found: string[] = []
    if (this.hasSlowedDown)
      found.push('the server slowed down during the measurement: earlier windows are left out')
    if (this.disturbedMs >= 0.02 * this.playedMs && this.disturbedMs > 0) {
      const share = ((100 * this.disturbedMs) / this.playedMs).toFixed(0)
      const repeats = Math.min(this.invalidWindows, maxTotalRepeats)
      const repeated =
        repeats > 0
          ? `, and ${repeats} ${repeats === 1 ? 'window was' : 'windows were'} repeated`
          : ''
      found.push(
        `other work on this machine paused the load generator for ${share} % of the time, which is left out${repeated}`,
      )
    }
    if (this.outageWindow !== undefined) {
      const { outage, point, window } = this.outageWindow
      const who =
        window.disturbed.length > 0
          ? 'other work on this machine paused the load generator meanwhile'
          : 'the load generator kept running: the server had an outage, or waited'
      found.push(
        `the server answered nothing for ${Math.round(outage.untilMs - outage.fromMs)} ms of a window at ${point.offeredRps.toFixed(1)} requests per second (${who}); this outage did not recur in later windows and is left out`,
      )
    }
    return found
  }
}

const lowestRate = (load: Load): number =>
  load.kind !== 'open'
    ? Number.POSITIVE_INFINITY
    : load.arrivals.kind === 'sweep'
      ? load.arrivals.fromRps
      : load.rateRps

/**
 * The run with actual send times: a send that the generator delayed is a later arrival, and not the
 * server's fault.
 */
function shiftToActualSends(run: LoadRun): LoadRun {
  const { lateMs } = run
  if (lateMs === undefined) return run
  return {
    ...run,
    sentMs: run.sentMs.map((at, i) => at + lateMs[i]!),
    latencyMs: run.latencyMs.map((ms, i) => ms - lateMs[i]!),
  }
}
