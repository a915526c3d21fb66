import type { Configuration } from '../types.ts'
import type { SaturationCurve } from './saturating-predictive.ts'

/**
 * An informative prior for a modelled quantity, from a device model or from earlier trials. It adds
 * k columns to the linear trend of the Gaussian process; their slopes are fitted.
 */
export interface InformativePrior {
  /** Prior of the slope of each added column, k. */
  readonly slopes: readonly (readonly [mean: number, sd: number])[]
  /** The added columns of m configurations, m×k. */
  readonly computeColumns: (
    configurations: readonly Configuration[],
  ) => readonly (readonly number[])[]
  /** Factor on the prior sd of the GP's own trend slopes, which only correct this prior. */
  readonly trendScale: number
  /** Prior sd of the offset. */
  readonly offsetSd: number
  /**
   * The smallest ln Bayes factor, against the model without this prior, at which it is accepted.
   * Negative for a prior that is usually right.
   */
  readonly minLogBayesFactor: number
  /**
   * LogNormal prior of the variance of the residual from the trend, in squared units of the target
   * (ln rate or ln constraint). Absent: the default prior of the Gaussian process.
   */
  readonly signalVariance?: readonly [mu: number, sigma: number]
  /** Saturation of the quantity along the added columns. Absent: none. */
  readonly saturation?: SaturationCurve
}
