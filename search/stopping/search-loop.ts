/** The search as a loop of trials that the caller measures. */
import type { Observation, Problem, Rng, Sampler, StopAssessment, Suggestion } from '../types.ts'
import { assessStop, type StopOptions } from './stop-rule.ts'

export interface SearchLoopOptions {
  readonly maxTrials: number
  /**
   * 'obey' (default) ends the search when the stop rule says so. 'assess' only records assessments,
   * until the first one that would stop. 'never' skips the rule.
   */
  readonly stop?: 'obey' | 'assess' | 'never'
  readonly rule?: StopOptions
  /** Called after each trial; true ends the search. */
  readonly until?: (
    observations: readonly Observation[],
    assessments: readonly StopAssessment[],
  ) => boolean
}

export interface SearchOutcome {
  readonly observations: readonly Observation[]
  /** Assessments of the stop rule, one after each trial from the first on. */
  readonly assessments: readonly StopAssessment[]
  /** 'ended': by `until`. */
  readonly reason: 'certain' | 'max-trials' | 'space-exhausted' | 'ended'
}

/** Runs a search: yields each suggestion, and expects its observation. */
export function* runSearchLoop(
  problem: Problem,
  sampler: Sampler,
  rng: Rng,
  { maxTrials, stop = 'obey', rule, until }: SearchLoopOptions,
): Generator<Suggestion, SearchOutcome, Observation> {
  const observations: Observation[] = []
  const assessments: StopAssessment[] = []
  const createOutcome = (reason: SearchOutcome['reason']): SearchOutcome => ({
    observations,
    assessments,
    reason,
  })
  while (observations.length < maxTrials) {
    const suggestion = sampler.suggest(problem, observations, [], rng)
    if (!suggestion) return createOutcome('space-exhausted')
    observations.push(yield suggestion)
    if (stop !== 'never' && !assessments.at(-1)?.stop) {
      const assessment = assessStop(problem, observations, rng, rule)
      assessments.push(assessment)
      if (stop === 'obey' && assessment.stop) return createOutcome('certain')
    }
    if (until?.(observations, assessments)) return createOutcome('ended')
  }
  return createOutcome('max-trials')
}
