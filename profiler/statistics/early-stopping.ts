/**
 * The early-stopping rule of MLPerf's LoadGen: whether requests are enough for a percentile claim.
 */
import { binomialCdf } from './percentile.ts'

/**
 * Whether only `over` of n independent requests over the limit prove that the percentile is within
 * it, at the given confidence. If the true share over the limit were 1 − percentile, so few would
 * occur with a probability of at most 1 − confidence. MLPerf Inference, LoadGen early stopping
 * (Reddi et al. 2020, section IV-D): p99 at 95 % needs n = 299 with none over, 473 with 1, 628 with
 * 2.
 */
export function provesPercentile(
  n: number,
  over: number,
  percentile: number,
  confidence = 0.95,
): boolean {
  return binomialCdf(Math.ceil(over), Math.floor(n), 1 - percentile) <= 1 - confidence
}
