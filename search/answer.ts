import type { Beliefs } from './feasibility.ts'
import { believedTrials } from './incumbent.ts'
import { logCost } from './objective.ts'
import { priceOf } from './replica-price.ts'
import { fitSurrogate } from './surrogate.ts'
import type { Configuration, Observation, Problem, Rng } from './types.ts'
import { untried } from './untried.ts'

/** What to recommend after some trials, and how surely. */
interface Answer {
  /** The trial that is likeliest to be feasible and within the tolerance of all others, tried or not. */
  readonly configuration: Configuration
  /** P(it is). */
  readonly probabilityRight: number
  /** P(some untried feasible configuration is cheaper than the best believed by more than the tolerance). */
  readonly probabilityBetterExists: number
}

/**
 * Deviations of what is untried from the mean, widened: a posterior at fitted hyperparameters is too sure of itself by about this much (docs/search.md). Of
 * trials the reading's own noise says all.
 */
const WIDENING = 1.5
const DRAWS = 256
const CONSIDERED = 200
/** Standard deviations within which something is possible. */
const REACH = 4
/** Trials are compared where they miss the limit by no more deviations than this, and cost no more than this times the best. */
const DOUBTFUL = 2
const COMPARABLE = Math.log(1.5)

/** The answer by joint draws of what was tried and of what may be better; undefined where no trial is believed feasible. */
export function likeliestAnswer(problem: Problem, observations: readonly Observation[], rng: Rng, tolerance = 0.05): Answer | undefined {
  const surrogate = fitSurrogate(problem, observations, [])
  const trials = believedTrials(problem, observations, surrogate)
  const best = trials.find(({ deviations }) => deviations <= 0)
  if (!best) return undefined
  const target = best.logCost + Math.log(1 - tolerance)
  const tried = trials
    .filter(({ deviations, logCost }) => deviations <= DOUBTFUL && logCost <= best.logCost + COMPARABLE)
    .map(({ configuration }) => configuration)
  const taken = observations.map((o) => o.configuration)
  const { configurations } = untried(problem, taken, rng.fork('stop candidates'))
  const all = [...tried, ...mostHopeful(problem, configurations, surrogate.believe(configurations), target)]
  const means = surrogate.believe(all)
  const draws = surrogate.draw(all, rng.fork('stop draws'))
  const luck = rng.fork('stop serves')
  const prices = all.map((c) => priceOf(problem.pricePerHour, c))
  const right = tried.map(() => 0)
  let better = 0
  const costs = new Float64Array(all.length)
  for (let draw = 0; draw < DRAWS; draw++) {
    const drawn = draws.next()
    let least = Infinity
    let betterExists = false
    for (let i = 0; i < costs.length; i++) {
      const isTried = i < tried.length
      const widening = isTried ? 1 : WIDENING
      const constraint = widened(means.constraint?.mean[i], drawn.constraint?.[i], widening)
      const missed = problem.constraintLimit !== undefined && !(constraint <= 0)
      const serves = !missed && (isTried || Math.log(luck.next()) < draws.logServes[i]!)
      const rate = widened(means.rate?.mean[i], drawn.rate?.[i], widening)
      const cost = serves ? logCost(problem.objective, prices[i]!, rate, constraint) : Infinity
      costs[i] = cost
      least = Math.min(least, cost)
      betterExists ||= !isTried && cost < target
    }
    if (betterExists) better++
    for (const i of right.keys()) if (costs[i]! < Infinity && costs[i]! <= least - Math.log(1 - tolerance)) right[i] = right[i]! + 1
  }
  // No finite number of draws shows that something cannot be, or must: Laplace's rule of succession.
  const most = Math.max(...right)
  return {
    configuration: tried[right.indexOf(most)]!,
    probabilityRight: (most + 1) / (DRAWS + 2),
    probabilityBetterExists: (better + 1) / (DRAWS + 2),
  }
}

/** NaN where nothing was modelled. */
const widened = (mean: number | undefined, drawn: number | undefined, by: number): number =>
  mean === undefined || drawn === undefined ? Number.NaN : mean + by * (drawn - mean)

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
    return met && logCost(problem.objective, priceOf(problem.pricePerHour, configurations[i]!), hopedRate, hopedConstraint) < target
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
