/**
 * The early-stopping rule of MLPerf's LoadGen: whether requests are enough for a percentile claim.
 */
import { computeBinomialCdf } from './percentile.ts'

/**
 * Whether at most this number of violations in n independent requests prove that the percentile
 * meets the limit. If the true share of violations were 1 − percentile, at most as many would occur
 * with a probability of 1 − confidence or less. MLPerf Inference, LoadGen early stopping (Reddi et
 * al. 2020, section IV-D): p99 at 95 % needs n = 299 with no violation, 473 with 1, 628 with 2.
 */
export function provesPercentile(
  n: number,
  violations: number,
  percentile: number,
  confidence = 0.95,
): boolean {
  return computeBinomialCdf(Math.ceil(violations), Math.floor(n), 1 - percentile) <= 1 - confidence
}
