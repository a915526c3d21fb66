/**
 * Effective sample size of correlated requests. Queues make consecutive requests slow together, so
 * n requests carry less information than n independent ones.
 */
import { mean, sampleVariance } from 'simple-statistics'
import { quantileOfSorted } from './percentile.ts'

/**
 * Dispersion φ of a 0/1 series by batch means: m Var(means of m) / (p (1 − p)), at least 1. The
 * series is cut into `batches` batches of m values; p is its mean. Independent values have φ = 1,
 * and n values of this series are worth n / φ independent ones. Law, Simulation Modeling and
 * Analysis, section 9.5.3. Returns 1 when the series is constant or too short.
 */
export function dispersion(series: ArrayLike<number>, batches = 20): number {
  const n = series.length
  const m = Math.floor(n / batches)
  if (m < 2) return 1
  const means: number[] = []
  for (let b = 0; b < batches; b++) {
    let sum = 0
    for (let i = b * m; i < (b + 1) * m; i++) sum += series[i]!
    means.push(sum / m)
  }
  const p = mean(means)
  if (p === 0 || p === 1) return 1
  const variance = sampleVariance(means)
  return Math.max(1, (m * variance) / (p * (1 - p)))
}

export interface OverShare {
  /** Requests, and those that failed or exceeded the limit. */
  readonly n: number
  readonly over: number
  readonly dispersion: number
  /** Effective sample size: independent requests with the same information. */
  readonly nEff: number
}

/**
 * Share of requests over a limit, with its effective sample size. Failed requests (NaN) are over.
 * The dispersion is the larger of two: of the requests over the limit, and of the slowest tenth
 * (`slowest`). The second one is a conservative estimate where few requests are over the limit.
 */
export function overShare(latencyMs: Float64Array, limitMs: number, slowest = 0.1): OverShare {
  const n = latencyMs.length
  const overLimit = (limit: number) => Uint8Array.from(latencyMs, (ms) => (ms <= limit ? 0 : 1))
  const indicator = overLimit(limitMs)
  const over = indicator.reduce((sum, one) => sum + one, 0)
  const sorted = latencyMs.map((ms) => (Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms)).sort()
  const phi = Math.max(
    dispersion(indicator),
    dispersion(overLimit(Math.min(limitMs, quantileOfSorted(sorted, 1 - slowest)))),
  )
  return { n, over, dispersion: phi, nEff: n / phi }
}

export interface Moments {
  readonly mean: number
  /** Standard error of the mean, for independent values. */
  readonly standardError: number
}

/** Mean latency of the answered requests (NaN are left out), and its standard error. */
export function computeLatencyMoments(latencyMs: Float64Array): Moments {
  const answered = latencyMs.filter((ms) => !Number.isNaN(ms))
  const n = Math.max(1, answered.length)
  const mean = answered.reduce((sum, ms) => sum + ms, 0) / n
  const variance = answered.reduce((sum, ms) => sum + (ms - mean) ** 2, 0) / Math.max(1, n - 1)
  return { mean, standardError: Math.sqrt(variance / n) }
}
