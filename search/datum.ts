import type { Configuration, Estimate } from './types.ts'

/** One reading of a modelled quantity. */
export interface Datum {
  readonly at: Configuration
  readonly target: number
  /** Noise variance; NaN where unknown. */
  readonly noise: number
  /** The truth is only known to be at most, or at least, the target. */
  readonly bound?: 'most' | 'least'
}

export const datum = (at: Configuration, target: number, estimate: Partial<Estimate> = {}, bound?: Datum['bound']): Datum => ({
  at,
  target,
  noise: estimate.logSd === undefined ? Number.NaN : Math.max(estimate.logSd * estimate.logSd, 1e-4),
  ...(bound ? { bound } : {}),
})
