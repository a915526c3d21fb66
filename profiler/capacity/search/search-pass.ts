/**
 * One pass of the capacity search, from the saturation measurement to a conclusion (states:
 * capacity-search.ts): its evidence, and its current estimate. A pass is repeated after host
 * interference or a further warm-up.
 */
import type { CapacityOutcome } from '../../model/measurement.ts'
import { describeQuotaWait } from '../admission-limits/cpu-quota.ts'
import { fitTokenBucket, type TokenBucket } from '../admission-limits/token-bucket.ts'
import { computeHalfWidth, type SearchResult } from '../capacity-bounds.ts'
import { estimateRemainingGain } from '../changes/speed-change.ts'
import { computeClosedLoopShare, describeClosedLoopShare } from '../closed-loop-share.ts'
import { findDisagreements } from '../consistency-checks.ts'
import { agreesWithExpectation } from '../expectation.ts'
import { boundBelow, boundByWindows, type ReportedCapacity } from '../interval.ts'
import type { CapacityPosterior } from '../queue-model/posterior.ts'
import { AgreedDiscipline } from './agreed-discipline.ts'
import { CapacityEstimator } from './capacity-estimator.ts'
import { Evidence } from './evidence.ts'
import type { LoopFacts } from './measure-saturation.ts'
import type { ObservedServer, PassHistory, SearchContext } from './search-context.ts'
import { WindowPlayer } from './window-player.ts'

export class SearchPass {
  readonly evidence: Evidence
  readonly estimator: CapacityEstimator
  readonly player: WindowPlayer
  /** Current estimate; undefined before the first valid window. */
  posterior: CapacityPosterior | undefined

  constructor(
    readonly context: SearchContext,
    readonly server: ObservedServer,
    readonly loops: LoopFacts,
    readonly history: PassHistory,
  ) {
    const { session, estimators, options } = context
    const { p50Ms } = server.unloaded.point
    const discipline = new AgreedDiscipline(p50Ms, options.discipline)
    this.evidence = new Evidence(session.slo, discipline, estimators.detectSlowdown)
    this.estimator = new CapacityEstimator(context, this.evidence, p50Ms, loops)
    this.player = new WindowPlayer(context, server, this.evidence)
  }

  /** Estimates the capacity to choose the next rate. */
  updateEstimate(): void {
    const estimate = this.estimator.estimateForNextRate()
    this.posterior = estimate?.posterior
    if (estimate !== undefined) this.evidence.discipline.record(estimate.discipline)
  }

  /** Estimates the capacity with the full simulation budget. */
  finishEstimate(): void {
    this.posterior = this.estimator.estimateFinal()?.posterior
  }

  /**
   * True if host interference disturbed the closed loops, no window violated the SLO, and the
   * estimate was capped because it far exceeds all observed throughput. The loops were then slowed.
   */
  get isSaturationTooLow(): boolean {
    return (
      this.loops.isDisturbed &&
      this.posterior?.isCapped === true &&
      !Number.isFinite(this.evidence.rates.violatedRps)
    )
  }

  /** Whether the current estimate agrees with the capacity that the caller expects. */
  get matchesExpectation(): boolean {
    return agreesWithExpectation(this.context.options.expectedRps, this.posterior?.capacityRps)
  }

  /** Half the width of the interval relative to the capacity; Infinity without an estimate. */
  get relativeHalfWidth(): number {
    return this.posterior === undefined
      ? Number.POSITIVE_INFINITY
      : computeHalfWidth(this.posterior)
  }

  /** Expected further speed-up of a server that still warms up, as a share of its current speed. */
  get remainingGain(): number {
    const gainPerS = Math.max(this.evidence.speedUpPerS, this.server.warmUp?.gainPerS ?? 0)
    return estimateRemainingGain(gainPerS, this.context.session.totalS)
  }

  /**
   * Fits a token bucket (rate limiter) to all loops and windows; undefined if none explains them.
   */
  fitBucket(): TokenBucket | undefined {
    const { loops } = this.context.session
    return fitTokenBucket([...loops, ...this.estimator.collectRunsWithRefusals()])
  }

  /**
   * Builds a result with the caveats of the pass.
   * @param capacity default: the estimate bounded by the windows; without an estimate, the highest
   * rate that met the SLO
   */
  buildResult(
    outcome: CapacityOutcome,
    detail?: string,
    capacity: ReportedCapacity = this.boundEstimate(outcome),
  ): SearchResult {
    const { evidence, posterior, loops, context } = this
    const { slo, fastestLoop } = context.session
    const runs = evidence.windows.map(({ run }) => run)
    const share = posterior && computeClosedLoopShare(posterior, fastestLoop)
    const caveats = [
      ...findDisagreements(runs, slo.limitMs),
      ...evidence.listCaveats(),
      ...(loops.quotaWaitShare > 0 ? [describeQuotaWait(loops.quotaWaitShare)] : []),
      ...(share === undefined ? [] : [describeClosedLoopShare(share)]),
    ]
    return { outcome, ...capacity, saturationRps: loops.saturationRps, detail, caveats }
  }

  private boundEstimate(outcome: CapacityOutcome): ReportedCapacity {
    const { posterior, evidence } = this
    return posterior === undefined || outcome === 'server-died'
      ? this.boundByMetRate()
      : boundByWindows(posterior, evidence.windowRates)
  }

  /** Bounds the capacity only from below, by the highest rate that met the SLO. */
  boundByMetRate(): ReportedCapacity {
    return boundBelow(this.posterior, this.evidence.rates.metRps)
  }
}
