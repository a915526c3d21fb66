import type { Surrogate } from '../model/surrogate.ts'
import { logCost } from '../objective.ts'
import { priceOf } from '../replica-price.ts'
import type { Configuration, Observation, Problem } from '../types.ts'

interface Incumbent {
  readonly configuration: Configuration
  readonly logCost: number
}

/**
 * The cheapest trial by what the model believes of it, where it more likely than not meets the
 * constraint: a lucky reading of one that misses the limit by a little, or of a rate, does not pass
 * for the best. Undefined where no trial is believed feasible.
 */
export function believedBest(
  problem: Problem,
  observations: readonly Observation[],
  surrogate: Surrogate,
): Incumbent | undefined {
  return believedTrials(problem, observations, surrogate).find(({ deviations }) => deviations <= 0)
}

/**
 * Trials that were read in full, cheapest believed first, with how many deviations the constraint
 * is believed to be from its limit (negative: met).
 */
export function believedTrials(
  problem: Problem,
  observations: readonly Observation[],
  surrogate: Surrogate,
): (Incumbent & { readonly deviations: number })[] {
  const tried = observations.flatMap((o) =>
    o.state === 'complete' && !o.censored && o.rate?.value !== 0 ? [o.configuration] : [],
  )
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
        priceOf(problem.pricePerHour, configuration),
        rate?.mean[i] ?? Number.NaN,
        constraint?.mean[i] ?? Number.NaN,
      ),
    }))
    .sort((a, b) => a.logCost - b.logCost)
}
