/**
 * Percentiles without assumptions about the distribution: order statistics and their binomial
 * confidence intervals.
 */
import { gammaln } from 'simple-statistics'

/**
 * Selects the p-quantile (0 < p <= 1) of an ascending array: its ⌈p n⌉-th smallest value. NaN when
 * empty.
 */
export function selectQuantile(ascending: ArrayLike<number>, p: number): number {
  const n = ascending.length
  if (n === 0) return Number.NaN
  return ascending[Math.min(n, Math.max(1, Math.ceil(p * n - 1e-9))) - 1]!
}

/** Computes the median of values in any order: the lower one of two. NaN when empty. */
export const computeMedian = (values: ArrayLike<number>): number =>
  selectQuantile(Float64Array.from(values).sort(), 0.5)

/**
 * Ranks (1-based) of the order statistics that enclose the p-quantile of n independent values with
 * at least the given confidence. A lower rank of 0 means no lower bound, an upper rank of n + 1 no
 * upper bound. Hahn and Meeker, Statistical Intervals (1991), section 5.2.
 */
export function computeQuantileRanks(
  n: number,
  p: number,
  confidence: number,
): readonly [lower: number, upper: number] {
  const tail = (1 - confidence) / 2
  return [computeBinomialQuantile(tail, n, p), computeBinomialQuantile(1 - tail, n, p) + 1]
}

/**
 * Computes a distribution-free confidence interval of the p-quantile of an ascending array; 0 and
 * Infinity where there is no bound.
 */
export function computeQuantileInterval(
  ascending: ArrayLike<number>,
  p: number,
  confidence: number,
): [number, number] {
  const [lower, upper] = computeQuantileRanks(ascending.length, p, confidence)
  return [ascending[lower - 1] ?? 0, ascending[upper - 1] ?? Number.POSITIVE_INFINITY]
}

/** Computes the smallest k with P(Binomial(n, p) <= k) >= probability, for p < 1. */
export function computeBinomialQuantile(probability: number, n: number, p: number): number {
  let k = computeMinRelevantCount(n, p)
  let mass = computeBinomialMass(k, n, p)
  for (let cumulative = mass; cumulative < probability && k < n; cumulative += mass)
    mass *= computeMassRatio(k++, n, p)
  return k
}

/** Computes P(Binomial(n, p) <= k). */
export function computeBinomialCdf(k: number, n: number, p: number): number {
  if (k >= n) return 1
  let i = computeMinRelevantCount(n, p)
  if (k < i || p === 1) return 0
  let mass = computeBinomialMass(i, n, p)
  let cumulative = mass
  while (i < k) {
    mass *= computeMassRatio(i++, n, p)
    cumulative += mass
  }
  return Math.min(1, cumulative)
}

/**
 * Computes a count below which the probability is negligible: twelve standard deviations under the
 * mean, and 30 for skewed distributions.
 */
const computeMinRelevantCount = (n: number, p: number): number =>
  Math.max(0, Math.floor(n * p - 12 * Math.sqrt(n * p * (1 - p)) - 30))

/** Computes P(Binomial(n, p) = k), for p < 1. */
function computeBinomialMass(k: number, n: number, p: number): number {
  const successes = k === 0 ? 0 : k * Math.log(p)
  return Math.exp(
    gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + successes + (n - k) * Math.log1p(-p),
  )
}

/** Computes P(Binomial(n, p) = k + 1) / P(Binomial(n, p) = k). */
const computeMassRatio = (k: number, n: number, p: number): number =>
  ((n - k) * p) / ((k + 1) * (1 - p))
