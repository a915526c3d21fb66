/**
 * Decides what to try next, and when to stop. Everything but the time limit follows from the
 * ledger, so that a resumed run continues like an uninterrupted one.
 */
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration, StopAssessment, Suggestion } from '../../search/types.ts'
import type { FinishedTrial, TrialPurpose } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import type { EventBody, StopReason } from './events.ts'
import type { Ledger } from './ledger.ts'
import type { LoopParts } from './parts.ts'
import type { RetryRequest } from './retries.ts'
import { type Ending, findReasonToStop, reportSpaceExhausted } from './stop-reasons.ts'
import { estimateTrialSeconds } from './trial-duration.ts'
import type { TrialRequest } from './trial-runner.ts'
import { isAssessed, isSearchTrial } from './trial-status.ts'
import { computeRequiredGain, estimateTrialsLeft, type RequiredGain } from './trial-value.ts'

/** Endings after which the baseline is not measured: nothing is left to spend, or it would fail. */
const endingsWithoutBaseline: readonly StopReason[] = [
  'failed',
  'time-limit',
  'budget',
  'slo-unattainable',
  'machine-busy',
]

/** Endings that rest on predictions, which a refuted confirmation may change. */
const reversibleEndings: readonly StopReason[] = ['certain', 'not-worthwhile']

export class Policy {
  readonly #experiment: Experiment
  readonly #parts: LoopParts
  readonly #ledger: Ledger
  readonly #emit: (event: EventBody) => void
  readonly #startedMs: number
  /** The last result of the stop rule. */
  #assessment: StopAssessment | undefined
  /** Present once the search has ended; the baseline and confirmations may follow. */
  #ending: Ending | undefined
  /** Refuted confirmations that the last decision to end or continue took into account. */
  #handledRefutations: number

  constructor(
    experiment: Experiment,
    parts: LoopParts,
    ledger: Ledger,
    emit: (event: EventBody) => void,
  ) {
    this.#experiment = experiment
    this.#parts = parts
    this.#ledger = ledger
    this.#emit = emit
    this.#startedMs = parts.now()
    this.#handledRefutations = ledger.refutations
  }

  /** The last result of the stop rule; undefined before its first evaluation. */
  get assessment(): StopAssessment | undefined {
    return this.#assessment
  }

