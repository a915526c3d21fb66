/**
 * Servers that refuse by a count in windows of their clock (a fixed-window limiter: so many
 * requests in each second): all that come are let in until the count is full, and none until the
 * window is over.
 *
 * A window of load that is shorter than one of the limit's, or begins in the middle of it, holds at
 * rates far above what Poisson arrivals are let in at for long: that is the rate at which the part
 * of a Poisson number beyond the count is the share that may fail.
 */
import { sum } from 'simple-statistics'
import type { LoadRun } from '../../types.ts'

/**
 * A limit that lets in so many in each window of the server's clock, whenever they come, and
 * refuses the rest of them.
 */
export interface WindowLimit {
  readonly most: number
  readonly windowMs: number
  /** What its length is uncertain by, ms: it shows in the first request of each window. */
  readonly errorMs: number
}

/**
 * Refusals in a row that end a window's count; requests let in after them that are no bucket's, of
 * which one comes at a time.
 */
const fewestInARow = 3
const fewestCounted = 5
/** More than mostly flow into a bucket in a lull. */
const manyAtOnce = 10
/** Requests that a count may differ by from the others: they overtake one another on their way. */
const miscounted = 2

/**
 * The limit by windows of the clock that refusals tell of: after some in a row as many are let in
 * each time, and then none until as long after. Undefined where they tell of none, or no run saw
 * two windows begin.
 */
export function windowLimitOf(runs: readonly LoadRun[]): WindowLimit | undefined {
  const { counts, lengths, errorMs } = windowsOf(runs)
  if (lengths.length === 0 || counts.length === 0) return undefined
  const [most, middleMs] = [middle(counts), middle(lengths)]
  const alike = counts.filter((count) => Math.abs(count - most) <= miscounted).length
  // Either end of each is late by up to the error, and is the end of another too.
  const regular = lengths.filter(
    (ms) => Math.abs(ms - middleMs) <= Math.max(2 * errorMs, 0.02 * middleMs),
  )
  if (most < fewestCounted || alike < 0.8 * counts.length || regular.length < 0.8 * lengths.length)
    return undefined
  return {
    most,
    windowMs: sum(regular) / regular.length,
    errorMs: errorMs / Math.sqrt(regular.length),
  }
}

/**
 * Whether mostly many requests were let in one after the other after some in a row were refused,
 * and then refused again: seldom a bucket's, which was empty.
 */
export function letsInByTheClock(runs: readonly LoadRun[]): boolean {
  const { counts } = windowsOf(runs)
  return counts.length > 0 && middle(counts) >= manyAtOnce
}

/**
 * Requests let in after refusals in a row, until the next one; and from one such beginning to the
 * next, ms, to within `errorMs`.
 */
function windowsOf(runs: readonly LoadRun[]): {
  readonly counts: number[]
  readonly lengths: number[]
  readonly errorMs: number
} {
  const counts: number[] = []
  const lengths: number[] = []
  let errorMs = 0
  for (const { sentMs, latencyMs, cutMs = Number.POSITIVE_INFINITY } of runs) {
    const order = [...sentMs.keys()]
      .filter((i) => sentMs[i]! < cutMs)
      .sort((a, b) => sentMs[a]! - sentMs[b]!)
    let [refused, letIn] = [0, 0]
    let beganMs: number | undefined
    for (const [place, i] of order.entries()) {
      if (Number.isNaN(latencyMs[i]!)) {
        if (letIn > 0 && beganMs !== undefined) counts.push(letIn)
        letIn = Number.NEGATIVE_INFINITY
        refused++
        continue
      }
      if (refused >= fewestInARow) {
        if (beganMs !== undefined) lengths.push(sentMs[i]! - beganMs)
        errorMs = Math.max(errorMs, sentMs[i]! - sentMs[order[place - 1]!]!)
        beganMs = sentMs[i]!
        letIn = 0
      }
      refused = 0
      letIn++
    }
  }
  return { counts, lengths, errorMs }
}

const middle = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[values.length >> 1]!

/**
 * The highest rate of Poisson arrivals of which such a limit refuses at most this share, and its 90
 * % interval.
 */
export function windowCapacityWithin(
  { most, windowMs, errorMs }: WindowLimit,
  share: number,
): { rateRps: number; ci90Rps: readonly [number, number] } {
  const rate = (count: number, ms: number) => (1000 * poissonMeanWithin(count, share)) / ms
  return {
    rateRps: rate(most, windowMs),
    ci90Rps: [
      rate(most - 1, windowMs + errorMs),
      rate(most + 1, Math.max(windowMs / 2, windowMs - errorMs)),
    ],
  }
}

/**
 * The largest mean of a Poisson number of which the part beyond `most` is this share on the mean.
 */
function poissonMeanWithin(most: number, share: number): number {
  let [low, high] = [0, most / (1 - Math.min(0.99, share))]
  for (let i = 0; i < 40; i++) {
    const mean = (low + high) / 2
    if (beyond(most, mean) > share * mean) high = mean
    else low = mean
  }
  return low
}

/** Mean part of a Poisson number beyond `most`. */
function beyond(most: number, mean: number): number {
  let logProbability = -mean
  let total = 0
  const last = most + 12 * Math.sqrt(mean) + 12
  for (let k = 1; k <= last; k++) {
    logProbability += Math.log(mean / k)
    if (k > most) total += (k - most) * Math.exp(logProbability)
  }
  return total
}
