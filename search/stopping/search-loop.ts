/**
 * A search, trial by trial: what to try next, until there is a reason to stop. Whoever drives it
 * measures.
 */

import type { Observation, Problem, Rng, Sampler, StopAssessment, Suggestion } from '../types.ts'
import { assessStop, type StopOptions } from './stop-rule.ts'

export interface RoundOptions {
  readonly maxTrials: number
  /**
   * Ends the search when the stop rule says so ('obey', the default), or asks it until it first
   * does ('assess').
   */
  readonly stop?: 'obey' | 'assess' | 'never'
  readonly rule?: StopOptions
  /** Asked after each trial; true ends the search. */
  readonly until?: (
    observations: readonly Observation[],
    assessments: readonly StopAssessment[],
  ) => boolean
}

export interface Searched {
  readonly observations: readonly Observation[]
  /** One for each trial after which the stop rule was asked. */
  readonly assessments: readonly StopAssessment[]
  readonly reason: 'certain' | 'max-trials' | 'space-exhausted' | 'ended'
}

/**
 * Yields what to try, and goes on with what came of it. Returns with the reason `ended` where
 * `until` says so.
 */
export function* searchRounds(
  problem: Problem,
  sampler: Sampler,
  rng: Rng,
  { maxTrials, stop = 'obey', rule, until }: RoundOptions,
): Generator<Suggestion, Searched, Observation> {
  const observations: Observation[] = []
  const assessments: StopAssessment[] = []
  const ended = (reason: Searched['reason']): Searched => ({ observations, assessments, reason })
  while (observations.length < maxTrials) {
    const suggestion = sampler.suggest(problem, observations, [], rng)
    if (!suggestion) return ended('space-exhausted')
    observations.push(yield suggestion)
    if (stop !== 'never' && !assessments.at(-1)?.stop) {
      const assessment = assessStop(problem, observations, rng, rule)
      assessments.push(assessment)
      if (stop === 'obey' && assessment.stop) return ended('certain')
    }
    if (until?.(observations, assessments)) return ended('ended')
  }
  return ended('max-trials')
}
