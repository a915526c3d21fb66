/**
 * The idle latency beside that of requests which met nobody under open load: both say how long one
 * request takes by itself.
 */
import { quantileOfSorted } from '../statistics/percentile.ts'
import type { LoadRun } from '../model/load-run.ts'

const fewest = 12
/**
 * Standard errors of both medians, share of the smaller and of the limit, and ms, beyond which they
 * contradict each other: a server that rests between requests wakes up for each.
 */
const certain = 4
const apart = 0.25
const ofLimit = 0.02
const leastMs = 0.5

/**
 * Latencies of the requests of a run that found the server empty and left before the next one came,
 * ms. Those cut short are left out, and all from the first that failed on.
 */
export function aloneIn({
  sentMs,
  latencyMs,
  lateMs,
  cutMs = Number.POSITIVE_INFINITY,
}: LoadRun): number[] {
  const alone: number[] = []
  let emptyFromMs = 0
  for (const [i, plannedMs] of sentMs.entries()) {
    const late = lateMs?.[i] ?? 0
    const ms = latencyMs[i]! - late
    const endedMs = plannedMs + latencyMs[i]!
    // When a failed one left nobody knows.
    if (Number.isNaN(ms)) return alone
    if (
      plannedMs + late >= emptyFromMs &&
      endedMs < cutMs &&
      endedMs <= (sentMs[i + 1] ?? Number.POSITIVE_INFINITY)
    )
      alone.push(ms)
    emptyFromMs = Math.max(emptyFromMs, endedMs)
  }
  return alone
}

/**
 * Whether latencies of requests that met nobody lie apart from one another, by their medians:
 * beyond chance, a quarter, a fiftieth of the limit and half a millisecond.
 */
export function contradictAlone(
  a: readonly number[],
  b: readonly number[],
  limitMs: number,
): boolean {
  if (Math.min(a.length, b.length) < fewest) return false
  const [x, y] = [medianOf(a), medianOf(b)]
  const least = Math.max(apart * Math.min(x.ms, y.ms), ofLimit * limitMs, leastMs)
  return Math.abs(x.ms - y.ms) > Math.max(least, certain * Math.hypot(x.errorMs, y.errorMs))
}

/**
 * The median, and its standard error by its order statistics (a binomial's spread to either side).
 */
export function medianOf(values: readonly number[]): {
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

const shown = (values: readonly number[]) => `${medianOf(values).ms.toPrecision(3)} ms`

/**
 * What to say of idle latencies before and after the load, the former of which those of requests
 * that met nobody contradict.
 */
export function idleContradiction(
  before: readonly number[],
  after: readonly number[],
  alone: readonly number[],
  limitMs: number,
): string {
  const told = `one request at a time took ${shown(before)} before the load and ${shown(after)} after it, those that met nobody under load ${shown(alone)}`
  return contradictAlone(after, alone, limitMs)
    ? `${told}: a request by itself takes another time under open load than after the last answer`
    : `${told}: the server changed, and the idle latency is the later one`
}
