/** Windows of a confirmation at one rate: selects the valid ones, and pools them. */
import { summariseRun } from '../../load/load-point.ts'
import { hasMissingSends } from '../../load/window-validity.ts'
import { countWithin, isInvalidWindow, meetsSlo, type Slo, splitByClass } from '../../model/slo.ts'
import { computeViolationShare, type ViolationShare } from '../../statistics/dependence.ts'
import { OutageScreen } from '../outage-screen.ts'
import { findOutageSpans } from '../outage-spans.ts'
import type { PlayedLoad } from '../session.ts'
import type { MeasurementAgreement } from './agreement.ts'
import { concatenateRuns } from './concatenate-runs.ts'

/**
 * Slowest requests whose clustering gives the dispersion: this factor on the allowed share, but at
 * most `maxTailShare` and at least `minTailRequests`. With a factor of 1, 51 proofs at the capacity
 * itself are false instead of 45 (docs/research/capacity.md, tried without gain).
 */
const tailFactor = 2
const maxTailShare = 0.1
const minTailRequests = 20
/**
 * Maximum invalid windows, in a row and in total, because bursts of other work pass. With one more,
 * the rate is given up. Assumed.
 */
const maxInvalidInARow = 2
const maxInvalid = 5

/** Counted windows: all valid ones, except one that is set aside for an outage. */
interface CountedWindows {
  /** Concatenated. */
  readonly played: PlayedLoad
  /** Violations of each request class. */
  readonly shares: readonly ViolationShare[]
  /** Total length of the windows, and that of the longest, seconds. */
  readonly totalS: number
  readonly longestS: number
}

export class RateWindows {
  counted: CountedWindows | undefined
  /** Wall-clock time since the start of the first window. */
  spanS = 0
  private readonly outages = new OutageScreen<PlayedLoad>()
  private invalidCount = 0
  private invalidInARow = 0
  private lastInvalid: PlayedLoad | undefined

  constructor(
    private readonly slo: Slo,
    private readonly agreement: MeasurementAgreement | undefined,
  ) {}

  /** @param restedS time without load before the window */
  add(played: PlayedLoad, restedS: number): void {
    const { slo } = this
    this.spanS += restedS + played.run.elapsedS
    if (this.isMetBy(played)) {
      this.count(played)
      return
    }
    if (isInvalidWindow(played.point, slo) || hasMissingSends(played.run)) {
      this.invalidCount++
      this.invalidInARow++
      this.lastInvalid = played
      // Host interference, not a saturated generator: measurements may disagree for that reason.
      if (played.point.invalid) this.agreement?.addDisturbed()
      return
    }
    const outages = findOutageSpans(played.run, slo.limitMs)
    for (const window of this.outages.screen(played, outages)) this.count(window)
  }

  /** Whether so many windows were invalid that the rate is given up. */
  get areInvalid(): boolean {
    return this.invalidInARow > maxInvalidInARow || this.invalidCount > maxInvalid
  }

  /** Whether the windows so far met the SLO, proven or not. */
  get isMet(): boolean {
    return this.counted !== undefined && this.isMetBy(this.counted.played)
  }

  /** Total length of the counted windows, seconds. */
  get countedS(): number {
    return this.counted?.totalS ?? 0
  }

  /** Requests over the limit in the counted windows. */
  get violations(): number {
    if (this.counted === undefined) return 0
    const { latencyMs } = this.counted.played.run
    return latencyMs.length - countWithin(latencyMs, this.slo.limitMs)
  }

  /** Outage whose window is set aside, as it may return. */
  get outage() {
    return this.outages.setAside?.outage
  }

  /**
   * All counted windows, concatenated; without any, the last invalid one or the one set aside.
   */
  get played(): PlayedLoad | undefined {
    return this.counted?.played ?? this.lastInvalid ?? this.outages.setAside?.window
  }

  /**
   * Whether a window met the SLO. Late sends count against the server, so an SLO met despite them
   * is met. A window with missing sends does not count: with them, it might have violated the SLO.
   */
  private isMetBy({ run, point }: PlayedLoad): boolean {
    return run.cutMs === undefined && meetsSlo(point, this.slo) && !hasMissingSends(run)
  }

  /** Adds a valid window to the counted ones. */
  private count(played: PlayedLoad): void {
    const { slo, counted } = this
    const { run } = played
    this.agreement?.add(played)
    this.invalidInARow = 0
    const seconds = run.cutMs === undefined ? run.load.durationS : run.seconds
    const allWindows = counted === undefined ? run : concatenateRuns(counted.played.run, run)
    const chooseTailShare = (n: number) =>
      Math.min(maxTailShare, Math.max(tailFactor * (1 - slo.percentile), minTailRequests / n))
    this.counted = {
      played: { run: allWindows, point: summariseRun(allWindows, slo) },
      shares: splitByClass(allWindows, slo).map(({ latencyMs }) =>
        computeViolationShare(latencyMs, slo.limitMs, chooseTailShare(latencyMs.length)),
      ),
      totalS: this.countedS + seconds,
      longestS: Math.max(counted?.longestS ?? 0, seconds),
    }
  }
}
