/**
 * Evidence of the open windows at one rate, evaluated after each: whether they show that the SLO is
 * met or violated.
 */

import { summariseRun } from '../../load/load-point.ts'
import { hasMissingSends } from '../../load/window-validity.ts'
import {
  countWithin,
  exceedsErrorRate,
  isInvalidWindow,
  maxLimitMs,
  meetsSlo,
  type Slo,
  splitByClass,
} from '../../model/slo.ts'
import { type OverShare, overShare } from '../../statistics/dependence.ts'
import { computeEValues, convertEValue } from '../../statistics/sequential.ts'
import { findOutageSpans, type OutageSpan } from '../outage-spans.ts'
import type { Played } from '../session.ts'
import type { Agreement } from './agreement.ts'
import { concatenateRuns } from './concatenate-runs.ts'

/** E-value from which the SLO counts as violated at once: 99 % confidence. */
const minEToReject = 100
/**
 * E-value from which a violation is likely. Where a lower rate may still be proven, this one is
 * then given up early, before outages could have been observed.
 */
const minELikelyViolated = 2
/**
 * E-value from which the SLO is proven, after any window: 95 % confidence. By Ville's inequality an
 * e-process ever exceeds 20 with at most that probability of error. `chooseTypicalArrivals` selects
 * schedules, so the bound is approximate: 6 % were measured for this 5 % rule.
 */
const minEToProve = 20
/** Shortest time of a proof, as a share of `seconds`: a shorter one would miss rare outages. */
const minTimeShare = 1 / 3
/** Factor on `seconds` up to which the time is extended where that may bring a proof. */
const maxTimeFactor = 2
/**
 * Factor on the time over which windows are spread where measurements disagree: a minute for 30 s.
 */
const spreadFactor = 2
/** Minimum wall-clock time of the windows at one rate where measurements disagree, seconds. */
export const spreadConfirmationS = (seconds: number): number => spreadFactor * seconds
/**
 * Assumed utilization at a rate to be confirmed. Latencies are correlated over about 1 / (1 -
 * utilization)² services, which is fewer at lower rates.
 */
const assumedUtilization = 0.85
/**
 * Target for the waiting time at the percentile when a lower rate is chosen, as a share of the wait
 * that the limit allows. A percentile just below the limit is seldom proven.
 */
const aimedWaitShare = 0.8
/**
 * Lowest target rate, as a factor on the rate that was too high. The queue of an overloaded server
 * is no basis for extrapolating further down.
 */
const minRateFactor = 0.85
/** Assumed dispersion: this many requests count as one independent request. */
const assumedDispersion = 3
/**
 * Length of a window at a rate that cannot be proven, in SLO limits: at 5 % beyond its capacity,
 * the queue of a server takes twenty limits to reach the limit.
 */
const limitsToFill = 20
/**
 * Slowest requests whose clustering gives the dispersion: twice the allowed share, but at most
 * `maxTailShare` and at least `minTailRequests`.
 */
const maxTailShare = 0.1
const minTailRequests = 20
/**
 * Invalid windows, in a row and in total, after which the rate is given up. A few are tolerated, as
 * bursts of other work pass.
 */
const maxInvalidInARow = 2
const maxInvalid = 5

interface RateQuestion {
  readonly rateRps: number
  readonly slo: Slo
  /** Time after which the evidence decides, proven or not. */
  readonly seconds: number
  /**
   * Without a proof, the SLO counts as met only if a window of at least this length met it. Each
   * window begins with an empty server, whose queue takes time to grow. Default 0.
   */
  readonly fillsS?: number
  /**
   * Lowest rate that is worth more, once proven, than this rate without proof. This rate is given
   * up where the time suffices only to prove that lower one. Absent: none.
   */
  readonly minProvenRps?: number
  /**
   * Evidence at a higher rate that met the SLO without proof. A server is no slower under less
   * load, so it also supports this rate.
   */
  readonly higher?: RateEvidence
  /**
   * Agreement of all measurements of the configuration. While they disagree, there is no early end
   * and the windows are spread over twice the time. Absent: they agree.
   */
  readonly agreement?: Agreement
}

