/**
 * The finished trials of an experiment, with the observations, retries, best candidate and costs
 * that they imply. A resumed run starts from the same ledger.
 */
import type { Candidate } from '../../reports/recommendation/types.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration, Observation, Problem } from '../../search/types.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import type { FinishedTrial, InterruptedTrial } from '../../trials/types.ts'
import { computeObjectiveScale, findRefutation, findRefuted, observeTrial } from './observations.ts'
import { excludeOutOfMemory } from './out-of-memory.ts'
import type { LoopParts } from './parts.ts'
import { countNextAttempt, planRetries, type RetryPlan } from './retries.ts'
import { countsAsTrial, isUnplaced } from './trial-status.ts'

export interface LedgerOptions
  extends Pick<LoopParts, 'problem' | 'learnFromTrials' | 'recommend' | 'progress'> {
  /** Trials of earlier processes, in the order in which they ended. */
  readonly earlier: readonly FinishedTrial[]
  readonly ownGpus?: readonly Gpu[]
}

export class Ledger {
  readonly #options: LedgerOptions
  readonly #trials: FinishedTrial[]
  #interrupted: readonly InterruptedTrial[]
  #lastNumber: number
  /** One observation per trial: the stop rule memoises by its identity. */
  readonly #observations = new WeakMap<FinishedTrial, Observation | undefined>()
  readonly #memoisedBest: () => Candidate | undefined
  readonly #memoisedProblem: () => Problem

