/** One pass of the search: its evidence, and the present estimate of the capacity. */
import type { CapacityOutcome } from '../../model/measurement.ts'
import { describeQuotaWait } from '../admission-limits/cpu-quota.ts'
import { fitTokenBucket, type TokenBucket } from '../admission-limits/token-bucket.ts'
import { computeHalfWidth, type SearchResult } from '../capacity-bounds.ts'
import { computeShareOfLoops, describeShareOfLoops } from '../closed-loop-share.ts'
import { findDisagreements } from '../consistency-checks.ts'
import { agreesWithExpectation } from '../expectation.ts'
import { boundBelow, boundByWindows, type ReportedCapacity } from '../interval.ts'
import type { CapacityPosterior } from '../queue-model/posterior.ts'
import { AgreedDiscipline } from './agreed-discipline.ts'
import { CapacityEstimator } from './capacity-estimator.ts'
import { Evidence } from './evidence.ts'
import type { LoopFacts } from './measure-saturation.ts'
import type { Attempt, ObservedServer, SearchContext } from './search-context.ts'
import { WindowPlayer } from './window-player.ts'

export class SearchPass {
  readonly evidence: Evidence
  readonly estimator: CapacityEstimator
  readonly windows: WindowPlayer
  /** Present estimate; undefined before the first window that counts. */
  posterior: CapacityPosterior | undefined

  constructor(
    readonly context: SearchContext,
    readonly server: ObservedServer,
    readonly loops: LoopFacts,
    readonly attempt: Attempt,
  ) {
    const { session, estimators, options } = context
    const { p50Ms } = server.unloaded.point
    const agreed = new AgreedDiscipline(p50Ms, options.discipline)
    this.evidence = new Evidence(session.slo, agreed, estimators.detectSlowdown)
    this.estimator = new CapacityEstimator(context, this.evidence, p50Ms, loops)
    this.windows = new WindowPlayer(context, server, this.evidence)
  }

  /** Estimates the capacity to choose the next rate. */
  updateEstimate(): void {
    const estimate = this.estimator.estimateToPlan()
    this.posterior = estimate?.posterior
    if (estimate !== undefined) this.evidence.discipline.record(estimate.discipline)
  }

  /** Estimates the capacity with the full simulation budget. */
  finishEstimate(): void {
    this.posterior = this.estimator.estimateFinal()?.posterior
  }

  /**
   * Whether the estimate far exceeds all observed throughput, host interference disturbed the closed
   * loops, and no window violated the SLO. The loops then count as slowed, the saturation as too low.
   */
  get exceedsDisturbedLoops(): boolean {
    return (
      this.loops.isDisturbed &&
      this.posterior?.isCapped === true &&
      !Number.isFinite(this.evidence.rates.violatedRps)
    )
  }

  /** Whether the windows agree with the expected capacity. */
  get matchesExpectation(): boolean {
    return agreesWithExpectation(this.context.options.expectedRps, this.posterior?.capacityRps)
  }

  /** Half the width of the interval relative to the capacity; Infinity without an estimate. */
  get relativeHalfWidth(): number {
    return this.posterior === undefined
      ? Number.POSITIVE_INFINITY
      : computeHalfWidth(this.posterior)
  }

  /**
   * Speed that the server would gain in half as much time as it was under load so far, as a share
   * of its present speed.
   */
  get remainingGain(): number {
    const gainPerS = Math.max(this.evidence.speedUpPerS, this.server.warmUp?.gainPerS ?? 0)
    return (gainPerS * this.context.session.totalS) / 2
  }

  fitBucket(): TokenBucket | undefined {
    return fitTokenBucket([...this.context.session.loops, ...this.estimator.collectOpenRuns()])
  }

  /**
   * @param capacity default: the estimate bounded by the windows; without an estimate, the highest
   * rate that met the SLO
   */
  result(
    outcome: CapacityOutcome,
    detail?: string,
    capacity: ReportedCapacity = this.boundEstimate(outcome),
  ): SearchResult {
    const { evidence, posterior, loops, context } = this
    const { slo, fastestLoop } = context.session
    const runs = evidence.windows.map(({ run }) => run)
    const share = posterior && computeShareOfLoops(posterior, fastestLoop)
    const caveats = [
      ...findDisagreements(runs, slo.limitMs),
      ...evidence.listCaveats(),
      ...(loops.quotaWaitShare > 0 ? [describeQuotaWait(loops.quotaWaitShare)] : []),
      ...(share === undefined ? [] : [describeShareOfLoops(share)]),
    ]
    return { outcome, ...capacity, saturationRps: loops.saturationRps, detail, caveats }
  }

  private boundEstimate(outcome: CapacityOutcome): ReportedCapacity {
    const { posterior, evidence } = this
    return posterior === undefined || outcome === 'server-died'
      ? this.boundBelow()
      : boundByWindows(posterior, evidence.windowRates)
  }

  boundBelow(): ReportedCapacity {
    return boundBelow(this.posterior, this.evidence.rates.metRps)
  }
}