/** Whether the rate has too few requests for a proof, even in the extended time. */
export const hasTooFewToProve = ({
  rateRps,
  seconds,
  slo,
}: Pick<RateQuestion, 'rateRps' | 'seconds' | 'slo'>): boolean =>
  computeEValues((rateRps * maxTimeFactor * seconds) / assumedDispersion, 0, 1 - slo.percentile)
    .met < minEToProve

/**
 * Length of a window in which the queue of a slightly overloaded server exceeds the limit, seconds.
 * It is at most the extended time.
 */
export const computeFillS = (slo: Slo, seconds: number): number =>
  Math.min(maxTimeFactor * seconds, (limitsToFill * maxLimitMs(slo)) / 1000)

/** Decides, window after window, whether one rate meets the SLO. */
export class RateEvidence {
  /** Total length of the windows that count, seconds. */
  private countedS = 0
  private invalid = 0
  private invalidInARow = 0
  private lastInvalid: Played | undefined
  /** A window with a single outage longer than the limit, set aside until a second one occurs. */
  private outageWindow: { readonly played: Played; readonly outage: OutageSpan } | undefined
  private hasOutageReturned = false
  /** All windows that count, concatenated, and the violations of each request class in them. */
  private state: { readonly played: Played; readonly shares: readonly OverShare[] } | undefined
  /** Length of the longest window that counts. */
  private longestS = 0
  /** Wall-clock time since the start of the first window. */
  private ownSpanS = 0

  constructor(private readonly question: RateQuestion) {}

  /** Further requests over the limit that make a violation certain, so that a window may be cut. */
  get overForViolation(): number {
    const { state } = this
    const { slo, rateRps, seconds } = this.question
    const over =
      state === undefined
        ? 0
        : state.played.run.latencyMs.length - countWithin(state.played.run.latencyMs, slo.limitMs)
    return Math.max(5, Math.ceil(1.5 * rateRps * seconds * (1 - slo.percentile)) + 5 - over)
  }

  /** @param restedS time without load before the window */
  add(played: Played, restedS = 0): void {
    const { slo, agreement } = this.question
    this.ownSpanS += restedS + played.run.elapsedS
    if (!this.isMetBy(played)) {
      if (isInvalidWindow(played.point, slo) || hasMissingSends(played.run)) {
        this.invalid++
        this.invalidInARow++
        this.lastInvalid = played
        if (played.point.invalid) agreement?.addDisturbed()
        return
      }
      const outages = findOutageSpans(played.run, slo.limitMs)
      if (outages.length === 1 && this.outageWindow === undefined && !this.hasOutageReturned) {
        this.outageWindow = { played, outage: outages[0]! }
        return
      }
      if (outages.length > 0 && this.outageWindow !== undefined) {
        // The outage has returned: outages are part of the server's behaviour.
        this.count(this.outageWindow.played)
        this.outageWindow = undefined
        this.hasOutageReturned = true
      }
    }
    this.count(played)
  }

  /**
   * Undefined: another window is needed. 'invalid': too many windows were invalid. 'unproven': this
   * rate may meet the SLO, but the time does not suffice to prove it.
   */
  get decision(): 'met' | 'violated' | 'invalid' | 'unproven' | undefined {
    const { state, countedS } = this
    const { slo, seconds } = this.question
    if (this.invalidInARow > maxInvalidInARow || this.invalid > maxInvalid) return 'invalid'
    if (state === undefined) return undefined
    const { point, run } = state.played
    const { violatedEValue } = this.computeEvidence()
    if (run.cutMs !== undefined || exceedsErrorRate(point, slo) || violatedEValue >= minEToReject)
      return 'violated'
    const isMet = this.isMetBy(state.played)
    const isTimeUp = countedS >= (1 - 1e-6) * seconds
    if (!isMet && !isTimeUp && violatedEValue >= minELikelyViolated && this.canProveLower)
      return 'unproven'
    // Too little time has passed to exclude outages.
    if (!this.canEnd) return undefined
    if (isMet && this.proven && !this.hasOutage) return 'met'
    if (isTimeUp && !isMet) return 'violated'
    if (isTimeUp && this.proven) return 'met'
    if (this.canBeProven) return undefined
    if (this.canProveLower) return 'unproven'
    return isTimeUp && this.hasFilled ? 'met' : undefined
  }

