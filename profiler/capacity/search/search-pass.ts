/** One pass of the search for the capacity by open load, guided by a queue model of the server. */
import { rate } from '../../format.ts'
import type { Arrivals } from '../../model/load.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { CapacityOutcome } from '../../model/measurement.ts'
import { exceedsErrorRate, planEarlyCut } from '../../model/slo.ts'
import { describeQuotaWait, detectQuotaWait } from '../admission-limits/cpu-quota.ts'
import { estimateBucketCapacity, fitTokenBucket } from '../admission-limits/token-bucket.ts'
import { computeHalfWidth, type SearchResult, unknownCapacity } from '../capacity-bounds.ts'
import { describeSlowdown, type detectSlowdown } from '../changes/speed-change.ts'
import { computeShareOfLoops, describeShareOfLoops, isAsFastAsLoops } from '../closed-loop-share.ts'
import { findDisagreements } from '../consistency-checks.ts'
import type { Effort } from '../effort.ts'
import { agreesWithExpectation } from '../expectation.ts'
import { allWindowsDisturbed, describeDisturbedLoops } from '../host-interference.ts'
import {
  boundBelow,
  boundByBucket,
  boundByFailures,
  boundByRefusals,
  boundByViolation,
  boundByWindows,
  boundPruned,
  chooseNextRate,
  farFactor,
  isContradicted,
  type ReportedCapacity,
} from '../interval.ts'
import { fadingOutagesCaveat } from '../queue-model/closed-loop-outages.ts'
import { estimateBusyWorkers, type identifyWorkers } from '../queue-model/disciplines/workers.ts'
import type { CapacityPosterior, estimatePosterior } from '../queue-model/posterior.ts'
import { estimateMaxBatch } from '../queue-model/queue-model.ts'
import { planOpeningLoop, saturate } from '../saturation.ts'
import { boundSystemCapacity } from '../service-log/service-log.ts'
import type { Session } from '../session.ts'
import type { RequestWarmUp } from '../warm-up.ts'
import { CapacityEstimator } from './capacity-estimator.ts'
import { Evidence } from './evidence.ts'
import { searchThrottledCapacity } from './quota-search.ts'

export interface SearchOptions {
  readonly seed: number
  readonly capacityToBeatRps?: number
  /** Capacity expected by the caller. */
  readonly expectedRps?: number
  /** Rate beyond which the server refuses requests. Where set, no closed loop is applied. */
  readonly refusesBeyondRps?: number
  /** Warm-up over as many connections as the search for the saturation starts with. */
  readonly warmUp?: RequestWarmUp
  /**
   * No further pass follows. Where host interference disturbed the closed loops, windows continue
   * until one violates the SLO or the time is up.
   */
  readonly isLast?: boolean
}

/**
 * Range of the sweep that first calibrates the queue model, and its mean rate, as shares of the
 * saturation. It shows idle and busy queues, and ends slightly overloaded.
 */
const sweepStartShare = 0.4
const sweepEndShare = 1.15
const sweepMeanShare = 0.775
/**
 * Share of the budget before which a narrow interval does not end the search. The interval does not
 * include rare outages before one has occurred.
 */
const minBudgetShare = 0.7
/** Rate of a window while there is no estimate, as a share of the saturation. */
const startShare = 0.7
/**
 * A saturation below this share of the capacity to beat prunes the trial. On some servers open load
 * exceeds the throughput of closed loops, but by less than a third.
 */
const prunableSaturationShare = 0.75
/** Simulations for the estimates that choose the next rate. */
const planningBudget = { requests: 6000, maxRequests: 30_000, replicates: 4 }
/** Factor from a violated rate to the next one, while no window has met the SLO. */
const retryFactor = 0.9
/** Windows that the search adds at its end until one meets the SLO. */
const maxLowerTries = 6
/**
 * A server is cold where it would gain more than this share of its speed in half as much time as it
 * was under load so far.
 */
const maxRemainingGain = 0.02
/** Restarts of the time budget for a server that changed its speed. */
const maxRestarts = 3
/** Windows that the search adds at its end to check a possible slowdown. */
const maxSlowdownChecks = 2

