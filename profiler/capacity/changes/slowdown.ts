/**
 * Detects a server that slows down while it is measured: throttled, leaking memory, losing its
 * share of the machine. Each step is compared with earlier steps of the same queue length or batch
 * size, because a slower server has longer queues and larger batches.
 */
import { quantileOfSorted } from '../../statistics/percentile.ts'
import { theilSenSlope } from '../../statistics/theil-sen.ts'
import { joinServiceLogs, type ServiceLog, sliceServiceLog } from '../service-log/service-log.ts'

const minSteps = 12
const minStandardErrors = 4
/**
 * Smaller slowdowns are ignored: windows have different rates, and step durations depend slightly
 * on the rate.
 */
const minSlowdownShare = 0.1
/**
 * Each segment before the change must be faster by this part of the slowdown. Otherwise the server
 * is slow now and then, which is its normal behaviour.
 */
const minSegmentPart = 1 / 3
/** Segments per window, each of at least `minSteps` steps. */
const maxSegments = 8
/** Steps that enter the pairwise Theil-Sen fit. */
const maxPairedSteps = 150
const minGroupSize = 8

export interface Slowdown {
  /** Speed after the change over that before: 0.5 is half as fast. */
  readonly speed: number
  /**
   * Index of the first run that lies wholly after the change; the number of runs where none does.
   */
  readonly from: number
}

/**
 * Finds the change point that separates slower segments from earlier ones most significantly.
 * Undefined without a slowdown beyond 10 % and four standard errors, or where the server got faster
 * again.
 * @param runs in time order
 */
export function detectSlowdown(runs: readonly ServiceLog[]): Slowdown | undefined {
  const segments = runs.flatMap((log, run) =>
    splitIntoSegments(log).map((segment, place) => ({
      log: segment,
      first: run + Math.min(1, place),
    })),
  )
  const joinSegments = (from: number, to?: number) =>
    joinServiceLogs(segments.slice(from, to).map(({ log }) => log))
  let best:
    | { readonly at: number; readonly slowdownShare: number; readonly standardErrors: number }
    | undefined
  for (let at = 1; at < segments.length; at++) {
    const { slowdownShare, error } = compareDurations(joinSegments(0, at), joinSegments(at))
    const standardErrors = slowdownShare / Math.max(error, 1e-3)
    if (
      slowdownShare > minSlowdownShare &&
      standardErrors > (best?.standardErrors ?? minStandardErrors)
    )
      best = { at, slowdownShare, standardErrors }
  }
  if (best === undefined) return undefined
  const since = joinSegments(best.at)
  const compareSegment = (segment: number) => compareDurations(segments[segment]!.log, since)
  const minSegmentShare = minSegmentPart * best.slowdownShare
  // The best split may lie a little after the change. The change may lie within a segment, so the
  // segment just before it is not checked.
  let at = best.at
  while (at > 1 && compareSegment(at - 1).slowdownShare < minSegmentShare) at--
  for (let segment = 0; segment < at - 1; segment++) {
    const { slowdownShare, error } = compareSegment(segment)
    if (slowdownShare + error < minSegmentShare) return undefined
  }
  return { speed: Math.exp(-best.slowdownShare), from: segments[at]!.first }
}

/**
 * @param speed speed at the end over that at the beginning
 * @param isOngoing whether the last window may be slower still
 */
export function describeSlowdown(speed: number, isOngoing: boolean): string {
  const times = `service took ${(1 / speed).toFixed(2)} times as long at the end as at the beginning`
  if (!isOngoing) return `slowed down during the measurement: ${times}`
  return speed < 1 ? `still slowing down: ${times} already` : 'slowing down at the end'
}

/**
 * Compares later with earlier step durations at the same queue length or batch size.
 * `slowdownShare` is the log ratio of later to earlier durations, about the share by which they
 * grew; negative for a server that got faster. `error` is its standard error, Infinity where too
 * few steps are comparable.
 */
