/**
 * Unloaded latency: measured by one request at a time, and compared with requests that found an
 * empty server under open load.
 */

import type { LoadRun } from '../model/load-run.ts'
import { quantileOfSorted } from '../statistics/percentile.ts'

const minSamples = 12
/**
 * Two medians contradict each other where their difference exceeds all of these: standard errors, a
 * share of the smaller median, a share of the SLO limit, and ms. Smaller differences have a
 * harmless cause: a server that is idle between requests wakes up for each.
 */
const minStandardErrors = 4
const minRelativeDifference = 0.25
const minLimitShare = 0.02
const minDifferenceMs = 0.5

/**
 * Extracts the latencies, ms, of requests that found the server empty and departed before the next
 * arrival. Requests that were cut short, and all requests from the first failure on, are left out.
 */
export function extractUnloadedLatencies({
  sentMs,
  latencyMs,
  lateMs,
  cutMs = Number.POSITIVE_INFINITY,
}: LoadRun): number[] {
  const unloaded: number[] = []
  let emptyFromMs = 0
  for (const [i, plannedMs] of sentMs.entries()) {
    const late = lateMs?.[i] ?? 0
    const ms = latencyMs[i]! - late
    const endedMs = plannedMs + latencyMs[i]!
    // The departure time of a failed request is unknown, so no later request is surely alone.
    if (Number.isNaN(ms)) return unloaded
    if (
      plannedMs + late >= emptyFromMs &&
      endedMs < cutMs &&
      endedMs <= (sentMs[i + 1] ?? Number.POSITIVE_INFINITY)
    )
      unloaded.push(ms)
    emptyFromMs = Math.max(emptyFromMs, endedMs)
  }
  return unloaded
}

/** Whether the medians of unloaded latencies contradict each other. */
export function areMediansContradictory(
  a: readonly number[],
  b: readonly number[],
  limitMs: number,
): boolean {
  if (Math.min(a.length, b.length) < minSamples) return false
  const [x, y] = [medianWithError(a), medianWithError(b)]
  const minMs = Math.max(
    minRelativeDifference * Math.min(x.ms, y.ms),
    minLimitShare * limitMs,
    minDifferenceMs,
  )
  return (
    Math.abs(x.ms - y.ms) > Math.max(minMs, minStandardErrors * Math.hypot(x.errorMs, y.errorMs))
  )
}

/** Median and its standard error from order statistics (binomial spread to either side). */
export function medianWithError(values: readonly number[]): {
  readonly ms: number
  readonly errorMs: number
} {
  const sorted = Float64Array.from(values).sort()
  const half = 0.5 / Math.sqrt(sorted.length)
  return {
    ms: quantileOfSorted(sorted, 0.5),
    errorMs: (quantileOfSorted(sorted, 0.5 + half) - quantileOfSorted(sorted, 0.5 - half)) / 2,
  }
}

const formatMedian = (values: readonly number[]) =>
  `${medianWithError(values).ms.toPrecision(3)} ms`

/**
 * Describes unloaded latencies before and after the load, where those under load contradict the
 * first.
 */
export function describeUnloadedContradiction(
  before: readonly number[],
  after: readonly number[],
  unloaded: readonly number[],
  limitMs: number,
): string {
  const comparison = `one request at a time took ${formatMedian(before)} before the load and ${formatMedian(after)} after it, requests that met no other under load took ${formatMedian(unloaded)}`
  return areMediansContradictory(after, unloaded, limitMs)
    ? `${comparison}: the unloaded latency under open load differs from that of a closed loop`
    : `${comparison}: the server changed; the unloaded latency is the later one`
}
