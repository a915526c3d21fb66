import type { Beliefs } from './feasibility.ts'
import { believedBest } from './incumbent.ts'
import { logCost } from './objective.ts'
import { rememberedPerTrial } from './per-trial.ts'
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

/** Trials in a row after which the posterior must have said so: each was a test of what was said before it. */
const AGREEING = 2
/** Trials without gain before the end, some of which looked further than the model does (`isStuck`): fewer where physics knows the lie of the land. */
const WITHOUT_GAIN = 6
const WITHOUT_GAIN_BY_PHYSICS = 2
/** Trials before the posterior is asked at all: fewer where physics already knows the lie of the land. */
const LEAST_TRIALS = 5
const LEAST_TRIALS_WITH_PHYSICS = 2
const DRAWS = 256
/** No finite number of draws shows that something cannot be: Laplace's rule of succession. */
const LEAST_PROBABILITY = 1 / (DRAWS + 2)
const CONSIDERED = 200
/** Standard deviations within which something is possible. */
const REACH = 4

/**
 * P(some untried feasible configuration is more than `tolerance` cheaper than the best believed): the larger that the posterior gave after either of
 * the last two trials. On recorded tables that figure agrees with how often there was one (docs/search.md). A search that has just gained goes on.
 */
export function assessStop(
  problem: Problem,
  observations: readonly Observation[],
  rng: Rng,
  { tolerance = 0.05, risk = 0.05 }: StopOptions = {},
): StopAssessment {
  // Nothing left: no earlier doubt counts.
  if (untriedAfter(problem, observations, rng).length === 0) return { probabilityBetterExists: 0, tolerance, stop: true }
  const least = problem.priorLogRate ? LEAST_TRIALS_WITH_PHYSICS : LEAST_TRIALS
  let probability = 0
  for (let back = 0; back < AGREEING && probability < 1; back++) {
    const known = observations.slice(0, observations.length - back)
    probability = known.length < least ? 1 : Math.max(probability, probabilityAfter(problem, known, rng, tolerance))
  }
  const enough = problem.priorLogRate ? WITHOUT_GAIN_BY_PHYSICS : WITHOUT_GAIN
  return {
    probabilityBetterExists: probability,
    tolerance,
    stop: probability <= risk && trialsWithoutGain(problem, observations) >= enough,
  }
}

const untriedAfter = (problem: Problem, known: readonly Observation[], rng: Rng): readonly Configuration[] =>
  untried(
    problem,
    known.map((o) => o.configuration),
    rng.fork('stop candidates'),
  ).configurations

const remembered = rememberedPerTrial<number>()

const probabilityAfter = (problem: Problem, known: readonly Observation[], rng: Rng, tolerance: number): number =>
  remembered(problem, known, tolerance, () =>
    probabilityOfBetter(problem, known, untriedAfter(problem, known, rng), rng.fork(`stop after ${known.length}`), tolerance),
  )

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
  const draws = surrogate.draw(hopeful, DRAWS, rng.fork('stop draws'))
  const luck = rng.fork('stop serves')
  const prices = hopeful.map((c) => problem.pricePerHour(c))
  let better = 0
  for (let s = 0; s < DRAWS; s++) {
    const exists = hopeful.some((_, i) => {
      const constraint = draws.constraint?.[s]?.[i] ?? Number.NaN
      if (problem.constraintLimit !== undefined && !(constraint <= 0)) return false
      if (logCost(problem.objective, prices[i]!, draws.rate?.[s]?.[i] ?? Number.NaN, constraint) >= target) return false
      return Math.log(luck.next()) < draws.logServes[i]!
    })
    if (exists) better++
  }
  return (better + 1) / (DRAWS + 2)
}

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