/**
 * A pass of the search. Its states: saturation by short closed loops; a sweep over rates to
 * calibrate the queue model; windows at the model's capacity until the interval is narrow or the
 * time is up; the conclusion. Only an open window that met the SLO is a lower bound.
 */
export class SearchPass {
  private readonly evidence: Evidence
  private readonly estimator: CapacityEstimator
  private saturationRps: number
  private posterior: CapacityPosterior | undefined
  private restarts = 0
  /** A closed loop that the server refused, which shows its system capacity. */
  private refusedLoop: LoadRun | undefined
  /** Share of each CPU-quota period that the server waited under closed loops. */
  private quotaWaitShare = 0
  private windowsPlayed = 0
  /** The pass ended while the server was still speeding up, so it needs more warm-up. */
  isCold = false
  /**
   * The pass ended with a saturation estimate that was too low; the search must restart from a
   * higher rate.
   */
  saturationTooLow = false
  /** Host interference disturbed the closed loops, so the saturation may be too low. */
  private areLoopsDisturbed = false
  /** Result of the window at a higher rate that checks a pruning decision. */
  private probe: 'met' | 'violated' | undefined

  constructor(
    private readonly session: Session,
    private readonly effort: Effort,
    private readonly unloaded: LoadPoint,
    private readonly options: SearchOptions,
    posteriorEstimator: typeof estimatePosterior,
    workerIdentifier: typeof identifyWorkers,
    slowdownDetector: typeof detectSlowdown,
  ) {
    this.evidence = new Evidence(session.slo, unloaded.p50Ms, slowdownDetector)
    this.estimator = new CapacityEstimator(
      session,
      this.evidence,
      unloaded.p50Ms,
      options.seed,
      posteriorEstimator,
      workerIdentifier,
    )
    this.saturationRps = options.refusesBeyondRps ?? unloaded.achievedRps
  }

  async run(): Promise<SearchResult> {
    const { effort, session, evidence } = this
    const early = await this.measureSaturation()
    if (early !== undefined) return early
    // The shortest budget has room for the sweep and one window.
    const searchS = Math.max(effort.budgetS, 2 * effort.windowS)
    const windowS = Math.max(effort.windowS, searchS / effort.windows)
    const sweep = {
      kind: 'sweep',
      fromRps: sweepStartShare * this.saturationRps,
      toRps: sweepEndShare * this.saturationRps,
    } as const
    const swept = await this.playWindow(
      sweepMeanShare * this.saturationRps,
      Math.min(windowS, searchS / 2),
      sweep,
    )
    if (swept !== undefined) return swept
    for (let steady = 0; ; steady++) {
      this.updateEstimate('estimateToPlan')
      if (this.exceedsLoops && !this.options.isLast) return this.concludeSaturationTooLow()
      const pruned = await this.pruneOrProbe(windowS)
      if (pruned !== undefined) return pruned
      const spent = session.spentS + 0.5 * windowS > effort.budgetS
      const minSearchS = this.matchesExpectation() ? 0 : minBudgetShare * effort.budgetS
      const hasEnoughEvidence =
        evidence.windows.length > 1 &&
        !this.posterior?.hasOutages &&
        this.isAsFastAsLoops() &&
        session.spentS >= minSearchS
      if (
        (hasEnoughEvidence && this.relativeHalfWidth() < effort.precision) ||
        (steady > 0 && spent)
      )
        return this.finishSearch()
      const failed = await this.playWindow(
        this.nextRate(),
        Math.min(windowS, Math.max(0.5 * windowS, effort.budgetS - session.spentS)),
      )
      if (failed !== undefined) return failed
    }
  }

  /**
   * Whether the server serves more than the closed loops reached: host interference slowed them,
   * and no window violated the SLO.
   */
  private get exceedsLoops(): boolean {
    return (
      this.areLoopsDisturbed &&
      this.posterior?.isCapped === true &&
      !Number.isFinite(this.evidence.violatedRps)
    )
  }

