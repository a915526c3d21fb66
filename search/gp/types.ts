/** Types of the Gaussian process; the symbols are those of regression.ts. */
import type { Matrix } from 'ml-matrix'

/** Prior of a Gaussian process: the groups of columns and the linear trend. */
export interface GpSpec {
  /** Group of each column (d); -1 for a column of the trend alone. */
  readonly groups: readonly number[]
  /** b0: prior mean of each column's slope, d. */
  readonly slopeMean: Float64Array
  /** v: prior variance of each column's slope, d. 0 excludes a column from the trend. */
  readonly slopeVariance: Float64Array
}

export interface Hyperparameters {
  readonly signalVariance: number
  readonly lengthscales: Float64Array
  readonly noiseVariance: number
}

/** Rows of a design matrix, m×d. */
export type Rows = readonly Float64Array[]

/** Lower bound of a fitted noise variance, which keeps K positive definite. */
export const minNoiseVariance = 1e-4

/** Training data. */
export interface GpData {
  /** Design matrix, n×d. */
  readonly X: Matrix
  /** Targets, n. */
  readonly y: Float64Array
  /** τ: known noise variances (n), NaN where unknown. Absent: all unknown. */
  readonly knownNoise?: Float64Array
}

/** Marginal means and variances of m values. */
export interface Marginals {
  readonly mean: Float64Array
  readonly variance: Float64Array
}

/** Computes the prior mean at a row x: xᵀ b0. */
export function computePriorMean({ slopeMean }: GpSpec, row: ArrayLike<number>): number {
  let sum = 0
  for (let c = 0; c < slopeMean.length; c++) sum += slopeMean[c]! * row[c]!
  return sum
}
