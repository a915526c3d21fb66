import { logCost } from './objective.ts'
import type { Surrogate } from './surrogate.ts'
import type { Configuration, Observation, Problem } from './types.ts'

export interface Incumbent {
  readonly configuration: Configuration
  readonly logCost: number
}

/**
 * The cheapest trial by what the model believes of it, where it more likely than not meets the constraint: a lucky reading of one that misses the
 * limit by a little, or of a rate, does not pass for the best. Undefined where no trial is believed feasible.
 */
export function believedBest(problem: Problem, observations: readonly Observation[], surrogate: Surrogate): Incumbent | undefined {
  const tried = observations.flatMap((o) => (o.state === 'complete' && !o.censored && o.rate?.value !== 0 ? [o.configuration] : []))
  if (tried.length === 0) return undefined
  const { rate, constraint } = surrogate.believe(tried)
  let best: Incumbent | undefined
  for (const [i, configuration] of tried.entries()) {
    if (problem.constraintLimit !== undefined && !(constraint && constraint.mean[i]! <= 0)) continue
    const price = problem.pricePerHour(configuration)
    const cost = logCost(problem.objective, price, rate?.mean[i] ?? Number.NaN, constraint?.mean[i] ?? Number.NaN)
    if (cost < (best?.logCost ?? Infinity)) best = { configuration, logCost: cost }
  }
  return best
}