  /**
   * Measures the saturation. Its time is warm-up, not part of the budget. Returns a result where
   * the saturation already ends the search.
   */
  private async measureSaturation(): Promise<SearchResult | undefined> {
    const { session, effort } = this
    const { capacityToBeatRps: toBeatRps = 0, expectedRps, refusesBeyondRps, warmUp } = this.options
    if (refusesBeyondRps === undefined) {
      const found = await saturate(session, effort, this.saturationRps, {
        expectedRps,
        warmed: warmUp?.windows,
      })
      this.saturationRps = found.rps
      this.areLoopsDisturbed = found.disturbed
      this.refusedLoop = found.refusedLoop
      if (found.died) return this.result('server-died', session.causeOfDeath(found.point))
      if (
        !found.generatorLimited &&
        !found.disturbed &&
        found.rps * (1 + this.computeRemainingGain()) < prunableSaturationShare * toBeatRps
      ) {
        const detail = `stopped early: saturated at ${rate(found.rps)}, far below the ${rate(toBeatRps)} needed to win`
        const maxRps = found.rps / prunableSaturationShare
        return this.result('pruned', detail, boundPruned(undefined, maxRps, 0, toBeatRps))
      }
      const opened = await session.connect(
        planOpeningLoop(found, session.slo.limitMs, effort.saturationS),
      )
      if (opened !== undefined && exceedsErrorRate(opened.point, session.slo))
        this.refusedLoop = opened.run
      this.quotaWaitShare = detectQuotaWait(session.loops)
      const throttled = await searchThrottledCapacity(
        session,
        effort,
        this.unloaded,
        this.options,
        this.quotaWaitShare,
      )
      if (throttled !== undefined) return throttled
    }
    this.evidence.recordWorkers(
      estimateBusyWorkers(
        this.saturationRps,
        this.unloaded,
        estimateMaxBatch(this.evidence.extractLoopLogs(session.loops)),
      ),
    )
    session.startBudget()
    return undefined
  }

  /**
   * Chooses the next rate: the capacity of the model. While windows have violated the SLO and none
   * has met it, the rate is below all violations. It stays below rates at which requests fail and
   * rates that the generator cannot sustain.
   */
  private nextRate(): number {
    const { evidence } = this
    const { failingRps, maxGeneratorRps, metRps, violatedRps, minNextRps } = evidence
    const estimatedRps = this.posterior
      ? chooseNextRate(this.posterior, evidence)
      : startShare * this.saturationRps
    const unboundedRps =
      metRps > 0 || !Number.isFinite(violatedRps)
        ? estimatedRps
        : Math.min(this.posterior?.capacityCi90Rps[0] ?? estimatedRps, retryFactor * violatedRps)
    const soughtRps = Math.max(minNextRps, unboundedRps)
    if (this.posterior?.refusesWhenFull) return Math.min(soughtRps, maxGeneratorRps)
    const bucket = Number.isFinite(failingRps) ? this.fitBucket() : undefined
    if (bucket === undefined) return Math.min(soughtRps, 0.85 * failingRps, maxGeneratorRps)
    const errorFreeRps = estimateBucketCapacity(bucket, this.session.slo.maxErrorRate).rateRps
    // Earlier windows have emptied the bucket. It refills only while the load is below its rate.
    return Math.min(
      soughtRps,
      metRps > 0 ? errorFreeRps : retryFactor * Math.min(errorFreeRps, failingRps),
      maxGeneratorRps,
    )
  }

  /**
   * Plays an open window, and repeats it while the evidence requires that: it was invalid, or had a
   * first outage. Returns a result where the window ends the search. A sweep adds no point to the
   * load curve, as it has no single rate.
   */
  private async playWindow(
    rateRps: number,
    durationS: number,
    arrivals: Arrivals = { kind: 'poisson' },
  ): Promise<SearchResult | undefined> {
    const { session, evidence, unloaded, options } = this
    for (;;) {
      const cut = planEarlyCut(session.slo, Math.max(20, 0.3 * rateRps * durationS))
      const load = {
        kind: 'open',
        rateRps,
        durationS,
        arrivals,
        seed: options.seed + this.windowsPlayed++,
        cut,
      } as const
      const { run, point } = await session.play(load, 'search', arrivals.kind !== 'sweep')
      if (await session.died(point)) return this.result('server-died', session.causeOfDeath(point))
      if (run.cutMs !== undefined && options.refusesBeyondRps === undefined)
        await session.settle(unloaded)
      if (session.unresponsive)
        return this.result('server-died', session.causeOfDeath(session.unresponsive))
      const verdict = evidence.add(run, point, arrivals.kind !== 'sweep')
      if ((verdict === 'faster' || verdict === 'slower') && this.restarts < maxRestarts) {
        this.restarts++
        session.startBudget()
      }
      if (verdict !== 'repeat') return undefined
      if (evidence.isDisturbed)
        return this.posterior && evidence.metRps > 0
          ? this.conclude()
          : this.concludeDisturbed(allWindowsDisturbed)
      session.excludeFromBudget(run.elapsedS)
    }
  }

