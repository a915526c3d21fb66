/**
 * Which configurations are tried again, and when. Pure: the plan follows from the finished trials
 * of a run, so a resumed run has the same plan.
 */
import { hasNoResult } from '../../profiler/capacity/capacity-bounds.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { TrialRequest } from './trial-runner.ts'
import { isSearchTrial, wasDisturbed } from './trial-status.ts'

/** Attempts at one configuration before it is given up. Assumed. */
const maxAttempts = 3
/** One more than that for disturbed trials, because other work may outlast three attempts. */
const maxDisturbedAttempts = maxAttempts + 1
/** After this many disturbed attempts in a row, other configurations come first. Assumed. */
const maxDisturbedInRow = 2

export type RetryRequest = Omit<TrialRequest, 'number'>

export interface RetryPlan {
  /** To be tried next, in this order. */
  readonly next: readonly RetryRequest[]
  /** Disturbed: tried again after an undisturbed trial, or when nothing else is left. */
  readonly deferred: readonly RetryRequest[]
  /** Never tried again in this run. */
  readonly givenUp: readonly Configuration[]
}

/** @param trials finished trials of the run, in the order in which they ended */
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
    else if (trial.state === 'complete') next.push(...deferred.splice(0))
  }
  return { next, deferred, givenUp }
}

/** Number of the next attempt at a configuration, 1 for the first. */
export const countNextAttempt = (
  trials: readonly FinishedTrial[],
  configuration: Configuration,
): number => {
  const key = configurationKey(configuration)
  const isEarlierAttempt = (trial: FinishedTrial) =>
    isSearchTrial(trial) && configurationKey(trial.configuration) === key
  return 1 + trials.filter(isEarlierAttempt).length
}

function decideRetry(
  trial: FinishedTrial,
  attempt: number,
): 'none' | 'next' | 'deferred' | 'give-up' {
  const disturbed = wasDisturbed(trial)
  const hasResult = trial.state !== 'complete' || !hasNoResult(trial.measurement)
  if (trial.state !== 'failed' && !disturbed && hasResult) return 'none'
  const isFinal = trial.state === 'failed' && trial.final !== undefined
  if (isFinal || attempt >= (disturbed ? maxDisturbedAttempts : maxAttempts)) return 'give-up'
  return disturbed && attempt >= maxDisturbedInRow ? 'deferred' : 'next'
}
