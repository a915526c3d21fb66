import { Matrix } from 'ml-matrix'
import type { Configuration, Estimate } from '../types.ts'
import type { GpData, Rows } from './types.ts'

/** One reading of a modelled quantity. */
export interface Datum {
  readonly at: Configuration
  readonly target: number
  /** Noise variance; NaN where unknown. */
  readonly noise: number
  /** The truth is only known to be at most, or at least, the target. */
  readonly bound?: 'most' | 'least'
}

/**
 * Noise of a bound of which nothing else is known: what is learned of exact readings' noise says
 * nothing of where one-sided ones end.
 */
const BOUND_NOISE = 0.05 ** 2

export const datum = (
  at: Configuration,
  target: number,
  estimate: Partial<Estimate> = {},
  bound?: Datum['bound'],
): Datum => ({
  at,
  target,
  noise:
    estimate.logSd === undefined
      ? bound
        ? BOUND_NOISE
        : Number.NaN
      : Math.max(estimate.logSd * estimate.logSd, 1e-4),
  ...(bound ? { bound } : {}),
})

/** Readings as the data of a Gaussian process; `rows` (n×d) are theirs. */
export const gpDataOf = (rows: Rows, readings: readonly Datum[]): GpData => ({
  X: rows.length > 0 ? new Matrix(rows) : Matrix.zeros(0, 0),
  y: Float64Array.from(readings, (r) => r.target),
  knownNoise: Float64Array.from(readings, (r) => r.noise),
})

const BELIEVED_NOISE = 1e-4

/**
 * Pending configurations as readings of their predicted mean (the kriging believer, Ginsbourger et
 * al. 2010).
 */
export const believedReadings = (pending: readonly Configuration[], mean: Float64Array): Datum[] =>
  pending.map((at, i) => ({ at, target: mean[i]!, noise: BELIEVED_NOISE }))