  /**
   * Prunes the trial where it cannot win. Where no window up to the rate to beat violated the SLO,
   * and the caller's expectation does not support the model, one window at a higher rate checks
   * first.
   */
  private async pruneOrProbe(windowS: number): Promise<SearchResult | undefined> {
    const pruned = this.pruneIfHopeless()
    if (pruned === undefined) return undefined
    const { evidence, probe, options } = this
    const { capacityToBeatRps: toBeatRps = 0 } = options
    const probeRps = Math.min(evidence.maxGeneratorRps, farFactor * pruned.capacityCi90Rps[1])
    if (
      probeRps >= toBeatRps ||
      probe === 'violated' ||
      evidence.violatedRps <= toBeatRps ||
      this.matchesExpectation()
    )
      return pruned
    if (probe !== undefined) return undefined
    const failed = await this.playWindow(probeRps, windowS)
    if (failed !== undefined) return failed
    this.probe = evidence.metRps > pruned.capacityCi90Rps[1] ? 'met' : 'violated'
    this.updateEstimate('estimateToPlan')
    return this.pruneOrProbe(windowS)
  }

  /**
   * Prunes the trial after two windows, as one may have been disturbed. One window suffices where
   * it agrees with an expectation below the rate to beat. A window that met the SLO at the rate to
   * beat prevents pruning.
   */
  private pruneIfHopeless(): SearchResult | undefined {
    const { posterior, evidence } = this
    const { capacityToBeatRps: toBeatRps = 0, expectedRps = toBeatRps } = this.options
    const minWindows = expectedRps < toBeatRps && this.matchesExpectation() ? 1 : 2
    if (
      posterior === undefined ||
      evidence.windows.length < minWindows ||
      posterior.below(toBeatRps) <= 0.98 ||
      this.exceedsLoops
    )
      return undefined
    const boundRps = Math.max(posterior.capacityCi90Rps[1], evidence.ciMetRps)
    if (
      isContradicted(posterior, evidence) ||
      boundRps >= toBeatRps ||
      boundRps * (1 + this.computeRemainingGain()) >= toBeatRps
    )
      return undefined
    const detail = `stopped early: cannot reach the ${rate(toBeatRps)} needed to win`
    const capacity = boundPruned(posterior, boundRps, evidence.violatedRps, toBeatRps)
    return this.result('pruned', detail, capacity)
  }

  private async finishSearch(): Promise<SearchResult> {
    const { effort, evidence } = this
    // Only a window that met the SLO is a lower bound, so lower rates follow until one does.
    // Another window also checks a possible slowdown.
    for (
      let tries = 0;
      (evidence.metRps === 0 && tries < maxLowerTries) ||
      (evidence.maySlowDown && tries < maxSlowdownChecks);
      tries++
    ) {
      const failed = await this.playWindow(this.nextRate(), effort.windowS)
      if (failed !== undefined) return failed
      if (evidence.relativeSpeed < 1 || evidence.maySlowDown) this.updateEstimate('estimateToPlan')
    }
    return this.conclude()
  }

