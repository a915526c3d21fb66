import { likeliestAnswer } from './answer.ts'
import { expectedGain } from './expected-gain.ts'
import { trialsWithoutGain } from './observed-cost.ts'
import type { Observation, Problem, Rng, StopAssessment } from './types.ts'
import { untried } from './untried.ts'

export interface StopOptions {
  /** 0.05: a configuration must be more than 5 % cheaper to be worth going on. */
  readonly tolerance?: number
  /** Stop when the probability that such a configuration exists falls to this. */
  readonly risk?: number
}

/** Trials before the posterior is believed at all, and trials without gain before the end. */
const LEAST = [5, 6] as const
/** The same where physics already knows the lie of the land. */
const LEAST_WITH_PHYSICS = [2, 1] as const
/**
 * Of few that are left, as many trials without gain as those are enough, but not fewer than this.
 */
const LEAST_OF_FEW = 2
/** How surely the recommended trial must be the answer, among those that were tried too. */
const SURE = 0.75

/**
 * P(some untried feasible configuration is more than `tolerance` cheaper than the best believed),
 * as often right on recorded tables as it says (docs/research/search.md). A search that has
 * just gained goes on, however sure, and so does one whose trials do not tell which of them to
 * recommend.
 */
export function assessStop(
  problem: Problem,
  observations: readonly Observation[],
  rng: Rng,
  { tolerance = 0.05, risk = 0.05 }: StopOptions = {},
): StopAssessment {
  const taken = observations.map((o) => o.configuration)
  // Nothing left: no doubt counts.
  const left = untried(problem, taken, rng.fork('stop candidates')).configurations
  if (left.length === 0) return { probabilityBetterExists: 0, tolerance, stop: true }
  const [least, usual] = problem.priorLogRate ? LEAST_WITH_PHYSICS : LEAST
  const withoutGain = Math.min(usual, Math.max(LEAST_OF_FEW, left.length))
  const gain = expectedGain(problem, observations, left)
  const answer =
    gain &&
    likeliestAnswer(
      problem,
      observations,
      rng.fork(`stop after ${observations.length}`),
      tolerance,
      left,
    )
  if (!answer) return { probabilityBetterExists: 1, tolerance, stop: false }
  const informed = problem.priorLogRate !== undefined && gain.informed
  // Where physics leads, what gained no more than the tolerance is no gain to wait for.
  const gainless = trialsWithoutGain(problem, observations, informed ? tolerance : 0)
  const trialsAtLeast = Math.max(0, withoutGain - gainless, least - observations.length)
  const outlook = { trialsAtLeast, gain: gain.share, regret: answer.expectedRegret }
  if (observations.length < least)
    return { probabilityBetterExists: 1, tolerance, stop: false, outlook }
  const { probabilityBetterExists, probabilityRight } = answer
  const settled =
    probabilityRight >= SURE && trialsWithoutGain(problem, observations) >= withoutGain
  return {
    probabilityBetterExists,
    tolerance,
    stop: probabilityBetterExists <= risk && settled,
    outlook,
  }
}
