/**
 * Evidence of the open windows at one rate, evaluated after each: whether they show that the SLO is
 * met or violated.
 */
import { rate } from '../../format.ts'
import { exceedsErrorRate, type Slo } from '../../model/slo.ts'
import { computeEValues, convertEValue } from '../../statistics/sequential.ts'
import type { PlayedLoad } from '../session.ts'
import type { MeasurementAgreement } from './agreement.ts'
import { computeMinSpanS, hasTooFewToProve, maxTimeFactor, minEToProve } from './proof-time.ts'
import { RateWindows } from './rate-windows.ts'

/** E-value from which the SLO counts as violated at once: 99 % confidence. */
const minEToReject = 100
/**
 * E-value from which a violation is likely. Where a lower rate may still be proven, this one is
 * then given up early, before outages could have been observed. 1.3 and 4 give the same rates
 * (docs/research/capacity.md).
 */
const minELikelyViolated = 2
/**
 * Shortest time of a proof, as a share of `seconds`: a shorter one would miss rare outages.
 * Assumed.
 */
const minTimeShare = 1 / 3
/** Tolerance for the rounding of times: a millionth. */
const timeRounding = 1e-6
/**
 * Assumed utilization at a rate to be confirmed. Latencies are correlated over about 1 / (1 -
 * utilization)² services, which is fewer at lower rates. 0.7 and 0.92 give rates within 1 %
 * (docs/research/capacity.md).
 */
const assumedUtilization = 0.85
/**
 * Target for the waiting time at the percentile when a lower rate is chosen, as a share of the wait
 * that the limit allows. A percentile just below the limit is seldom proven. 0.6 and 1 give rates
 * within 1 % (docs/research/capacity.md).
 */
const targetWaitShare = 0.8
/**
 * Lowest target rate, as a factor on the rate that was too high. The queue of an overloaded server
 * is no basis for extrapolating further down. Assumed.
 */
const minRateFactor = 0.85
/**
 * A window is cut once its violations exceed those that the SLO allows at the rate, by this factor
 * and this number. Assumed.
 */
const cutFactor = 1.5
const minViolationsToCut = 5

interface RateEvidenceOptions {
  readonly rateRps: number
  readonly slo: Slo
  /** Time after which the evidence decides, proven or not. */
  readonly seconds: number
  /**
   * Without a proof, the SLO counts as met only if a window of at least this length met it. Each
   * window begins with an empty server, whose queue takes time to grow. Default 0.
   */
  readonly fillWindowS?: number
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
  readonly agreement?: MeasurementAgreement
}

/**
 * 'invalid': too many windows were invalid. 'unproven': the rate may meet the SLO, but the time
 * does not suffice to prove it.
 */
export type RateDecision = 'met' | 'violated' | 'invalid' | 'unproven'

/** Decides, window after window, whether one rate meets the SLO. */
export class RateEvidence {
  private readonly windows: RateWindows

  constructor(private readonly options: RateEvidenceOptions) {
    this.windows = new RateWindows(options.slo, options.agreement)
  }

  /** Further requests over the limit that make a violation certain, so that a window may be cut. */
  get maxFurtherViolations(): number {
    const { slo, rateRps, seconds } = this.options
    const allowed = rateRps * seconds * (1 - slo.percentile)
    const maxViolations = Math.ceil(cutFactor * allowed) + minViolationsToCut
    return Math.max(minViolationsToCut, maxViolations - this.windows.violations)
  }

  /** @param restedS time without load before the window */
  add(played: PlayedLoad, restedS = 0): void {
    this.windows.add(played, restedS)
  }

  /** Undefined: another window is needed. */
  get decision(): RateDecision | undefined {
    const { counted, areInvalid, isMet, countedS } = this.windows
    const { slo, seconds } = this.options
    if (areInvalid) return 'invalid'
    if (counted === undefined) return undefined
    const { point, run } = counted.played
    const { violatedEValue } = this.computeEvidence()
    if (run.cutMs !== undefined || exceedsErrorRate(point, slo) || violatedEValue >= minEToReject)
      return 'violated'
    const isTimeUp = countedS >= (1 - timeRounding) * seconds
    if (!isMet && !isTimeUp && violatedEValue >= minELikelyViolated && this.canProveLower)
      return 'unproven'
    // Too little time has passed to exclude outages.
    if (!this.canEnd) return undefined
    if (isMet && this.isProven && !this.hasOutage) return 'met'
    if (isTimeUp && !isMet) return 'violated'
    if (isTimeUp && this.isProven) return 'met'
    if (this.canBeProven) return undefined
    if (this.canProveLower) return 'unproven'
    return isTimeUp && this.hasFillWindow ? 'met' : undefined
  }

  /**
   * Whether the next window must be long enough for a queue to grow beyond the limit: neither this
   * rate nor a useful lower one can be proven.
   */
  get needsFillWindow(): boolean {
    if (this.hasFillWindow) return false
    return this.windows.counted === undefined
      ? hasTooFewToProve(this.options)
      : this.canEnd && !this.canBeProven && !this.canProveLower
  }

  /** Whether one of the windows was that long. */
  private get hasFillWindow(): boolean {
    const longestS = this.windows.counted?.longestS ?? 0
    return longestS >= (1 - timeRounding) * (this.options.fillWindowS ?? 0)
  }