  /** Estimates once more with the full simulation budget, and chooses the outcome. */
  private async conclude(): Promise<SearchResult> {
    const { effort, evidence } = this
    this.updateEstimate('estimateFinal')
    const { posterior } = this
    if (
      !posterior?.refusesWhenFull &&
      this.hasFailuresBelow(posterior?.capacityRps ?? Number.POSITIVE_INFINITY)
    )
      return this.concludeByErrors()
    if (posterior === undefined || posterior.capacityRps > evidence.maxGeneratorRps)
      return this.result(
        'generator-limit',
        'the load generator could not sustain the rate: the server may serve more',
        this.boundBelow(),
      )
    if (this.exceedsLoops) return this.concludeSaturationTooLow()
    await this.options.warmUp?.recheckGain()
    const change = evidence.change > 1 ? evidence.change : 1 + this.computeRemainingGain()
    this.isCold = change > 1 + maxRemainingGain
    if (this.isCold) return this.concludeSpeedUp(change)
    if (evidence.metRps === 0)
      return this.result(
        'budget',
        'no open window met the SLO',
        boundByViolation(posterior, evidence.violatedRps),
      )
    if (evidence.maySlowDown || evidence.relativeSpeed < 1) return this.concludeSlowdown()
    const refused = posterior.refusesWhenFull ? undefined : this.concludeByRefusals(posterior)
    if (refused !== undefined) return refused
    const isNarrow =
      this.relativeHalfWidth() < 2 * effort.precision &&
      !posterior.hasFadingOutages &&
      !isContradicted(posterior, evidence) &&
      computeShareOfLoops(posterior, this.session.fastestLoop) === undefined
    return this.result(
      isNarrow ? 'converged' : 'budget',
      posterior.refusesWhenFull
        ? (this.describeFailingRate() ?? 'requests are refused once the queue is full')
        : undefined,
    )
  }

  private concludeSpeedUp(speedRatio: number): SearchResult {
    const percent = ((speedRatio - 1) * 100).toFixed(0)
    const how =
      this.evidence.change > 1
        ? `its last window was served ${percent} % faster than those before it`
        : `${percent} % in half of the time it took so far`
    const found = this.result('non-stationary', `still speeding up: ${how}`, this.boundBelow())
    return { ...found, speedRatio }
  }

  /**
   * Speed that the server would gain in half as much time as it was under load so far, as a share
   * of its present speed.
   */
  private computeRemainingGain(): number {
    return (
      (Math.max(this.evidence.speedUpPerS, this.options.warmUp?.gainPerS ?? 0) *
        this.session.totalS) /
      2
    )
  }

  /** Reports the capacity of the server at its present speed. It may still get slower. */
  private concludeSlowdown(): SearchResult {
    const { maySlowDown, relativeSpeed } = this.evidence
    const found = this.result('non-stationary', describeSlowdown(relativeSpeed, maySlowDown))
    return { ...found, speedRatio: relativeSpeed }
  }

  private boundBelow = (): ReportedCapacity => boundBelow(this.posterior, this.evidence.metRps)

  private concludeDisturbed(detail: string): SearchResult {
    return this.result('host-interference', detail, unknownCapacity)
  }

  private concludeSaturationTooLow(): SearchResult {
    this.saturationTooLow = true
    return this.concludeDisturbed(describeDisturbedLoops(this.saturationRps))
  }

  /** Whether requests fail below a rate, by windows or by a token bucket. */
  private hasFailuresBelow(rateRps: number): boolean {
    const { failingRps, errorFreeRps } = this.evidence
    if (!Number.isFinite(failingRps)) return false
    const bucket = errorFreeRps > 0 ? this.fitBucket() : undefined
    return (
      Math.min(
        failingRps,
        bucket === undefined
          ? failingRps
          : estimateBucketCapacity(bucket, this.session.slo.maxErrorRate).rateRps,
      ) < rateRps
    )
  }

  private fitBucket = () => fitTokenBucket([...this.session.loops, ...this.collectOpenRuns()])

  /**
   * Reports a capacity that failures limit: requests fail at rates whose latency would meet the
   * SLO, by a full queue or a rate limit.
   */
  private concludeByErrors(): SearchResult {
    const { evidence, posterior, effort } = this
    const { errorFreeRps, failingRps } = evidence
    const bucket = errorFreeRps > 0 ? this.fitBucket() : undefined
    const capacity =
      bucket === undefined
        ? boundByFailures(posterior, evidence.findMetBelow(failingRps), failingRps, evidence)
        : boundByBucket(
            posterior,
            estimateBucketCapacity(bucket, this.session.slo.maxErrorRate),
            evidence,
          )
    const isNarrow = computeHalfWidth(capacity) < 2 * effort.precision
    const outcome = capacity.capacityRps > 0 ? (isNarrow ? 'converged' : 'budget') : 'errors'
    return this.result(outcome, this.describeFailingRate(), capacity)
  }