  /**
   * Whether the next window must be long enough for a queue to grow beyond the limit: neither this
   * rate nor a useful lower one can be proven.
   */
  get needsFilling(): boolean {
    if (this.hasFilled) return false
    return this.state === undefined
      ? hasTooFewToProve(this.question)
      : this.canEnd && !this.canBeProven && !this.canProveLower
  }

  /** Whether one of the windows was that long. */
  private get hasFilled(): boolean {
    return this.longestS >= (1 - 1e-6) * (this.question.fillsS ?? 0)
  }

  /** Whether the extended time will prove this rate, if violations stay as frequent as before. */
  private get canBeProven(): boolean {
    const timeFactor = (maxTimeFactor * this.question.seconds) / this.countedS
    return (
      timeFactor > 1 + 1e-6 &&
      this.initialCapital * this.computeEvidence(timeFactor).metEValue >= minEToProve
    )
  }

  /**
   * Whether the extended time would prove `minProvenRps`, if no request exceeded the limit there.
   */
  private get canProveLower(): boolean {
    const { countedS } = this
    const { minProvenRps, rateRps, seconds, slo } = this.question
    if (minProvenRps === undefined) return false
    const rateShare = minProvenRps / rateRps
    const relaxation = ((1 - assumedUtilization) / (1 - assumedUtilization * rateShare)) ** 2
    const requestFactor = (rateShare * maxTimeFactor * seconds) / countedS
    const eValues = this.state!.shares.map(
      ({ n, dispersion }) =>
        computeEValues(
          (requestFactor * n) / (1 + (dispersion - 1) * relaxation),
          0,
          1 - slo.percentile,
        ).met,
    )
    return this.capitalForLower * Math.min(...eValues) >= minEToProve
  }

  /**
   * Whether the windows were long enough that outages would have been observed; without that,
   * nothing is proven. Where measurements disagree, the full time is needed, spread over twice as
   * long.
   */
  get canEnd(): boolean {
    const { seconds, agreement } = this.question
    return agreement === undefined || agreement.agrees
      ? this.observedS >= (minTimeShare - 1e-6) * seconds
      : this.observedS >= (1 - 1e-6) * seconds &&
          this.spanS >= (1 - 1e-6) * spreadConfirmationS(seconds)
  }

  /** Time without load before the next window, seconds; 0 before any window counts. */
  restS(windowS: number): number {
    const { seconds, agreement } = this.question
    if (agreement === undefined || agreement.agrees || this.state === undefined) return 0
    const windows = Math.max(1, Math.ceil((seconds - this.observedS) / windowS - 1e-6))
    return Math.max(0, (spreadConfirmationS(seconds) - this.spanS) / windows - windowS)
  }

  /** Wall-clock time from the first to the last window, with those of higher rates. */
  get spanS(): number {
    return this.ownSpanS + (this.question.higher?.spanS ?? 0)
  }

  /**
   * Rate at which the percentile would be well within the limit, given the assumed utilization of
   * this rate. Waits grow as u / (1 - u) with the utilization u (Kingman, Mathematical Proceedings
   * of the Cambridge Philosophical Society 57 (1961)). Infinity where the percentile already is
   * well within the limit, and where it is infinite because of errors.
   * @param unloadedMs latency without waiting
   */
  provableRps(unloadedMs: number): number {
    const { rateRps, slo } = this.question
    const waitMs = this.state === undefined ? 0 : this.state.played.point.sloMs - unloadedMs
    const targetWaitMs = aimedWaitShare * Math.max(0, slo.limitMs - unloadedMs)
    if (waitMs <= targetWaitMs || !Number.isFinite(waitMs)) return Number.POSITIVE_INFINITY
    // u / (1 - u) at the target rate.
    const targetOdds = ((assumedUtilization / (1 - assumedUtilization)) * targetWaitMs) / waitMs
    const targetUtilization = targetOdds / (1 + targetOdds)
    return rateRps * Math.max(minRateFactor, targetUtilization / assumedUtilization)
  }

