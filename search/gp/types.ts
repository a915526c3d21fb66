/** What a Gaussian process of this search is made of; symbols as in gp-regression.ts. */
import type { Matrix } from 'ml-matrix'

/** What the columns mean to the model. */
export interface GpShape {
  /** Column → group, or -1 for a column of the trend alone. */
  readonly groups: readonly number[]
  /** b0, one a column. */
  readonly slopeMean: Float64Array
  /** v, one a column; 0 keeps a column out of the trend. */
  readonly slopeVariance: Float64Array
  /**
   * o: what each row has of its own, the same whenever it is read (a nugget: Gramacy and Lee,
   * Statistics and Computing 22, 2012). Absent: 0.
   */
  readonly ownVariance?: number
}

/** Whether two rows are of one configuration. */
export const isSameRow = (x: ArrayLike<number>, z: ArrayLike<number>): boolean => {
  for (let c = 0; c < z.length; c++) if (x[c] !== z[c]) return false
  return true
}

export interface Hyperparameters {
  readonly signalVariance: number
  readonly lengthscales: Float64Array
  readonly noiseVariance: number
}

/** Rows of a design matrix, encoded configurations, m×d. */
export type Rows = readonly Float64Array[]

export const NOISE_FLOOR = 1e-4

export interface GpData {
  /** n×d. */
  readonly X: Matrix
  readonly y: Float64Array
  /** τ. */
  readonly knownNoise?: Float64Array
}

/** Mean and variance of m values. */
export interface Marginals {
  readonly mean: Float64Array
  readonly variance: Float64Array
}

/** The prior mean at a row, X b0. */
export function meanAt({ slopeMean }: GpShape, row: ArrayLike<number>): number {
  let sum = 0
  for (let c = 0; c < slopeMean.length; c++) sum += slopeMean[c]! * row[c]!
  return sum
}
