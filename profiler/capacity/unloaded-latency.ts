/**
 * Unloaded latency: measured by one request at a time, before and after the load, and compared with
 * requests that found an empty server under open load.
 */
import type { LoadRun } from '../model/load-run.ts'
import { type Change, detectChange } from '../statistics/change-detector.ts'
import { computeMedian } from '../statistics/percentile.ts'

/**
 * Smallest relevant change of the unloaded latency between two closed loops, as a share. Assumed.
 */
const minRelativeChange = 0.25
/**
 * The same between a closed loop and requests under open load. Smaller differences have a harmless
 * cause: short requests are more likely to meet no other. They are a third shorter for lognormal
 * services with a sigma of 0.4 at 90 % load.
 */
const minDifference = 0.4
/**
 * The same as a share of the SLO limit, and in ms: a server that is idle between requests wakes up
 * for each. Assumed.
 */
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

/** Compares the speed of later with that of earlier requests, by their latencies, ms. */
const compareLatencies = (
  beforeMs: readonly number[],
  afterMs: readonly number[],
  minChange: number,
): Change =>
  detectChange(
    [beforeMs, afterMs].map((latencies) => latencies.map((ms) => 1 / ms)),
    minChange,
  )

/** Whether unloaded latencies of a closed loop and under open load contradict each other. */
export const areContradictory = (
  a: readonly number[],
  b: readonly number[],
  limitMs: number,
): boolean =>
  compareLatencies(a, b, minDifference).changed &&
  Math.abs(computeMedian(a) - computeMedian(b)) > Math.max(minLimitShare * limitMs, minDifferenceMs)

/** Describes an unloaded latency that changed from before to after the load. */
export function describeSpeedChange(
  beforeMs: readonly number[],
  afterMs: readonly number[],
): string[] {
  const { direction } = compareLatencies(beforeMs, afterMs, minRelativeChange)
  return direction === undefined
    ? []
    : [
        `the server became ${direction} during the measurement: one request at a time took ${formatMedian(beforeMs)} before and ${formatMedian(afterMs)} after; the capacity mixes both`,
      ]
}

const formatMedian = (values: readonly number[]) => `${computeMedian(values).toPrecision(3)} ms`

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
  return areContradictory(after, unloaded, limitMs)
    ? `${comparison}: the unloaded latency under open load differs from that of a closed loop`
    : `${comparison}: the server changed; the unloaded latency is the later one`
}
