/** Training points of the surrogate's Gaussian processes. */
import { Matrix } from 'ml-matrix'
import type { Configuration, Estimate } from '../types.ts'
import type { GpData, Rows } from './types.ts'

/** A measured value of a modelled quantity at a configuration. */
export interface TrainingPoint {
  readonly configuration: Configuration
  readonly target: number
  /** Noise variance; NaN where unknown. */
  readonly noise: number
  /** Censored: the true value is at most (upper) or at least (lower) the target. */
  readonly bound?: 'upper' | 'lower'
}

/**
 * Noise variance of a bound of unknown noise: 5 % of a rate. The fitted noise of exact observations
 * does not apply to bounds. Assumed.
 */
const boundNoiseVariance = 0.05 ** 2
/** Smallest noise variance of a measurement: 1 % of a rate, as machines vary by more. Assumed. */
const minKnownNoiseVariance = 1e-4

/**
 * Creates a training point; the noise variance follows from the estimate's `logSd` where it is
 * known.
 */
export const createTrainingPoint = (
  configuration: Configuration,
  target: number,
  estimate: Partial<Estimate> = {},
  bound?: TrainingPoint['bound'],
): TrainingPoint => ({
  configuration,
  target,
  noise:
    estimate.logSd === undefined
      ? bound
        ? boundNoiseVariance
        : Number.NaN
      : Math.max(estimate.logSd * estimate.logSd, minKnownNoiseVariance),
  ...(bound ? { bound } : {}),
})

/**
 * Converts training points to the data of a Gaussian process; `rows` (n×d) encode their
 * configurations.
 */
export const toGpData = (rows: Rows, points: readonly TrainingPoint[]): GpData => ({
  X: rows.length > 0 ? new Matrix(rows) : Matrix.zeros(0, 0),
  y: Float64Array.from(points, (p) => p.target),
  knownNoise: Float64Array.from(points, (p) => p.noise),
})

/** Noise variance of a fantasy: 1 % of a rate. Assumed. */
const fantasyNoiseVariance = 1e-4

/**
 * Creates training points of pending configurations at their predicted mean (the kriging believer,
 * Ginsbourger et al. 2010).
 */
export const createFantasies = (
  pending: readonly Configuration[],
  mean: Float64Array,
): TrainingPoint[] =>
  pending.map((configuration, i) => ({
    configuration,
    target: mean[i]!,
    noise: fantasyNoiseVariance,
  }))