  /**
   * Reports a capacity with an unknown limit: requests were refused, but neither by a full queue
   * nor by an identified rate limit. Windows without refusals do not show where refusals begin. So
   * the interval reaches down to the capacity at the smallest system capacity that explains the
   * refusals. Undefined where no refusal is left to explain.
   */
  private concludeByRefusals(posterior: CapacityPosterior): SearchResult | undefined {
    const runs = [...this.session.loops, ...this.collectOpenRuns()].filter(({ errorKinds }) =>
      Object.keys(errorKinds).some((kind) => kind !== 'timeout'),
    )
    const [minPresent] = boundSystemCapacity(runs) ?? []
    // A token bucket also refuses requests at an idle server, so it explains them without a queue.
    if (minPresent === undefined || (minPresent < 2 && fitTokenBucket(runs) !== undefined))
      return undefined
    const { estimator, effort, saturationRps } = this
    const smallestRps =
      minPresent > 1 ? estimator.estimateLowRps(minPresent, effort.simulation, saturationRps) : 0
    const detail =
      'requests are refused under overload, but neither by a full queue nor by an identified rate limit: the rate at which refusals begin is unknown'
    return this.result('budget', detail, boundByRefusals(posterior, smallestRps, this.evidence))
  }

  /** Runs of open load, and the closed loop that was refused. */
  private collectOpenRuns(): LoadRun[] {
    const runs = this.evidence.windows.map(({ run }) => run)
    return this.refusedLoop === undefined ? runs : [this.refusedLoop, ...runs]
  }

  private describeFailingRate(): string | undefined {
    const { failingRps } = this.evidence
    return Number.isFinite(failingRps)
      ? `requests fail from ${failingRps.toFixed(1)} per second on, before they become slow`
      : undefined
  }

  /**
   * @param capacity default: the estimate bounded by the windows; without an estimate, the highest
   * rate that met the SLO
   */
  private result(
    outcome: CapacityOutcome,
    detail?: string,
    capacity: ReportedCapacity = this.boundEstimate(outcome),
  ): SearchResult {
    const { evidence, posterior, saturationRps, session } = this
    const runs = evidence.windows.map(({ run }) => run)
    const caveats = [...findDisagreements(runs, session.slo.limitMs), ...evidence.caveats()]
    if (posterior?.hasFadingOutages) caveats.push(fadingOutagesCaveat)
    if (this.quotaWaitShare > 0) caveats.push(describeQuotaWait(this.quotaWaitShare))
    const share = posterior && computeShareOfLoops(posterior, session.fastestLoop)
    if (share !== undefined) caveats.push(describeShareOfLoops(share))
    return { outcome, ...capacity, saturationRps, detail, caveats }
  }

  private boundEstimate(outcome: CapacityOutcome): ReportedCapacity {
    const { posterior, evidence } = this
    return posterior === undefined || outcome === 'server-died'
      ? this.boundBelow()
      : boundByWindows(posterior, evidence)
  }

  private updateEstimate(how: 'estimateToPlan' | 'estimateFinal'): void {
    const { evidence, saturationRps, quotaWaitShare } = this
    const budget = how === 'estimateFinal' ? this.effort.simulation : planningBudget
    if (evidence.windows.length === 0) {
      this.posterior = undefined
      return
    }
    const facts = { saturationRps, quotaWaitShare }
    const { posterior, discipline } = this.estimator[how](this.collectOpenRuns(), budget, facts)
    this.posterior = posterior
    if (how === 'estimateToPlan') evidence.recordDiscipline(discipline)
  }

  private isAsFastAsLoops(): boolean {
    return this.posterior !== undefined && isAsFastAsLoops(this.posterior, this.saturationRps)
  }

  /** Whether the windows agree with the expected capacity. */
  private matchesExpectation(): boolean {
    return agreesWithExpectation(this.options.expectedRps, this.posterior?.capacityRps)
  }

  /** Half the width of the interval relative to the capacity; Infinity without an estimate. */
  private relativeHalfWidth(): number {
    return this.posterior === undefined
      ? Number.POSITIVE_INFINITY
      : computeHalfWidth(this.posterior)
  }
}
