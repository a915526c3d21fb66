import { fitSurrogate } from '../model/surrogate.ts'
import { countTrialsWithoutGain } from '../observed-cost.ts'
import { findCandidates } from '../space/candidates.ts'
import type { Observation, Problem, Rng, StopAssessment } from '../types.ts'
import { computeExpectedGain } from './expected-gain.ts'
import { findFirstFeasible, rankTrials } from './incumbent.ts'
import { estimateRegret } from './regret.ts'

export interface StopOptions {
  /** A configuration must be cheaper by more than this share to be worth finding, 0.05 = 5 %. */
  readonly tolerance?: number
  /** The search stops when the probability of such a configuration is at most this. */
  readonly risk?: number
}

/**
 * Trials before the posterior is used, and consecutive trials without a gain before a stop. Within
 * three trials of a gain the computed probability of a better configuration is too low; after ten
 * without one it is too high (116 runs of bench:search).
 */
const minTrials = { total: 5, withoutGain: 6 }
/**
 * The same with a device-model prior. While two trials without gain were required, and predictions
 * did not saturate, ResNet-50 took 12 trials, not 7 (docs/research/search.md, where trials take
 * minutes).
 */
const minTrialsWithPrior = { total: 2, withoutGain: 1 }
/**
 * With few untried configurations their number replaces `withoutGain`, but never less than this.
 * Assumed.
 */
const minTrialsWithoutGainIfFew = 2
/**
 * The recommended trial must be the best one with at least this probability. Without the condition,
 * 92 % of stops are right once measured again, not 94 % (docs/research/search.md, tried without
 * gain).
 */
const minProbabilityBest = 0.75

/**
 * Assesses whether to stop: P(an untried feasible configuration is more than `tolerance` cheaper
 * than the incumbent) is at most `risk`, the incumbent is probably the best trial, and the last
 * trials brought no gain.
 */
export function assessStop(
  problem: Problem,
  observations: readonly Observation[],
  rng: Rng,
  { tolerance = 0.05, risk = 0.05 }: StopOptions = {},
): StopAssessment {
  const triedConfigurations = observations.map((o) => o.configuration)
  const untriedConfigurations = findCandidates(
    problem,
    triedConfigurations,
    rng.fork('stop candidates'),
  ).configurations
  if (untriedConfigurations.length === 0)
    return { probabilityBetterExists: 0, tolerance, stop: true }
  const surrogate = fitSurrogate(problem, observations, [])
  const trials = rankTrials(problem, observations, surrogate)
  const incumbent = findFirstFeasible(trials)
  if (!incumbent) return { probabilityBetterExists: 1, tolerance, stop: false }

  const { probabilityBest, probabilityBetterExists, expectedRegret } = estimateRegret(
    problem,
    surrogate,
    trials,
    incumbent,
    untriedConfigurations,
    tolerance,
    rng.fork(`stop after ${observations.length}`),
  )

  const requiredTrials = problem.priorLogRate ? minTrialsWithPrior : minTrials
  const requiredWithoutGain = Math.min(
    requiredTrials.withoutGain,
    Math.max(minTrialsWithoutGainIfFew, untriedConfigurations.length),
  )
  const isPriorAccepted = problem.priorLogRate !== undefined && surrogate.isPriorAccepted
  // With an accepted device-model prior a gain within the tolerance does not prolong the search.
  const withoutGain = countTrialsWithoutGain(problem, observations, isPriorAccepted ? tolerance : 0)
  const outlook = {
    minTrials: Math.max(
      0,
      requiredWithoutGain - withoutGain,
      requiredTrials.total - observations.length,
    ),
    gain: computeExpectedGain(problem, surrogate, incumbent.logCost, untriedConfigurations),
    regret: expectedRegret,
  }
  if (observations.length < requiredTrials.total)
    return { probabilityBetterExists: 1, tolerance, stop: false, outlook }
  const isSettled =
    probabilityBest >= minProbabilityBest &&
    countTrialsWithoutGain(problem, observations) >= requiredWithoutGain
  return {
    probabilityBetterExists,
    tolerance,
    stop: probabilityBetterExists <= risk && isSettled,
    outlook,
  }
}