  /**
   * Restores the state of an interrupted run from the ledger: whether its search had ended, and
   * the last result of the stop rule.
   */
  restore(): void {
    const ledger = this.#ledger
    const { trialsOfRun, interrupted } = ledger
    const confirmations = countTrailing(trialsOfRun, 'confirmation')
    const beforeConfirmations = trialsOfRun.slice(0, trialsOfRun.length - confirmations)
    const baselines = countTrailing(beforeConfirmations, 'default')
    // Only the baseline and confirmations follow the end of a search.
    const mayHaveEnded =
      confirmations + baselines + interrupted.length > 0 &&
      interrupted.every(({ purpose }) => purpose === 'default' || purpose === 'confirmation')
    if (mayHaveEnded) {
      // A trailing baseline may have been measured after the search or within it, so both are
      // tried.
      this.#ending = this.#replayEndingBefore(confirmations + baselines)
      if (baselines > 0) this.#ending ??= this.#replayEndingBefore(confirmations)
    }
    ledger.evaluateBefore(this.#ending ? confirmations : 0, () => {
      this.#handledRefutations = ledger.refutations
      if (ledger.trials.some(isAssessed)) this.assess([])
    })
  }

  /**
   * Evaluates the stop rule again as it was before the last trials.
   * @returns why the search ended then; undefined: it would have continued
   */
  #replayEndingBefore(lastTrials: number): Ending | undefined {
    return this.#ledger.evaluateBefore(lastTrials, () => {
      if (!this.#ledger.trials.some(isAssessed)) return undefined
      this.#assessment = this.#evaluateStopRule()
      const { next, deferred } = this.#ledger.planRetries([])
      const isExhausted = () => next.length + deferred.length === 0 && !this.#suggest([])
      return (
        this.#findReasonToStop([]) ??
        (isExhausted() ? reportSpaceExhausted(this.#ledger) : undefined)
      )
    })
  }

  /**
   * Takes a trial that was under way when the run was interrupted. It starts from the beginning.
   */
  resumeInterrupted(): TrialRequest | undefined {
    const trial = this.#ledger.takeInterrupted(isSearchTrial)
    if (!trial) return undefined
    const { number, configuration, why, predicted, purpose } = trial
    const attempt = this.#ledger.countNextAttempt(configuration)
    return { number, configuration, why, predicted, purpose, attempt }
  }

  /** @param running configurations of the trials under way */
  shouldStop(running: readonly Configuration[]): boolean {
    return this.#ending !== undefined || this.#findReasonToStop(running) !== undefined
  }

  /**
   * Chooses the next trial: a retry, the baseline, a suggestion of the sampler, or at last a
   * deferred retry. Undefined: nothing is left to try.
   */
  chooseNext(running: readonly Configuration[]): TrialRequest | undefined {
    const { next, deferred } = this.#ledger.planRetries(running)
    if (next[0]) return this.#assignNumber(next[0])
    if (this.#shouldStartBaseline(running)) return this.#requestBaseline()
    const suggestion = this.#suggest(running)
    if (suggestion?.warning) this.#emit({ type: 'warning', message: suggestion.warning })
    if (suggestion) return this.createRequest(suggestion)
    return deferred[0] && this.#assignNumber(deferred[0])
  }

  /**
   * Suggests what to launch while the running trials are measured. Undefined if a retry comes next,
   * or if the running trials are predicted to be the last.
   */
  suggestLaunchAhead(running: readonly Configuration[]): Suggestion | undefined {
    if (this.shouldStop(running) || this.#ledger.planRetries(running).next.length > 0)
      return undefined
    const trialsLeft = this.#estimateTrialsLeft(running) ?? Number.POSITIVE_INFINITY
    return trialsLeft > running.length ? this.#suggest(running) : undefined
  }

  /** Turns a suggestion into a trial with a number. */
  createRequest({ configuration, why, predicted }: Suggestion): TrialRequest {
    return this.#assignNumber({
      configuration,
      why,
      predicted,
      purpose: this.#isBaseline(configuration) ? 'default' : undefined,
      attempt: this.#ledger.countNextAttempt(configuration),
    })
  }

  /** Ends the search, once nothing runs and nothing starts. */
  endSearch(): Ending {
    this.#ending ??= this.#findReasonToStop([]) ?? reportSpaceExhausted(this.#ledger)
    return this.#ending
  }

  /** Chooses the baseline once the search has ended: no decision of the search waited for it. */
  chooseFinalBaseline({ reason }: Ending): TrialRequest | undefined {
    const hasBudget = this.#ledger.countedTrials < this.#experiment.budget.maxTrials
    if (endingsWithoutBaseline.includes(reason) || !hasBudget) return undefined
    const { next } = this.#ledger.planRetries([])
    const retry = next.find(({ purpose }) => purpose === 'default')
    if (retry) return this.#assignNumber(retry)
    return this.#isBaselineMissing([]) ? this.#requestBaseline() : undefined
  }

  /**
   * Whether the search continues after confirmations: one of them was refuted, so that a further
   * trial is worthwhile again or the best is uncertain again.
   */
  shouldContinueAfterConfirmation(): boolean {
    const { refutations } = this.#ledger
    const isReversible = this.#ending && reversibleEndings.includes(this.#ending.reason)
    if (!isReversible || refutations === this.#handledRefutations) return false
    this.#handledRefutations = refutations
    this.assess([])
    if (this.#findReasonToStop([])) return false
    this.#ending = undefined
    return true
  }

  /** Evaluates the stop rule and reports its result. */
  assess(running: readonly Configuration[]): void {
    const assessment = this.#evaluateStopRule()
    this.#assessment = assessment
    const trialsLeft = this.#estimateTrialsLeft(running)
    this.#emit({
      type: 'stop-assessed',
      assessment,
      afterTrials: this.#ledger.countedTrials,
      ...(trialsLeft !== undefined && { trialsLeft }),
    })
  }

  #evaluateStopRule(): StopAssessment {
    const { assessStop, rng } = this.#parts
    return assessStop(this.#ledger.problem, this.#ledger.collectObservations(), rng)
  }

  #findReasonToStop(running: readonly Configuration[]): Ending | undefined {
    const { trials, trialsOfRun, countedTrials, spentUsd, secondsBeforeResume } = this.#ledger
    const { budget, parallel } = this.#experiment
    const processSeconds = (this.#parts.now() - this.#startedMs) / 1000
    // A sum of trial durations, so divided by the parallel trials to approximate wall time.
    const earlierSeconds = secondsBeforeResume / parallel
    const state = {
      trials,
      trialsOfRun,
      countedTrials: countedTrials + running.length + this.#countReservedTrials(running),
      spentUsd,
      elapsedS: processSeconds + earlierSeconds,
      assessment: this.#assessment,
      requiredGain: this.#computeRequiredGain(),
    }
    return findReasonToStop(state, budget)
  }

  /** Estimates the trials that will still run, as far as the stop rule predicts them. */
  #estimateTrialsLeft(running: readonly Configuration[]): number | undefined {
    if (this.#assessment === undefined) return undefined
    const { stop, outlook } = this.#assessment
    const requiredGain = this.#computeRequiredGain()
    if (!stop && (outlook === undefined || requiredGain === undefined)) return undefined
    const trialsLeft = stop ? 0 : estimateTrialsLeft(outlook!, requiredGain!)
    const maxLeft = this.#experiment.budget.maxTrials - this.#ledger.countedTrials
    return Math.max(0, Math.min(maxLeft, trialsLeft + this.#countReservedTrials(running)))
  }

  /** Computes the required gain; undefined while there is no best configuration. */
  #computeRequiredGain(): RequiredGain | undefined {
    const { trials, spentUsd, best } = this.#ledger
    return best && computeRequiredGain(this.#experiment, { trials, spentUsd, best })
  }

  #suggest(running: readonly Configuration[]): Suggestion | undefined {
    const { sampler, rng, backend } = this.#parts
    const ledger = this.#ledger
    const { givenUp, deferred } = ledger.planRetries(running)
    const listConfigurations = (trials: readonly { readonly configuration: Configuration }[]) =>
      trials.map(({ configuration }) => configuration)
    const excludedConfigurations = [
      ...running,
      ...listConfigurations(ledger.interrupted.filter(isSearchTrial)),
      ...givenUp,
      ...listConfigurations(deferred),
    ]
    const seconds = estimateTrialSeconds(ledger, backend.launcher.changesRunning)
    return sampler.suggest(
      ledger.problem,
      ledger.collectObservations(),
      excludedConfigurations,
      rng,
      seconds,
    )
  }

  /**
   * With a device-model prior the baseline would only delay the search, so it starts beside another
   * trial or after the search. Without one it is the first trial.
   */
  #shouldStartBaseline(running: readonly Configuration[]): boolean {
    const delaysNothing = this.#ledger.problem.priorLogRate
      ? running.length > 0
      : this.#ledger.isEmpty
    return delaysNothing && this.#isBaselineMissing(running)
  }

  /**
   * Counts the trials reserved for a missing baseline: one, unless the budget is a single trial.
   */
  #countReservedTrials(running: readonly Configuration[]): number {
    return this.#experiment.budget.maxTrials > 1 && this.#isBaselineMissing(running) ? 1 : 0
  }

  /** Whether there is a default configuration that was never tried. */
  #isBaselineMissing(running: readonly Configuration[]): boolean {
    const { trials, interrupted } = this.#ledger
    const triedTrials = [...trials, ...interrupted.filter(isSearchTrial)]
    return (
      this.#parts.defaultConfiguration !== undefined &&
      !running.some((configuration) => this.#isBaseline(configuration)) &&
      !triedTrials.some(({ configuration }) => this.#isBaseline(configuration))
    )
  }

  #isBaseline(configuration: Configuration): boolean {
    const { defaultConfiguration } = this.#parts
    return (
      defaultConfiguration !== undefined &&
      configurationKey(defaultConfiguration) === configurationKey(configuration)
    )
  }

  #requestBaseline(): TrialRequest {
    return this.createRequest({
      configuration: this.#parts.defaultConfiguration!,
      why: 'baseline (default configuration)',
    })
  }

  #assignNumber(request: RetryRequest): TrialRequest {
    return { ...request, number: this.#ledger.allocateNumber() }
  }
}

/** Counts the trials at the end that have a purpose. */
const countTrailing = (trials: readonly FinishedTrial[], purpose: TrialPurpose): number =>
  trials.length - 1 - trials.findLastIndex((trial) => trial.purpose !== purpose)
