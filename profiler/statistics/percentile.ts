/** Percentiles without assumptions about the distribution: order statistics and their binomial confidence intervals. */
import { gammaln } from 'simple-statistics'

/** The p-quantile (0 < p <= 1) of an ascending array: its ⌈p n⌉-th smallest value. NaN when empty. */
export function quantileOfSorted(ascending: ArrayLike<number>, p: number): number {
  const n = ascending.length
  if (n === 0) return Number.NaN
  return ascending[Math.min(n, Math.max(1, Math.ceil(p * n - 1e-9))) - 1]!
}

/**
 * Ranks (1-based) of the order statistics that enclose the p-quantile of n independent values with at least the given confidence.
 * A lower rank of 0 means no lower bound, an upper rank of n + 1 no upper bound.
 * Hahn and Meeker, Statistical Intervals (1991), section 5.2.
 */
export function quantileRanks(n: number, p: number, confidence: number): readonly [lower: number, upper: number] {
  const key = `${n} ${p} ${confidence}`
  const known = ranks.get(key)
  if (known) return known
  const tail = (1 - confidence) / 2
  const found = [binomialQuantile(tail, n, p), binomialQuantile(1 - tail, n, p) + 1] as const
  if (ranks.size >= mostRanks) ranks.clear()
  ranks.set(key, found)
  return found
}

/** Windows of one search are often of one length. */
const ranks = new Map<string, readonly [number, number]>()
const mostRanks = 256

/** Distribution-free confidence interval of the p-quantile of an ascending array; 0 and Infinity where there is no bound. */
export function quantileInterval(ascending: ArrayLike<number>, p: number, confidence: number): [number, number] {
  const n = ascending.length
  const [lower, upper] = quantileRanks(n, p, confidence)
  return [lower < 1 ? 0 : ascending[lower - 1]!, upper > n ? Number.POSITIVE_INFINITY : ascending[upper - 1]!]
}

/** Smallest k with P(Binomial(n, p) <= k) >= probability. */
export function binomialQuantile(probability: number, n: number, p: number): number {
  if (n === 0) return 0
  const spread = 12 * Math.sqrt(n * p * (1 - p)) + 30
  let k = Math.max(0, Math.floor(n * p - spread))
  let cumulative = 0
  for (; k < n; k++) {
    cumulative += Math.exp(logBinomialPmf(k, n, p))
    if (cumulative >= probability) return k
  }
  return n
}

/** P(Binomial(n, p) <= k). */
export function binomialCdf(k: number, n: number, p: number): number {
  if (k >= n) return 1
  if (p === 0) return k >= 0 ? 1 : 0
  const from = Math.max(0, Math.floor(n * p - 12 * Math.sqrt(n * p * (1 - p)) - 30))
  let cumulative = 0
  for (let i = from; i <= k; i++) cumulative += Math.exp(logBinomialPmf(i, n, p))
  return Math.min(1, cumulative)
}

function logBinomialPmf(k: number, n: number, p: number): number {
  const successes = k === 0 ? 0 : k * Math.log(p)
  const failures = k === n ? 0 : (n - k) * Math.log1p(-p)
  return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + successes + failures
}
