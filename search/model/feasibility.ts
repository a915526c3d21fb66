import { logCdf } from '../gp/normal.ts'
import type { Marginals } from '../gp/types.ts'
import type { Configuration, Observation, Problem } from '../types.ts'
import type { SaturatingPredictive } from './saturating-predictive.ts'

/** Marginal predictions of m configurations. A quantity without a measurement is absent. */
export interface Predictions {
  /** ln rate. */
  readonly rate?: SaturatingPredictive
  /** ln(constraint / limit); the constraint is met where it is ≤ 0. */
  readonly constraint?: Marginals
  /** ln P(serves: enough memory, becomes ready), m. */
  readonly logServes: Float64Array
}

/** Lower bound of P(serves), which keeps its logarithm finite. */
export const minServesProbability = 1e-9

/** Computes ln P(serves and meets the constraint), m. Assumes that the two are independent. */
export function computeLogFeasible(
  problem: Problem,
  { constraint, logServes }: Predictions,
): Float64Array {
  if (problem.constraintLimit === undefined || !constraint) return logServes
  return logServes.map(
    (serves, i) => serves + logCdf(-constraint.mean[i]! / Math.sqrt(constraint.variance[i]!)),
  )
}

/**
 * Returns a function that predicts ln P(memory suffices), given that it sufficed for all
 * configurations that served. The device model's error is assumed to be common to all
 * configurations. So a configuration with a higher prior probability than one that served has
 * enough memory too.
 */
export function createMemoryFitPredictor(
  { memoryFitProbability }: Problem,
  observations: readonly Observation[],
): (configuration: Configuration) => number {
  if (memoryFitProbability === undefined) return () => 0
  const computeLogFit = (c: Configuration) =>
    Math.log(Math.max(minServesProbability, memoryFitProbability(c)))
  const lowestServed = observations.reduce(
    (low, o) => (o.state === 'complete' ? Math.min(low, computeLogFit(o.configuration)) : low),
    0,
  )
  return (c) => Math.min(0, computeLogFit(c) - lowestServed)
}
