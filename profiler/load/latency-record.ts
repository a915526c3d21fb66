/**
 * Histograms of the latencies of a window, from which it can be judged under another SLO later.
 * Bins have equal ratios; empty ones are omitted. A histogram is plain JSON of a few hundred
 * numbers. The number of requests within any limit is known up to the count of one bin.
 */
import type { RecordedLatencies } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import { computeDispersion } from '../statistics/dependence.ts'
import { selectQuantile } from '../statistics/percentile.ts'

/** Bins per doubling: each is 4.4 % wide. */
const binsPerDoubling = 16
/** Range of the bins: a microsecond to an hour. */
const minMs = 1e-3
const maxMs = 3_600_000

/** Finds the index of the bin of a latency. */
const findBin = (ms: number): number =>
  Math.floor(binsPerDoubling * Math.log2(Math.min(maxMs, Math.max(minMs, ms)) / minMs))

/** Computes the geometric middle of a bin, ms: within 2.2 % of every latency in it. */
export const computeBinMiddleMs = (bin: number): number =>
  minMs * 2 ** ((bin + 0.5) / binsPerDoubling)

/** The clustering of slow requests is measured above these quantiles. */
const tailQuantiles = [0.5, 0.9, 0.95, 0.99]

/** Lists bin, count, bin, count, ... of the answered requests (no NaN), in ascending order. */
function countBins(latencyMs: Float64Array): number[] {
  const counts = new Map<number, number>()
  for (const ms of latencyMs)
    if (!Number.isNaN(ms)) counts.set(findBin(ms), (counts.get(findBin(ms)) ?? 0) + 1)
  return [...counts].sort(([a], [b]) => a - b).flat()
}

/**
 * Records all latencies of a run, of whole answers and of parts of streams, and their dispersion.
 * Pass the run as played, before `selectSloLatencies`.
 */
export function recordLatencies({ latencyMs, stream }: LoadRun): RecordedLatencies {
  const byMetric = stream?.latenciesMs ?? { e2e: latencyMs }
  return {
    e2e: countBins(byMetric.e2e),
    ...Object.fromEntries(Object.entries(byMetric).map(([metric, ms]) => [metric, countBins(ms)])),
    dispersion: Number(Math.max(...Object.values(byMetric).map(findMaxDispersion)).toPrecision(4)),
  }
}

function findMaxDispersion(latencyMs: Float64Array): number {
  const withFailures = latencyMs.map((ms) => (Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms))
  const sorted = withFailures.slice().sort()
  return Math.max(
    1,
    ...tailQuantiles.map((tail) => {
      const limit = selectQuantile(sorted, tail)
      return computeDispersion(Uint8Array.from(withFailures, (ms) => (ms > limit ? 1 : 0)))
    }),
  )
}

/**
 * Bounds the number of answers within `limitMs`: without and with those in the bin of the limit.
 */
export function countWithin(
  record: readonly number[],
  limitMs: number,
): readonly [min: number, max: number] {
  const limitBin = findBin(limitMs)
  let min = 0
  let max = 0
  for (let i = 0; i < record.length; i += 2) {
    if (record[i]! < limitBin) min += record[i + 1]!
    if (record[i]! <= limitBin) max += record[i + 1]!
  }
  return [min, max]
}
