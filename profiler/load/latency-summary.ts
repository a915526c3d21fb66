/** Latency summaries. */
import type { LatencySummary } from '../model/load-point.ts'
import { selectQuantile } from '../statistics/percentile.ts'

/** Percentiles of a summary beside the mean and the maximum, ascending, with their names. */
export const storedPercentiles = [
  [0.5, 'p50Ms'],
  [0.9, 'p90Ms'],
  [0.95, 'p95Ms'],
  [0.99, 'p99Ms'],
] as const satisfies readonly (readonly [number, keyof LatencySummary])[]

/**
 * Summarises sorted latencies.
 * @param ascending latencies, ms; all figures are NaN without any
 */
export function summariseSorted(ascending: Float64Array): LatencySummary {
  return {
    requests: ascending.length,
    meanMs: ascending.reduce((sum, ms) => sum + ms, 0) / ascending.length,
    p50Ms: selectQuantile(ascending, 0.5),
    p90Ms: selectQuantile(ascending, 0.9),
    p95Ms: selectQuantile(ascending, 0.95),
    p99Ms: selectQuantile(ascending, 0.99),
    maxMs: selectQuantile(ascending, 1),
  }
}

/** Summary of no requests. */
export const noLatency: LatencySummary = summariseSorted(new Float64Array(0))
