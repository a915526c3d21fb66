/**
 * The one test of a change over time: has the server become faster or slower?
 *
 * The input is a sequence of speeds in time order, in batches: the steps of a service log, the
 * throughput of parts of a closed loop, or reciprocal latencies. The change point that separates
 * earlier from later speeds best is found by the Mann-Whitney statistic of each split between two
 * batches. Its maximum over the splits is the test of Pettitt, Applied Statistics 28 (1979), a
 * CUSUM (Page, Biometrika 41 (1954)) of ranks. It assumes no distribution and is robust against
 * outages. Dependence of consecutive speeds reduces their effective number.
 */
import { probit } from 'simple-statistics'
import { computeSerialDispersion } from './dependence.ts'
import { computeMidmean } from './moments.ts'

/**
 * Probability that a sequence of speeds of a steady server counts as changed. One measurement takes
 * about twenty such decisions, so at most one in fifty has a false alarm.
 */
export const falseAlarmLevel = 1e-3

/** Smaller changes are irrelevant: they are below the precision of a quick measurement, 6 %. */
const minRelevantChange = 0.05

/**
 * Each batch differs from the level on the other side by at least this part of the change.
 * Otherwise the server is slow now and then, which is its normal behaviour. Assumed.
 */
const minPersistentPart = 1 / 3
/** Standard deviation over the mean absolute one, for normal values: √(π / 2). */
const sdOverMeanDeviation = 1.2533

export interface Change {
  readonly changed: boolean
  /** Index of the first batch after the change; the number of batches where nothing changed. */
  readonly at: number
  /** Speed after the change over that before; 1 where nothing changed. */
  readonly ratio: number
  /** Undefined where nothing changed. */
  readonly direction: 'faster' | 'slower' | undefined
}

/**
 * Computes the standard errors beyond which a difference is significant at the level: the two-sided
 * normal quantile. The level is shared among `comparisons` of which the largest difference is taken
 * (Bonferroni).
 */
export const computeCriticalStandardErrors = (comparisons = 1, level = falseAlarmLevel): number =>
  -probit(level / (2 * comparisons))

/**
 * Finds a lasting change of speed between two batches.
 * @param batches speeds in time order; empty batches are allowed
 * @param minChange smallest relevant change, as a share
 */
export function detectChange(
  batches: readonly (readonly number[])[],
  minChange = minRelevantChange,
  level = falseAlarmLevel,
): Change {
  const unchanged = { changed: false, at: batches.length, ratio: 1, direction: undefined }
  const split = findBestSplit(batches)
  if (split === undefined) return unchanged
  if (split.standardErrors < computeCriticalStandardErrors(split.splits, level)) return unchanged
  const { at } = split
  const [before, after] = [batches.slice(0, at), batches.slice(at)]
  const ratio = computeMidmean(after.flat()) / computeMidmean(before.flat())
  // The tolerance keeps a difference of exactly `minChange` from being decided by rounding. Negated,
  // so that a ratio of NaN counts as unchanged.
  if (!(Math.abs(Math.log(ratio)) > Math.log1p(minChange) + 1e-9)) return unchanged
  if (!isPersistent(before, after)) return unchanged
  return { changed: true, at, ratio, direction: ratio > 1 ? 'faster' : 'slower' }
}

/**
 * Finds the first batch from which the speed no longer changes: that after the last of all changes,
 * 0 where none is found.
 */
export function findSteadyStart(
  batches: readonly (readonly number[])[],
  minChange = minRelevantChange,
): number {
  let start = 0
  for (;;) {
    const { changed, at } = detectChange(batches.slice(start), minChange)
    if (!changed) return start
    start += at
  }
}

/**
 * Finds the split with the largest Mann-Whitney statistic, in standard errors. Undefined where all
 * values are equal.
 */
function findBestSplit(
  batches: readonly (readonly number[])[],
): { readonly at: number; readonly standardErrors: number; readonly splits: number } | undefined {
  const values = batches.flat()
  const n = values.length
  const { ranks, tieSum } = computeRanks(values)
  const rankVariance = (n + 1 - tieSum / (n * (n - 1))) / 12
  // About 0 where all values are equal; NaN for fewer than two values.
  if (!(rankVariance > 1e-9)) return undefined
  let best: { at: number; standardErrors: number } | undefined
  let splits = 0
  let countBefore = 0
  let rankSum = 0
  for (const [i, batch] of batches.entries()) {
    if (i > 0 && batch.length > 0 && countBefore > 0) {
      splits++
      const standardErrors =
        Math.abs(rankSum - (countBefore * (n + 1)) / 2) /
        Math.sqrt(countBefore * (n - countBefore) * rankVariance)
      if (standardErrors > (best?.standardErrors ?? 0)) best = { at: i, standardErrors }
    }
    for (const end = countBefore + batch.length; countBefore < end; countBefore++)
      rankSum += ranks[countBefore]!
  }
  if (best === undefined) return undefined
  // Consecutive speeds may depend on each other: fewer independent ones carry the same information.
  return {
    at: best.at,
    standardErrors: best.standardErrors / Math.sqrt(computeSerialDispersion(ranks)),
    splits,
  }
}

/**
 * Computes ranks from 1, the mean rank for equal values, and the sum of t³ - t over groups of t
 * equal ones.
 */
function computeRanks(values: readonly number[]): {
  readonly ranks: Float64Array
  readonly tieSum: number
} {
  const order = Uint32Array.from(values.keys()).sort((a, b) => values[a]! - values[b]!)
  const ranks = new Float64Array(values.length)
  let tieSum = 0
  for (let from = 0; from < order.length; ) {
    let to = from + 1
    while (to < order.length && values[order[to]!] === values[order[from]!]) to++
    for (let i = from; i < to; i++) ranks[order[i]!] = (from + 1 + to) / 2
    tieSum += (to - from) ** 3 - (to - from)
    from = to
  }
  return { ranks, tieSum }
}

/**
 * Whether every batch lies on its side of the change, within a standard error. The two batches
 * beside the split are not checked, as the change may lie within one of them.
 */
function isPersistent(
  before: readonly (readonly number[])[],
  after: readonly (readonly number[])[],
): boolean {
  const [low, high] = [
    Math.log(computeMidmean(before.flat())),
    Math.log(computeMidmean(after.flat())),
  ]
  const change = high - low
  const deviations = [
    ...before.flat().map((speed) => Math.abs(Math.log(speed) - low)),
    ...after.flat().map((speed) => Math.abs(Math.log(speed) - high)),
  ].filter(Number.isFinite)
  const meanDeviation = deviations.reduce((sum, one) => sum + one, 0) / deviations.length
  const isOnItsSide = (batch: readonly number[], otherLevel: number, sign: number) => {
    if (batch.length === 0) return true
    const share = (sign * (Math.log(computeMidmean(batch)) - otherLevel)) / change
    const error = (sdOverMeanDeviation * meanDeviation) / Math.sqrt(batch.length) / Math.abs(change)
    return share + error >= minPersistentPart
  }
  return (
    before.slice(0, -1).every((batch) => isOnItsSide(batch, high, -1)) &&
    after.slice(1).every((batch) => isOnItsSide(batch, low, 1))
  )
}
