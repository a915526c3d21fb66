/**
 * Plans which configurations are tried again, and when. Pure: the plan follows from the finished
 * trials of a run, so a resumed run has the same plan.
 */
import { hasNoResult } from '../../profiler/capacity/capacity-bounds.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { TrialRequest } from './trial-runner.ts'
import { isSearchTrial, wasDisturbed } from './trial-status.ts'

/** Attempts at one configuration before it is given up. Assumed. */
const maxAttempts = 3
/**
 * Attempts at a configuration whose trials are disturbed by host interference: one more, because
 * the interference may outlast three attempts. Assumed.
 */
const maxDisturbedAttempts = maxAttempts + 1
/**
 * A disturbed attempt from this number on is deferred: other configurations come first. Assumed.
 */
const minAttemptsToDefer = 2

export type RetryRequest = Omit<TrialRequest, 'number'>

export interface RetryPlan {
  /** To be tried next, in this order. */
  readonly next: readonly RetryRequest[]
  /**
   * Disturbed trials, retried after the next completed undisturbed trial, or when nothing else is
   * left.
   */
  readonly deferred: readonly RetryRequest[]
  /** Never tried again in this run. */
  readonly givenUp: readonly Configuration[]
}

/**
 * Plans the retries that follow from the finished trials.
 * @param trials finished trials of the run, in the order in which they ended
 */
export function planRetries(trials: readonly FinishedTrial[]): RetryPlan {
  let next: RetryRequest[] = []
  let deferred: RetryRequest[] = []
  const givenUp: Configuration[] = []
  const attempts = new Map<string, number>()
  for (const trial of trials.filter(isSearchTrial)) {
    const { configuration, why, predicted, purpose } = trial
    const key = configurationKey(configuration)
    const attempt = 1 + (attempts.get(key) ?? 0)
    attempts.set(key, attempt)
    const isOther = (one: RetryRequest) => configurationKey(one.configuration) !== key
    next = next.filter(isOther)
    deferred = deferred.filter(isOther)
    const decision = decideRetry(trial, attempt)
    const retry = { configuration, why, predicted, purpose, attempt: attempt + 1 }
    if (decision === 'next') next.push(retry)
    else if (decision === 'deferred') deferred.push(retry)
    else if (decision === 'give-up') givenUp.push(configuration)
    // The host is quiet again: deferred configurations may run.
    else if (trial.state === 'complete') next.push(...deferred.splice(0))
  }
  return { next, deferred, givenUp }
}

/** Counts the next attempt at a configuration, 1 for the first. */
export const countNextAttempt = (
  trials: readonly FinishedTrial[],
  configuration: Configuration,
): number => {
  const key = configurationKey(configuration)
  const isEarlierAttempt = (trial: FinishedTrial) =>
    isSearchTrial(trial) && configurationKey(trial.configuration) === key
  return 1 + trials.filter(isEarlierAttempt).length
}

/** Decides whether and when to retry after the `attempt`-th attempt; 'none' if it gave a result. */
function decideRetry(
  trial: FinishedTrial,
  attempt: number,
): 'none' | 'next' | 'deferred' | 'give-up' {
  const isDisturbed = wasDisturbed(trial)
  const lacksResult = trial.state === 'complete' && hasNoResult(trial.measurement)
  if (trial.state !== 'failed' && !isDisturbed && !lacksResult) return 'none'
  const isFinal = trial.state === 'failed' && trial.final !== undefined
  if (isFinal || attempt >= (isDisturbed ? maxDisturbedAttempts : maxAttempts)) return 'give-up'
  return isDisturbed && attempt >= minAttemptsToDefer ? 'deferred' : 'next'
}
