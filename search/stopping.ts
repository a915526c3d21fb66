import type { Beliefs } from './feasibility.ts'
import { believedBest } from './incumbent.ts'
import { logCost } from './objective.ts'
import { trialsWithoutGain } from './stuck.ts'
import { fitSurrogate } from './surrogate.ts'
import type { Configuration, Observation, Problem, Rng, StopAssessment } from './types.ts'
import { untried } from './untried.ts'

export interface StopOptions {
  /** 0.05: a configuration must be more than 5 % cheaper to be worth going on. */
  readonly tolerance?: number
  /** Stop when the probability that such a configuration exists falls to this. */
  readonly risk?: number
}

/** Draws' deviations from the mean, widened: a posterior at fitted hyperparameters is too sure of itself by about this much (docs/search.md). */
const WIDENING = 2
/** Trials before the posterior is asked at all, and trials without gain before the end, some of which looked further than the model does (`isStuck`). */
const LEAST = [5, 6] as const
/** The same where physics already knows the lie of the land. */
const LEAST_WITH_PHYSICS = [2, 2] as const
const DRAWS = 256
/** No finite number of draws shows that something cannot be: Laplace's rule of succession. */
const LEAST_PROBABILITY = 1 / (DRAWS + 2)
const CONSIDERED = 200
/** Standard deviations within which something is possible. */
const REACH = 4

/**
 * P(some untried feasible configuration is more than `tolerance` cheaper than the best believed), as often right on recorded tables as it says
 * (docs/search.md). A search that has just gained goes on, however sure.
 */
export function assessStop(
  problem: Problem,
  observations: readonly Observation[],
  rng: Rng,
  { tolerance = 0.05, risk = 0.05 }: StopOptions = {},
): StopAssessment {
  const taken = observations.map((o) => o.configuration)
  const left = untried(problem, taken, rng.fork('stop candidates')).configurations
  // Nothing left: no doubt counts.
  if (left.length === 0) return { probabilityBetterExists: 0, tolerance, stop: true }
  const [least, withoutGain] = problem.priorLogRate ? LEAST_WITH_PHYSICS : LEAST
  const probability =
    observations.length < least
      ? 1
      : probabilityOfBetter(problem, observations, left, rng.fork(`stop after ${observations.length}`), tolerance)
  const stop = probability <= risk && trialsWithoutGain(problem, observations) >= withoutGain
  return { probabilityBetterExists: probability, tolerance, stop }
}

/** The share of joint posterior draws of rate and constraint in which one of the configurations beats the best believed by more than the tolerance. */
function probabilityOfBetter(
  problem: Problem,
  observations: readonly Observation[],
  configurations: readonly Configuration[],
  rng: Rng,
  tolerance: number,
): number {
  const surrogate = fitSurrogate(problem, observations, [])
  const best = believedBest(problem, observations, surrogate)
  if (!best) return 1
  const target = best.logCost + Math.log(1 - tolerance)
  const hopeful = mostHopeful(problem, configurations, surrogate.believe(configurations), target)
  if (hopeful.length === 0) return LEAST_PROBABILITY
  const means = surrogate.believe(hopeful)
  const draws = surrogate.draw(hopeful, DRAWS, rng.fork('stop draws'))
  const luck = rng.fork('stop serves')
  const prices = hopeful.map((c) => problem.pricePerHour(c))
  let better = 0
  for (let s = 0; s < DRAWS; s++) {
    const exists = hopeful.some((_, i) => {
      const constraint = widened(means.constraint?.mean[i], draws.constraint?.[s]?.[i])
      if (problem.constraintLimit !== undefined && !(constraint <= 0)) return false
      if (logCost(problem.objective, prices[i]!, widened(means.rate?.mean[i], draws.rate?.[s]?.[i]), constraint) >= target) return false
      return Math.log(luck.next()) < draws.logServes[i]!
    })
    if (exists) better++
  }
  return (better + 1) / (DRAWS + 2)
}

/** NaN where nothing was modelled. */
const widened = (mean: number | undefined, drawn: number | undefined): number =>
  mean === undefined || drawn === undefined ? Number.NaN : mean + WIDENING * (drawn - mean)

/** The configurations that could be feasible and below the target cost, those that need the least luck first. */
function mostHopeful(
  problem: Problem,
  configurations: readonly Configuration[],
  { rate, constraint, logServes }: Beliefs,
  target: number,
): Configuration[] {
  const atTheirBest = (i: number, deviations: number) => {
    const hopedRate = rate ? rate.mean[i]! + deviations * Math.sqrt(rate.variance[i]!) : Number.NaN
    const hopedConstraint = constraint ? constraint.mean[i]! - deviations * Math.sqrt(constraint.variance[i]!) : Number.NaN
    const met = problem.constraintLimit === undefined || hopedConstraint <= 0
    return met && logCost(problem.objective, problem.pricePerHour(configurations[i]!), hopedRate, hopedConstraint) < target
  }
  /** Deviations of luck it takes, by halving. */
  const luckNeeded = (i: number) => {
    let [low, high] = [-REACH, REACH]
    for (let step = 0; step < 8; step++) {
      const middle = (low + high) / 2
      if (atTheirBest(i, middle)) high = middle
      else low = middle
    }
    return high
  }
  return Array.from(configurations.keys())
    .filter((i) => logServes[i]! > Math.log(1e-3) && atTheirBest(i, REACH))
    .map((i) => ({ i, luck: luckNeeded(i) }))
    .sort((a, b) => a.luck - b.luck)
    .slice(0, CONSIDERED)
    .map(({ i }) => configurations[i]!)
}