  constructor(options: LedgerOptions) {
    const { earlier, progress, problem, learnFromTrials, recommend, ownGpus } = options
    this.#options = options
    this.#trials = [...earlier]
    this.#interrupted = progress?.running ?? []
    this.#lastNumber = Math.max(
      progress?.lastNumber ?? 0,
      ...[...earlier, ...this.#interrupted].map(({ number }) => number),
    )
    this.#memoisedBest = memoiseByTrialCount(
      this.#trials,
      (trials) => recommend(trials, undefined).best,
    )
    this.#memoisedProblem = memoiseByTrialCount(this.#trials, (trials) => {
      const remaining = excludeOutOfMemory(problem, trials, ownGpus)
      return learnFromTrials?.(remaining, trials) ?? remaining
    })
  }

  /** All trials of the experiment, in the order in which they ended. */
  get trials(): readonly FinishedTrial[] {
    return this.#trials
  }

  /** Trials of this process. */
  get trialsOfProcess(): readonly FinishedTrial[] {
    return this.#trials.slice(this.#options.earlier.length)
  }

  /**
   * Trials of this run, including those before its interruption. Trials of a run that ended are
   * excluded, because the cause of its failures may be gone.
   */
  get trialsOfRun(): readonly FinishedTrial[] {
    const { endedAfter = 0 } = this.#options.progress ?? {}
    return this.#trials.filter(({ number }) => number > endedAfter)
  }

  /** Total duration of the trials of this run before its interruption. */
  get secondsBeforeResume(): number {
    const { trialsOfRun, trialsOfProcess } = this
    return trialsOfRun
      .slice(0, trialsOfRun.length - trialsOfProcess.length)
      .reduce((sum, { seconds }) => sum + seconds, 0)
  }

  /** Number of trials that count towards the maximum. */
  get countedTrials(): number {
    return this.#trials.filter(countsAsTrial).length
  }

  /** Price of all trials, $. Waiting for a node costs nothing. */
  get spentUsd(): number {
    const { pricePerHour } = this.#options.problem
    return this.#trials.reduce((sum, { configuration, seconds, usage }) => {
      const paidSeconds = Math.max(0, seconds - (usage?.nodeWaitSeconds ?? 0))
      return sum + (pricePerHour(configuration) * paidSeconds) / 3600
    }, 0)
  }

  /**
   * The best candidate so far, by the ranking of the report. The same candidate is announced, sets
   * the capacity that other trials must beat, and values further trials.
   */
  get best(): Candidate | undefined {
    return this.#memoisedBest()
  }

  /**
   * The problem with what trials have shown: without the configurations that run out of memory, and
   * with predictions of pipelines by their stages.
   */
  get problem(): Problem {
    return this.#memoisedProblem()
  }

  /** Number of confirmations that refuted the measured capacity of their configuration. */
  get refutations(): number {
    return this.#trials.filter((trial) => findRefutation(trial) !== undefined).length
  }

  /** Collects the observations of all trials from which the search learns, without refuted ones. */
  collectObservations(): Observation[] {
    const { objective } = this.#options.problem
    const refuted = new Set(findRefuted(this.#trials))
    const scale = computeObjectiveScale(this.#trials, objective)
    return this.#trials.flatMap((trial) => {
      if (refuted.has(trial)) return []
      if (!this.#observations.has(trial))
        this.#observations.set(
          trial,
          observeTrial(trial, objective, scale) ?? this.#observeUnplaced(trial),
        )
      return this.#observations.get(trial) ?? []
    })
  }

  /** An unplaced configuration is infeasible in this run only: a resumed run tries it again. */
  #observeUnplaced(trial: FinishedTrial): Observation | undefined {
    if (trial.state !== 'failed' || !isUnplaced(trial) || this.#options.earlier.includes(trial))
      return undefined
    return { configuration: trial.configuration, state: 'infeasible', reason: trial.error }
  }

  /** Plans which configurations are tried again, without those that run. */
  planRetries(running: readonly Configuration[]): RetryPlan {
    const keys = new Set(running.map(configurationKey))
    const isIdle = (configuration: Configuration) => !keys.has(configurationKey(configuration))
    const { next, deferred, givenUp } = planRetries(this.#listAttempts())
    return {
      next: next.filter(({ configuration }) => isIdle(configuration)),
      deferred: deferred.filter(({ configuration }) => isIdle(configuration)),
      givenUp,
    }
  }

  /** Whether the configuration of a recorded trial is tried again next. */
  isRetriedNext({ configuration }: FinishedTrial): boolean {
    const key = configurationKey(configuration)
    const { next } = planRetries(this.#listAttempts())
    return next.some((retry) => configurationKey(retry.configuration) === key)
  }

  /** Counts the next attempt at a configuration, 1 for the first. */
  countNextAttempt(configuration: Configuration): number {
    return countNextAttempt(this.#listAttempts(), configuration)
  }

  /**
   * Lists the trials of the run that count as attempts. A resumed run tries unplaced configurations
   * again.
   */
  #listAttempts(): readonly FinishedTrial[] {
    const { earlier } = this.#options
    return this.trialsOfRun.filter((trial) => !isUnplaced(trial) || !earlier.includes(trial))
  }

  /** Trials that were under way when the run was interrupted, and have not started again. */
  get interrupted(): readonly InterruptedTrial[] {
    return this.#interrupted
  }

  /**
   * Removes and returns the first interrupted trial that matches, to repeat it under its number.
   */
  takeInterrupted(isMatch: (trial: InterruptedTrial) => boolean): InterruptedTrial | undefined {
    const interrupted = this.#interrupted.find(isMatch)
    this.#interrupted = this.#interrupted.filter((trial) => trial !== interrupted)
    return interrupted
  }

  /** Whether no trial of the experiment was ever started. */
  get isEmpty(): boolean {
    return this.#lastNumber === 0
  }

  /** Allocates the number of a trial that is about to start. */
  allocateNumber(): number {
    this.#lastNumber += 1
    return this.#lastNumber
  }

  /** Takes back the number of a trial that never started, unless a later number is in use. */
  releaseNumber(number: number): void {
    if (number === this.#lastNumber) this.#lastNumber -= 1
  }

  record(trial: FinishedTrial): void {
    this.#trials.push(trial)
  }

  /**
   * Evaluates a function on the ledger as it was before its last trials, without interrupted ones.
   */
  evaluateBefore<T>(lastTrials: number, evaluate: () => T): T {
    const laterTrials = this.#trials.splice(this.#trials.length - lastTrials)
    const interrupted = this.#interrupted
    this.#interrupted = []
    try {
      return evaluate()
    } finally {
      this.#trials.push(...laterTrials)
      this.#interrupted = interrupted
    }
  }
}

/**
 * Computes a value once per number of trials. Several callers need it between two trials, and
 * models are memoised by the identity of the problem.
 */
function memoiseByTrialCount<T>(
  trials: readonly FinishedTrial[],
  compute: (trials: readonly FinishedTrial[]) => T,
): () => T {
  let memo: { readonly count: number; readonly value: T } | undefined
  return () => {
    if (memo?.count !== trials.length) memo = { count: trials.length, value: compute(trials) }
    return memo.value
  }
}
