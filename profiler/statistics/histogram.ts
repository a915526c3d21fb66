/** Histograms and percentiles for tables and charts. */

/** Latencies are recorded in microseconds. */
const resolutionMs = 1e-3
/** Smallest ratio of the last to the first edge, so that equal answers have bins, too. */
const minEdgeRatio = 1.001

export interface HistogramBin {
  readonly fromMs: number
  readonly toMs: number
  readonly count: number
}

/**
 * Computes a histogram of latencies in bins of equal ratio, from the fastest to the slowest answer.
 * Failed requests (NaN) are left out. Empty without an answer.
 */
export function computeLatencyHistogram(latencyMs: Float64Array, bins: number): HistogramBin[] {
  const answeredMs = latencyMs.filter((ms) => !Number.isNaN(ms)).sort()
  if (answeredMs.length === 0) return []
  const low = Math.max(resolutionMs, answeredMs[0]!)
  const high = Math.max(low * minEdgeRatio, answeredMs.at(-1)!)
  const computeEdge = (i: number) => low * (high / low) ** (i / bins)
  const counts = new Array<number>(bins).fill(0)
  for (const ms of answeredMs) {
    const bin = Math.floor((bins * Math.log(Math.max(ms, low) / low)) / Math.log(high / low))
    counts[Math.min(bins - 1, bin)]!++
  }
  return counts.map((count, i) => ({ fromMs: computeEdge(i), toMs: computeEdge(i + 1), count }))
}

/**
 * Chooses the percentiles for a table of n requests. Those above 0.9 are omitted where fewer than
 * one request is expected beyond them.
 */
export const chooseTablePercentiles = (n: number): number[] =>
  [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999].filter((p) => n * (1 - p) >= 1 || p <= 0.9)
