/** Measured cost of finished trials under the objective. */
import { computeLogCost, getModelledQuantity } from './objective.ts'
import { resolveReplicaPrice } from './replica-price.ts'
import type { Configuration, Observation, Problem } from './types.ts'

/** Replaces a metric of zero, as a share of the limit: far within it. Assumed. */
const zeroMetricShare = 1e-3
/** Limit that replaces an absent one there. */
const limitIfAbsent = 1e-9

/** Computes ln of the constrained metric, which may be zero: for example a violation rate. */
export const computeLogMetric = (problem: Problem, value: number): number =>
  Math.log(Math.max(value, zeroMetricShare * (problem.constraintLimit ?? limitIfAbsent)))

/**
 * Whether a trial's measurements meet the constraint. False for infeasible trials and for trials
 * that serve no rate.
 */
export const meetsConstraint = (problem: Problem, observation: Observation): boolean =>
  observation.state === 'complete' &&
  observation.rate?.value !== 0 &&
  (problem.constraintLimit === undefined ||
    (observation.constraint !== undefined &&
      observation.constraint.value <= problem.constraintLimit))

/**
 * Computes the ln cost of a finished trial as measured. Infinity for a trial that is infeasible,
 * violates the constraint, was pruned, or lacks the quantity that the objective needs.
 */
export function computeObservedLogCost(problem: Problem, observation: Observation): number {
  if (
    observation.state !== 'complete' ||
    observation.censored ||
    !meetsConstraint(problem, observation)
  )
    return Infinity
  const quantity = getModelledQuantity(problem.objective)
  if (quantity === 'rate' && observation.rate === undefined) return Infinity
  if (quantity === 'latency' && observation.constraint === undefined) return Infinity
  const logRate = observation.rate ? Math.log(observation.rate.value) : Number.NaN
  const logConstraint = observation.constraint
    ? computeLogMetric(problem, observation.constraint.value)
    : Number.NaN
  return computeLogCost(
    problem.objective,
    resolveReplicaPrice(problem.pricePerHour, observation.configuration),
    logRate,
    logConstraint,
  )
}

/** Finds the cheapest feasible trial as measured; undefined if none is feasible. */
export function findBestObservation(
  problem: Problem,
  observations: readonly Observation[],
): { configuration: Configuration; logCost: number } | undefined {
  let best: { configuration: Configuration; logCost: number } | undefined
  for (const observation of observations) {
    const cost = computeObservedLogCost(problem, observation)
    if (cost < (best?.logCost ?? Infinity))
      best = { configuration: observation.configuration, logCost: cost }
  }
  return best
}

/**
 * Counts the trials since the last one that was cheaper than all before it.
 * @param minGain share by which a trial must be cheaper to count, 0.05 = 5 %
 */
export function countTrialsWithoutGain(
  problem: Problem,
  observations: readonly Observation[],
  minGain = 0,
): number {
  let best = Infinity
  let trialsSince = 0
  for (const observation of observations) {
    const cost = computeObservedLogCost(problem, observation)
    trialsSince = cost < best + Math.log1p(-minGain) ? 0 : trialsSince + 1
    best = Math.min(best, cost)
  }
  return trialsSince
}
