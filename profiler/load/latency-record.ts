/**
 * Latencies of a window in brief: counts by bins of equal ratio, those that are not empty alone.
 * Bounded (some hundred numbers for any window), made of JSON's own numbers, and good for bounds:
 * how many requests kept a limit is known but for those in the limit's bin.
 */
import type { RecordedLatencies } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import { dispersion } from '../statistics/dependence.ts'
import { quantileOfSorted } from '../statistics/percentile.ts'

/** Bins per doubling: each is 4.4 % wide. */
const perDoubling = 16
const leastMs = 1e-3
const mostMs = 3_600_000

const binOf = (ms: number): number =>
  Math.floor(perDoubling * Math.log2(Math.min(mostMs, Math.max(leastMs, ms)) / leastMs))

/** Geometric middle of a bin, ms: no latency in it is more than 2.2 % away. */
export const middleMs = (bin: number): number => leastMs * 2 ** ((bin + 0.5) / perDoubling)

/** Shares of requests beyond which the clustering of slow ones is looked at. */
const tails = [0.5, 0.9, 0.95, 0.99]

/** Bin, count, bin, count, ... of the answered requests (NaN are left out), by rising bin. */
function recordOf(latencyMs: Float64Array): number[] {
  const counts = new Map<number, number>()
  for (const ms of latencyMs)
    if (!Number.isNaN(ms)) counts.set(binOf(ms), (counts.get(binOf(ms)) ?? 0) + 1)
  return [...counts].sort(([a], [b]) => a - b).flat()
}

/**
 * A run's latencies, whole answers and parts of streams, and how alike neighbours are. `run` as
 * played, not as an SLO counts it.
 */
export function recordedLatencies({ latencyMs, stream }: LoadRun): RecordedLatencies {
  const each = stream?.latenciesMs ?? { e2e: latencyMs }
  return {
    e2e: recordOf(each.e2e),
    ...Object.fromEntries(Object.entries(each).map(([metric, ms]) => [metric, recordOf(ms)])),
    dispersion: Number(Math.max(...Object.values(each).map(largestDispersion)).toPrecision(4)),
  }
}

function largestDispersion(latencyMs: Float64Array): number {
  const slow = latencyMs.map((ms) => (Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms))
  const sorted = slow.slice().sort()
  return Math.max(
    1,
    ...tails.map((tail) => {
      const limit = quantileOfSorted(sorted, tail)
      return dispersion(Uint8Array.from(slow, (ms) => (ms > limit ? 1 : 0)))
    }),
  )
}

/** How many of a record's answers took at most `limitMs`: at least, and at most. */
export function countWithin(
  record: readonly number[],
  limitMs: number,
): readonly [least: number, most: number] {
  const limitBin = binOf(limitMs)
  let [least, most] = [0, 0]
  for (let i = 0; i < record.length; i += 2) {
    if (record[i]! < limitBin) least += record[i + 1]!
    if (record[i]! <= limitBin) most += record[i + 1]!
  }
  return [least, most]
}
