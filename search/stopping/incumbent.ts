import { fitSurrogate, type Surrogate } from '../model/surrogate.ts'
import { computeLogCost } from '../objective.ts'
import { resolveReplicaPrice } from '../replica-price.ts'
import type { Configuration, Observation, Problem } from '../types.ts'

interface Incumbent {
  readonly configuration: Configuration
  /** Posterior mean of ln cost. */
  readonly logCost: number
}

export interface RankedTrial extends Incumbent {
  /**
   * Distance of the predicted constraint from its limit, in standard deviations. Negative: met;
   * -Infinity without a limit, Infinity where the constraint was never measured.
   */
  readonly violationZScore: number
}

/**
 * Finds the incumbent: the trial with the lowest posterior mean cost among those that probably meet
 * the constraint. The posterior mean is used, because the best measurement is biased by its noise.
 * Undefined where no trial is predicted to be feasible.
 */
export const findIncumbent = (
  problem: Problem,
  observations: readonly Observation[],
  surrogate: Surrogate = fitSurrogate(problem, observations, []),
): Incumbent | undefined => findFirstFeasible(rankTrials(problem, observations, surrogate))

export const findFirstFeasible = (trials: readonly RankedTrial[]): RankedTrial | undefined =>
  trials.find(({ violationZScore }) => violationZScore <= 0)

/** Ranks fully measured trials that served by their posterior mean cost, lowest first. */
export function rankTrials(
  problem: Problem,
  observations: readonly Observation[],
  surrogate: Surrogate,
): RankedTrial[] {
  const tried = observations.flatMap((o) =>
    o.state === 'complete' && !o.censored && o.rate?.value !== 0 ? [o.configuration] : [],
  )
  if (tried.length === 0) return []
  const { rate, constraint } = surrogate.predict(tried)
  return tried
    .map((configuration, i) => ({
      configuration,
      // The constraint is ln(metric / limit), so the limit is 0.
      violationZScore:
        problem.constraintLimit === undefined
          ? -Infinity
          : constraint
            ? constraint.mean[i]! / Math.sqrt(constraint.variance[i]!)
            : Infinity,
      logCost: computeLogCost(
        problem.objective,
        resolveReplicaPrice(problem.pricePerHour, configuration),
        rate?.mean[i] ?? Number.NaN,
        constraint?.mean[i] ?? Number.NaN,
      ),
    }))
    .sort((a, b) => a.logCost - b.logCost)
}
