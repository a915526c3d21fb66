import { logCost } from './objective.ts'
import type { Surrogate } from './surrogate.ts'
import type { Configuration, Observation, Problem } from './types.ts'

interface Incumbent {
  readonly configuration: Configuration
  readonly logCost: number
}

/** Within this of the best believed cost, the trial likelier to meet the constraint is the better advice. */
const INDIFFERENT = Math.log(1.03)

/**
 * The cheapest trial by what the model believes of it, where it more likely than not meets the constraint: a lucky reading of one that misses the
 * limit by a little, or of a rate, does not pass for the best. Undefined where no trial is believed feasible.
 */
export function believedBest(problem: Problem, observations: readonly Observation[], surrogate: Surrogate): Incumbent | undefined {
  return believedFeasible(problem, observations, surrogate)[0]
}

/** Of the trials believed to cost about as little as the best, the one surest to meet the constraint: what to recommend from noisy readings. */
export function recommended(problem: Problem, observations: readonly Observation[], surrogate: Surrogate): Incumbent | undefined {
  const [best, ...others] = believedFeasible(problem, observations, surrogate)
  const close = others.filter((other) => other.logCost <= best!.logCost + INDIFFERENT)
  return close.reduce((a, b) => (b.deviations < a!.deviations ? b : a), best)
}

/** Trials believed to meet the constraint, cheapest first, with how many deviations the constraint is believed to be from its limit (negative: met). */
function believedFeasible(problem: Problem, observations: readonly Observation[], surrogate: Surrogate) {
  const tried = observations.flatMap((o) => (o.state === 'complete' && !o.censored && o.rate?.value !== 0 ? [o.configuration] : []))
  if (tried.length === 0) return []
  const { rate, constraint } = surrogate.believe(tried)
  return tried
    .map((configuration, i) => ({
      configuration,
      deviations:
        problem.constraintLimit === undefined
          ? -Infinity
          : constraint
            ? constraint.mean[i]! / Math.sqrt(constraint.variance[i]!)
            : Infinity,
      logCost: logCost(
        problem.objective,
        problem.pricePerHour(configuration),
        rate?.mean[i] ?? Number.NaN,
        constraint?.mean[i] ?? Number.NaN,
      ),
    }))
    .filter(({ deviations }) => deviations <= 0)
    .sort((a, b) => a.logCost - b.logCost)
}