  /** Whether the windows so far met the SLO, proven or not. */
  get isMet(): boolean {
    return this.state !== undefined && this.isMetBy(this.state.played)
  }

  /** Whether a window is set aside for an outage that may return. */
  get hasOutage(): boolean {
    return this.outageWindow !== undefined
  }

  /**
   * All windows that count, concatenated; without any, the last invalid one or the one set aside.
   */
  get played(): Played | undefined {
    return this.state?.played ?? this.lastInvalid ?? this.outageWindow?.played
  }

  /** Effective sample size; with classes, that of the class with the fewest. */
  get nEff(): number {
    const own =
      this.state === undefined ? 0 : Math.min(...this.state.shares.map(({ nEff }) => nEff))
    return own + (this.question.higher?.nEff ?? 0)
  }

  /** Confidence that the SLO is met, 0 to 1. */
  get confidence(): number {
    return convertEValue(this.metEValue)
  }

  get proven(): boolean {
    return this.metEValue >= minEToProve
  }

  /** E-value for a met SLO; 0 before any window counts. */
  private get metEValue(): number {
    return this.state === undefined ? 0 : this.initialCapital * this.computeEvidence().metEValue
  }

  /**
   * E-values of all windows, extrapolated by a factor in time: the smallest of all classes for a
   * met SLO, the largest for a violated one.
   */
  private computeEvidence(timeFactor = 1): {
    readonly metEValue: number
    readonly violatedEValue: number
  } {
    const each = this.state!.shares.map(({ n, over, dispersion }) =>
      computeEValues(
        (timeFactor * n) / dispersion,
        (timeFactor * over) / dispersion,
        1 - this.question.slo.percentile,
      ),
    )
    return {
      metEValue: Math.min(...each.map(({ met }) => met)),
      violatedEValue: Math.max(...each.map(({ violated }) => violated)),
    }
  }

  /** E-value with which this rate starts: 1, or the capital that a higher rate left. */
  private get initialCapital(): number {
    return this.question.higher?.capitalForLower ?? 1
  }

  /**
   * Initial capital of a lower rate: half of 1 was bet on this rate and half was not. The mean of
   * both is an e-value again. E-values of successive windows are multiplied (Vovk and Wang, Annals
   * of Statistics 49 (2021), section 4).
   */
  private get capitalForLower(): number {
    return (1 + this.metEValue) / 2
  }

  /** Time under load in which an outage would have been observed: at this rate and higher ones. */
  private get observedS(): number {
    return this.countedS + (this.question.higher?.observedS ?? 0)
  }

  caveats(): string[] {
    if (this.outageWindow === undefined) return []
    const { outage } = this.outageWindow
    const ms = Math.round(outage.untilMs - outage.fromMs)
    return [
      `the server answered nothing for ${ms} ms of one window at ${this.question.rateRps.toFixed(1)} requests per second; this outage did not recur in ${Math.round(this.countedS)} s and is left out`,
    ]
  }

  /**
   * Late sends count against the server, so an SLO met in spite of them is met. Missing sends do
   * not count.
   */
  private isMetBy({ run, point }: Played): boolean {
    return run.cutMs === undefined && meetsSlo(point, this.question.slo) && !hasMissingSends(run)
  }

  /** Adds a valid window to those that count. */
  private count(played: Played): void {
    const { run } = played
    const { slo } = this.question
    this.question.agreement?.add(played)
    this.invalidInARow = 0
    const countedS = run.cutMs === undefined ? run.load.durationS : run.seconds
    this.countedS += countedS
    this.longestS = Math.max(this.longestS, countedS)
    const joined = this.state === undefined ? run : concatenateRuns(this.state.played.run, run)
    const tailShare = (n: number) =>
      Math.min(maxTailShare, Math.max(2 * (1 - slo.percentile), minTailRequests / n))
    this.state = {
      played: { run: joined, point: summariseRun(joined, slo) },
      shares: splitByClass(joined, slo).map(({ latencyMs }) =>
        overShare(latencyMs, slo.limitMs, tailShare(latencyMs.length)),
      ),
    }
  }
}
