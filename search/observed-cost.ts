/** What finished trials cost by an objective, as measured. */
import { learnsOf, logCost } from './objective.ts'
import { priceOf } from './replica-price.ts'
import type { Configuration, Observation, Problem } from './types.ts'

/**
 * ln of the constrained metric, with zero (no violations at all) read as a thousandth of the limit.
 */
export const logMetric = (problem: Problem, value: number): number =>
  Math.log(Math.max(value, 1e-3 * (problem.constraintLimit ?? 1e-9)))

/**
 * Whether a trial's measurements meet the constraint. Infeasible trials and trials that serve no
 * rate do not.
 */
export const meetsConstraint = (problem: Problem, observation: Observation): boolean =>
  observation.state === 'complete' &&
  observation.rate?.value !== 0 &&
  (problem.constraintLimit === undefined ||
    (observation.constraint !== undefined &&
      observation.constraint.value <= problem.constraintLimit))

/**
 * ln cost of a finished trial as measured; Infinity where it is infeasible, cut short, or lacks the
 * measured quantity.
 */
export function observedLogCost(problem: Problem, observation: Observation): number {
  if (
    observation.state !== 'complete' ||
    observation.censored ||
    !meetsConstraint(problem, observation)
  )
    return Infinity
  const learns = learnsOf(problem.objective)
  if (learns === 'rate' && observation.rate === undefined) return Infinity
  if (learns === 'latency' && observation.constraint === undefined) return Infinity
  const logRate = observation.rate ? Math.log(observation.rate.value) : Number.NaN
  const logConstraint = observation.constraint
    ? logMetric(problem, observation.constraint.value)
    : Number.NaN
  return logCost(
    problem.objective,
    priceOf(problem.pricePerHour, observation.configuration),
    logRate,
    logConstraint,
  )
}

/** The cheapest feasible trial as measured. */
export function bestObservation(
  problem: Problem,
  observations: readonly Observation[],
): { configuration: Configuration; logCost: number } | undefined {
  let best: { configuration: Configuration; logCost: number } | undefined
  for (const observation of observations) {
    const cost = observedLogCost(problem, observation)
    if (cost < (best?.logCost ?? Infinity))
      best = { configuration: observation.configuration, logCost: cost }
  }
  return best
}

/**
 * How many of the last trials brought nothing better, or nothing by more than `least` of the cost,
 * 0.05 = 5 %.
 */
export function trialsWithoutGain(
  problem: Problem,
  observations: readonly Observation[],
  least = 0,
): number {
  let best = Infinity
  let since = 0
  for (const observation of observations) {
    const cost = observedLogCost(problem, observation)
    since = cost < best + Math.log1p(-least) ? 0 : since + 1
    best = Math.min(best, cost)
  }
  return since
}
