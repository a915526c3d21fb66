import { untried } from './candidates.ts'
import { bestObservation, logCost } from './objective.ts'
import { fitSurrogate } from './surrogate.ts'
import type { Observation, Problem, Rng, StopAssessment } from './types.ts'

export interface StopOptions {
  /** 0.05: a configuration must be more than 5 % cheaper to be worth going on. */
  readonly tolerance?: number
  /** Stop when the probability that such a configuration exists falls to this. */
  readonly risk?: number
}

const DRAWS = 256
/** The posterior at fitted hyperparameters is too sure of itself; its deviations from the mean are widened. */
const WIDENING = 2
/** Trials before the rule may say stop: fewer where physics already knows the lie of the land. */
const LEAST_TRIALS = 10
const LEAST_TRIALS_WITH_PHYSICS = 5
const CONSIDERED = 400

/**
 * P(some untried feasible configuration is more than `tolerance` cheaper than the best measured), from joint posterior draws of rate and
 * constraint over the configurations that could be (the likeliest `CONSIDERED` of them).
 */
export function assessStop(
  problem: Problem,
  observations: readonly Observation[],
  rng: Rng,
  { tolerance = 0.05, risk = 0.05 }: StopOptions = {},
): StopAssessment {
  const best = bestObservation(problem, observations)
  const { configurations } = untried(
    problem,
    observations.map((o) => o.configuration),
    rng.fork('stop candidates'),
  )
  if (configurations.length === 0) return { probabilityBetterExists: 0, tolerance, stop: true }
  const least = problem.priorLogRate ? LEAST_TRIALS_WITH_PHYSICS : LEAST_TRIALS
  if (!best || observations.length < Math.min(least, Math.ceil((observations.length + configurations.length) / 2)))
    return { probabilityBetterExists: 1, tolerance, stop: false }
  const target = best.logCost + Math.log(1 - tolerance)
  const surrogate = fitSurrogate(problem, observations, [])
  const { rate, constraint, logServes } = surrogate.believe(configurations)
  const hopes = configurations.map((configuration, i) => {
    const price = problem.pricePerHour(configuration)
    const reach = 3 * WIDENING
    const hopefulRate = rate ? rate.mean[i]! + reach * Math.sqrt(rate.variance[i]!) : Infinity
    const hopefulConstraint = constraint ? constraint.mean[i]! - reach * Math.sqrt(constraint.variance[i]!) : -Infinity
    const gain = target - logCost(problem.objective, price, hopefulRate, hopefulConstraint)
    const possible = problem.constraintLimit === undefined || hopefulConstraint <= 0
    return {
      configuration,
      price,
      meanRate: rate?.mean[i],
      meanConstraint: constraint?.mean[i],
      gain: possible && logServes[i]! > Math.log(1e-3) ? gain : -Infinity,
    }
  })
  const hopeful = hopes
    .filter((h) => h.gain > 0)
    .sort((a, b) => b.gain - a.gain)
    .slice(0, CONSIDERED)
  if (hopeful.length === 0) return { probabilityBetterExists: 0, tolerance, stop: true }
  const draws = surrogate.draw(
    hopeful.map((h) => h.configuration),
    DRAWS,
    rng.fork('stop draws'),
  )
  const luck = rng.fork('stop serves')
  let better = 0
  for (let s = 0; s < DRAWS; s++) {
    const exists = hopeful.some(({ price, meanRate, meanConstraint }, i) => {
      const drawnConstraint = widened(meanConstraint, draws.constraint?.[s]?.[i])
      if (problem.constraintLimit !== undefined && !(drawnConstraint <= 0)) return false
      if (logCost(problem.objective, price, widened(meanRate, draws.rate?.[s]?.[i]), drawnConstraint) >= target) return false
      return Math.log(luck.next()) < draws.logServes[i]!
    })
    if (exists) better++
  }
  const probabilityBetterExists = better / DRAWS
  return { probabilityBetterExists, tolerance, stop: probabilityBetterExists <= risk }
}

/** A draw with its deviation from the mean widened; NaN where nothing was modelled. */
const widened = (mean: number | undefined, drawn: number | undefined): number =>
  mean === undefined || drawn === undefined ? Number.NaN : mean + WIDENING * (drawn - mean)
