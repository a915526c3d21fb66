import { createTrainingPoint, type TrainingPoint } from '../gp/training-points.ts'
import { getModelledQuantity } from '../objective.ts'
import { computeLogMetric } from '../observed-cost.ts'
import type { Observation, Problem } from '../types.ts'

/**
 * Computes the modelled constraint: ln(metric / limit), met where it is ≤ 0; ln(metric) without a
 * limit.
 */
export const toConstraintTarget = (problem: Problem, logValue: number): number =>
  logValue - Math.log(problem.constraintLimit ?? 1)

/**
 * Targets beyond this distance from the limit, a factor e, count as censored. Their exact values
 * would bend the model near the limit: with them, tables of the family ribbon take 22 trials, not
 * 14 (docs/research/search.md, families left out).
 */
const maxExactTarget = 1
/** Standard deviation of a censored target, of ln(metric). Assumed. */
const boundSd = 0.05

/**
 * Training points of the constraint. Distant ones are censored unless the objective models the
 * constrained metric itself.
 */
export function createConstraintPoints(
  problem: Problem,
  observations: readonly Observation[],
): TrainingPoint[] {
  const points = observations.flatMap((o) =>
    o.state === 'complete' && o.constraint
      ? createTrainingPoint(
          o.configuration,
          toConstraintTarget(problem, computeLogMetric(problem, o.constraint.value)),
          o.constraint,
        )
      : [],
  )
  const onlyBoundaryMatters =
    getModelledQuantity(problem.objective) === 'nothing' && problem.constraintLimit !== undefined
  return onlyBoundaryMatters ? points.map(censorDistant) : points
}

function censorDistant(point: TrainingPoint): TrainingPoint {
  if (Math.abs(point.target) <= maxExactTarget) return point
  const [target, bound] =
    point.target > 0 ? ([maxExactTarget, 'lower'] as const) : ([-maxExactTarget, 'upper'] as const)
  return { configuration: point.configuration, target, bound, noise: boundSd ** 2 }
}
