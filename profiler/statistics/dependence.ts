/**
 * Effective sample size of correlated requests. Queues make consecutive requests slow together, so
 * n requests carry less information than n independent ones.
 */
import { mean, sampleVariance } from 'simple-statistics'
import { computeMoments } from './moments.ts'
import { selectQuantile } from './percentile.ts'

/** Batches of the batch-means estimates: 10 to 30 (Schmeiser, Operations Research 30 (1982)). */
const defaultBatches = 20

/**
 * Computes the dispersion φ of a 0/1 series by batch means: m Var(means of m) / (p (1 − p)), at
 * least 1. The series is cut into `batches` batches of m values; p is its mean. Independent values
 * have φ = 1, and n values of this series are worth n / φ independent ones. Law, Simulation
 * Modeling and Analysis, section 9.5.3. Returns 1 when the series is constant or too short.
 */
export function computeDispersion(series: ArrayLike<number>, batches = defaultBatches): number {
  const n = series.length
  const m = Math.floor(n / batches)
  if (m < 2) return 1
  const means = computeBatchMeans(series, m, batches)
  const p = mean(means)
  if (p === 0 || p === 1) return 1
  const variance = sampleVariance(means)
  return Math.max(1, (m * variance) / (p * (1 - p)))
}

/**
 * Computes the serial dispersion φ of any values by batch means: m times the variance of the means
 * of m consecutive values, over the variance of the values, at least 1. The variance of the means
 * is half the mean square of their successive differences (von Neumann, Annals of Mathematical
 * Statistics 12 (1941)), so that a trend or a single change of level does not count as dependence.
 */
export function computeSerialDispersion(
  values: ArrayLike<number>,
  batches = defaultBatches,
): number {
  const m = Math.floor(values.length / batches)
  const { variance } = computeMoments(values)
  if (m < 2 || variance === 0) return 1
  const means = computeBatchMeans(values, m, batches)
  const squares = means.slice(1).map((later, i) => (later - means[i]!) ** 2)
  return Math.max(1, (m * mean(squares)) / 2 / variance)
}

/** Computes the means of consecutive batches of m values. */
function computeBatchMeans(values: ArrayLike<number>, m: number, batches: number): number[] {
  return Array.from({ length: batches }, (_, batch) => {
    let sum = 0
    for (let i = batch * m; i < (batch + 1) * m; i++) sum += values[i]!
    return sum / m
  })
}

export interface ViolationShare {
  /** Number of requests. */
  readonly n: number
  /** Requests that failed or exceeded the limit. */
  readonly violations: number
  readonly dispersion: number
  /** Effective sample size: independent requests with the same information. */
  readonly nEff: number
}

/**
 * Computes the share of requests over a limit, with its effective sample size. Failed requests
 * (NaN) count as over it. The dispersion is the larger of two: of the requests over the limit, and
 * of the slowest share. The second one is a conservative estimate where few requests are over the
 * limit.
 */
export function computeViolationShare(
  latencyMs: Float64Array,
  limitMs: number,
  slowestShare = 0.1,
): ViolationShare {
  const n = latencyMs.length
  const markOver = (limit: number) => Uint8Array.from(latencyMs, (ms) => (ms <= limit ? 0 : 1))
  const marks = markOver(limitMs)
  const violations = marks.reduce((sum, mark) => sum + mark, 0)
  const sorted = latencyMs.map((ms) => (Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms)).sort()
  const slowMs = Math.min(limitMs, selectQuantile(sorted, 1 - slowestShare))
  const dispersion = Math.max(computeDispersion(marks), computeDispersion(markOver(slowMs)))
  return { n, violations, dispersion, nEff: n / dispersion }
}