  /** Whether the extended time will prove this rate, if violations stay as frequent as before. */
  private get canBeProven(): boolean {
    const timeFactor = (maxTimeFactor * this.options.seconds) / this.windows.countedS
    return (
      timeFactor > 1 + timeRounding &&
      this.initialCapital * this.computeEvidence(timeFactor).metEValue >= minEToProve
    )
  }

  /**
   * Whether the extended time would prove `minProvenRps`, if no request exceeded the limit there.
   */
  private get canProveLower(): boolean {
    const { minProvenRps, rateRps, seconds, slo } = this.options
    const { counted, countedS } = this.windows
    if (minProvenRps === undefined || counted === undefined) return false
    const rateShare = minProvenRps / rateRps
    const relaxation = ((1 - assumedUtilization) / (1 - assumedUtilization * rateShare)) ** 2
    const requestFactor = (rateShare * maxTimeFactor * seconds) / countedS
    const eValues = counted.shares.map(
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
    const { seconds, agreement } = this.options
    return agreement === undefined || agreement.agrees
      ? this.observedS >= (minTimeShare - timeRounding) * seconds
      : this.observedS >= (1 - timeRounding) * seconds &&
          this.spanS >= (1 - timeRounding) * computeMinSpanS(seconds)
  }

  /** Computes the time without load before the next window, seconds; 0 before any window counts. */
  computeRestS(windowS: number): number {
    const { seconds, agreement } = this.options
    if (agreement === undefined || agreement.agrees || this.windows.counted === undefined) return 0
    const windowsLeft = Math.max(1, Math.ceil((seconds - this.observedS) / windowS - timeRounding))
    return Math.max(0, (computeMinSpanS(seconds) - this.spanS) / windowsLeft - windowS)
  }

  /** Wall-clock time from the first to the last window, with those of higher rates. */
  get spanS(): number {
    return this.windows.spanS + (this.options.higher?.spanS ?? 0)
  }

  /**
   * Estimates the rate at which the percentile would be well within the limit, given the assumed
   * utilization of this rate. Waits grow as u / (1 - u) with the utilization u (Kingman,
   * Mathematical Proceedings of the Cambridge Philosophical Society 57 (1961)). Infinity where the
   * percentile already is well within the limit, and where it is infinite because of errors.
   * @param unloadedMs latency without waiting
   */
  estimateProvableRps(unloadedMs: number): number {
    const { rateRps, slo } = this.options
    const { counted } = this.windows
    const waitMs = counted === undefined ? 0 : counted.played.point.sloMs - unloadedMs
    const targetWaitMs = targetWaitShare * Math.max(0, slo.limitMs - unloadedMs)
    if (waitMs <= targetWaitMs || !Number.isFinite(waitMs)) return Number.POSITIVE_INFINITY
    // u / (1 - u) at the target rate.
    const targetOdds = ((assumedUtilization / (1 - assumedUtilization)) * targetWaitMs) / waitMs
    const targetUtilization = targetOdds / (1 + targetOdds)
    return rateRps * Math.max(minRateFactor, targetUtilization / assumedUtilization)
  }

  /** Whether the windows so far met the SLO, proven or not. */
  get isMet(): boolean {
    return this.windows.isMet
  }

  /** Whether a window is set aside for an outage that may return. */
  get hasOutage(): boolean {
    return this.windows.outage !== undefined
  }

  /**
   * All counted windows, concatenated; without any, the last invalid one or the one set aside.
   */
  get played(): PlayedLoad | undefined {
    return this.windows.played
  }

  /** Effective sample size; with classes, that of the class with the fewest. */
  get nEff(): number {
    const { counted } = this.windows
    const ownNEff = counted === undefined ? 0 : Math.min(...counted.shares.map(({ nEff }) => nEff))
    return ownNEff + (this.options.higher?.nEff ?? 0)
  }

  /** Confidence that the SLO is met, 0 to 1. */
  get confidence(): number {
    return convertEValue(this.metEValue)
  }

  get isProven(): boolean {
    return this.metEValue >= minEToProve
  }

  /** E-value for a met SLO; 0 before any window counts. */
  private get metEValue(): number {
    return this.windows.counted === undefined
      ? 0
      : this.initialCapital * this.computeEvidence().metEValue
  }

  /**
   * E-values of all windows, extrapolated by a factor in time: the smallest of all classes for a
   * met SLO, the largest for a violated one.
   */
  private computeEvidence(timeFactor = 1): {
    readonly metEValue: number
    readonly violatedEValue: number
  } {
    const eValuesByClass = this.windows.counted!.shares.map(({ n, violations, dispersion }) =>
      computeEValues(
        (timeFactor * n) / dispersion,
        (timeFactor * violations) / dispersion,
        1 - this.options.slo.percentile,
      ),
    )
    return {
      metEValue: Math.min(...eValuesByClass.map(({ met }) => met)),
      violatedEValue: Math.max(...eValuesByClass.map(({ violated }) => violated)),
    }
  }

  /** E-value with which this rate starts: 1, or the capital that a higher rate left. */
  private get initialCapital(): number {
    return this.options.higher?.capitalForLower ?? 1
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
    return this.windows.countedS + (this.options.higher?.observedS ?? 0)
  }

  listCaveats(): string[] {
    const { outage, countedS } = this.windows
    if (outage === undefined) return []
    const ms = Math.round(outage.untilMs - outage.fromMs)
    return [
      `the server answered nothing for ${ms} ms of one window at ${rate(this.options.rateRps)}; this outage did not recur in ${Math.round(countedS)} s and is left out`,
    ]
  }
}