export function compareDurations(
  before: ServiceLog,
  after: ServiceLog,
): { readonly slowdownShare: number; readonly error: number } {
  const expected = predictDurations(before)
  const logs = (log: ServiceLog) =>
    Float64Array.from(
      log.tookMs.flatMap((ms, i) => {
        const expectedMs = expected(log.present[i]!, log.departed[i]!)
        return expectedMs > 0 && ms > 0 ? [Math.log(ms / expectedMs)] : []
      }),
    ).sort()
  const [a, b] = [logs(before), logs(after)]
  if (a.length < minSteps || b.length < minSteps)
    return { slowdownShare: 0, error: Number.POSITIVE_INFINITY }
  const [earlier, later] = [medianWithError(a), medianWithError(b)]
  return {
    slowdownShare: later.median - earlier.median,
    error: Math.hypot(earlier.error, later.error),
  }
}

/**
 * Predicts step durations, ms, from a log. For a single departure it is the median of steps at the
 * same queue length; queues longer than any observed use the longest. For a batch it follows a
 * Theil-Sen line over the batch size. NaN for batches larger than any observed. NaN also for queues
 * shorter than those of the reference: with idle workers, departures are further apart.
 */
function predictDurations(reference: ServiceLog): (present: number, departed: number) => number {
  const singles: { present: number; ms: number }[] = []
  const batches: { size: number; ms: number }[] = []
  for (const [i, ms] of reference.tookMs.entries()) {
    if (reference.departed[i] === 1) singles.push({ present: reference.present[i]!, ms })
    else batches.push({ size: reference.departed[i]!, ms })
  }
  singles.sort((a, b) => a.present - b.present)
  const groups: { readonly upTo: number; readonly typicalPresent: number; readonly ms: number }[] =
    []
  for (let from = 0; from < singles.length; ) {
    let to = Math.min(singles.length, from + minGroupSize)
    while (to < singles.length && singles[to]!.present === singles[to - 1]!.present) to++
    if (singles.length - to < minGroupSize) to = singles.length
    const group = singles.slice(from, to)
    groups.push({
      upTo: group.at(-1)!.present,
      typicalPresent: group[group.length >> 1]!.present,
      ms: median(group.map(({ ms }) => ms)),
    })
    from = to
  }
  const largest = batches.reduce((highest, { size }) => Math.max(highest, size), 0)
  const line = fitBatchLine(batches)
  return (present, departed) => {
    if (departed > 1)
      return batches.length < minGroupSize || departed > largest ? Number.NaN : line(departed)
    const group = groups.find(({ upTo }) => present <= upTo) ?? groups.at(-1)
    return group === undefined || singles.length < minGroupSize || present < group.typicalPresent
      ? Number.NaN
      : group.ms
  }
}

function fitBatchLine(all: readonly { size: number; ms: number }[]): (size: number) => number {
  const sampled = all.filter((_, i) => i % Math.ceil(all.length / maxPairedSteps) === 0)
  const msEach = Math.max(0, theilSenSlope(sampled.map(({ size, ms }) => ({ x: size, y: ms }))))
  const baseMs = all.length > 0 ? median(all.map(({ size, ms }) => ms - msEach * size)) : 0
  return (size) => baseMs + msEach * size
}

/**
 * Median and its standard error by the mean absolute deviation, for independent normal values. A
 * mixture of two speeds has a large deviation even where most values agree.
 */
function medianWithError(ascending: Float64Array): {
  readonly median: number
  readonly error: number
} {
  const median = quantileOfSorted(ascending, 0.5)
  const deviation = ascending.reduce((sum, x) => sum + Math.abs(x - median), 0) / ascending.length
  return { median, error: (1.2533 ** 2 * deviation) / Math.sqrt(ascending.length) }
}

const median = (values: readonly number[]): number =>
  quantileOfSorted(Float64Array.from(values).sort(), 0.5)

/** Splits the steps of a window into consecutive segments. */
function splitIntoSegments(log: ServiceLog): ServiceLog[] {
  const n = log.tookMs.length
  const segments = Math.min(maxSegments, Math.max(1, Math.floor(n / minSteps)))
  const from = (segment: number) => Math.floor((segment * n) / segments)
  return Array.from({ length: segments }, (_, segment) =>
    sliceServiceLog(log, from(segment), from(segment + 1)),
  )
}
