/**
 * Goodness-of-fit test of a service discipline: the service times that it implies are independent
 * of the load. Too few workers make requests that waited look too short, too many make them look
 * too long, and another order of service, shared cores or a wrong batching delay show likewise.
 */
import { sum } from 'simple-statistics'
import { computeCriticalStandardErrors } from '../../statistics/change-detector.ts'
import { selectQuantile } from '../../statistics/percentile.ts'
import { computeTypicalDurations } from '../service-log/typical-durations.ts'
import type { ServiceTimes } from './service-times.ts'

/** Smallest number of services that waited, and of those that did not, for a comparison. */
export const minServicesToCompare = 25
/**
 * Largest share of requests that may contradict the discipline: answers overtake on the network,
 * and batches depart simultaneously by chance. Wrong batches contradict in a fifth of requests and
 * more.
 */
const maxContradictingShare = 0.04
/** Means within this share of each other count as equal. */
const maxMeanDifference = 0.02
/** The same for mean absolute deviations of log durations. */
const maxSpreadDifference = 0.1
/** Comparisons of one test: four splits of two means, and the spread. */
const comparisons = 9
/** Standard errors that make one of these differences significant: 3.9. */
const minStandardErrors = computeCriticalStandardErrors(comparisons)

/** Result of the test. */
export interface Fit {
  /** Undefined where too few services waited, or too few did not. */
  readonly fits: boolean | undefined
  /**
   * Squared difference of mean log durations between services that waited and others, in standard
   * errors.
   */
  readonly misfit: number
}

/** Whether batches, or the order of departures, contradict the discipline. */
export const doesContradict = (runs: readonly ServiceTimes[]): boolean =>
  sum(runs.map(({ contradicting }) => contradicting)) >
  maxContradictingShare * sum(runs.map(({ requests }) => requests))

/**
 * Tests whether services are independent of the load: those that waited against the others, and
 * those that found longer queues against those that found shorter ones.
 */
export function testFit(runs: readonly ServiceTimes[]): Fit {
  if (doesContradict(runs)) return { fits: false, misfit: Number.POSITIVE_INFINITY }
  const ratios = computeRatios(runs)
  const waited = runs.flatMap((run) => run.waited)
  const systemSizes = runs.flatMap((run) => run.systemSizeAtArrival)
  const waitedCount = waited.filter(Boolean).length
  if (Math.min(waitedCount, waited.length - waitedCount) < minServicesToCompare)
    return { fits: undefined, misfit: 0 }
  const logs = ratios.map((ratio) => Math.log(Math.max(1e-3, ratio)))
  const medianLog = selectQuantile(logs.slice().sort(), 0.5)
  const deviations = logs.map((log) => Math.abs(log - medianLog))
  const ascending = systemSizes.toSorted((a, b) => a - b)
  const quartiles = [1, 2, 3].map(
    (quarter) => ascending[Math.floor((quarter * systemSizes.length) / 4)]!,
  )
  const didWait = (i: number) => waited[i]!
  const splits = [
    didWait,
    ...quartiles.map((quartile) => (i: number) => systemSizes[i]! >= quartile),
  ]
  const { difference, error } = compareMeans(logs, didWait)
  return {
    fits:
      !doMeansDiffer(deviations, didWait, maxSpreadDifference) &&
      splits.every(
        (split) =>
          !doMeansDiffer(ratios, split, maxMeanDifference) &&
          !doMeansDiffer(logs, split, maxMeanDifference),
      ),
    misfit: error > 0 ? (difference / error) ** 2 : 0,
  }
}

/** Computes the durations of services relative to the typical one of their batch size. */
function computeRatios(runs: readonly ServiceTimes[]): Float64Array {
  const typicalMs = computeTypicalDurations(runs.map(({ log }) => log))
  return Float64Array.from(
    runs.flatMap(({ log }) => log.tookMs.map((ms, i) => ms / typicalMs[log.departed[i]!]!)),
  )
}

/** Whether the means of two parts differ beyond the tolerance and beyond chance. */
function doMeansDiffer(
  values: Float64Array,
  isOther: (i: number) => boolean,
  maxDifference: number,
): boolean {
  const { difference, error } = compareMeans(values, isOther)
  return Math.abs(difference) > Math.max(maxDifference, minStandardErrors * error)
}

/**
 * Computes the difference of the means of two parts, and its standard error for one common
 * distribution; 0 where one part is empty.
 */
function compareMeans(values: Float64Array, isOther: (i: number) => boolean) {
  let otherCount = 0
  let total = 0
  let otherTotal = 0
  let squares = 0
  for (const [i, value] of values.entries()) {
    total += value
    squares += value * value
    if (!isOther(i)) continue
    otherCount++
    otherTotal += value
  }
  const n = values.length
  const firstCount = n - otherCount
  if (otherCount === 0 || firstCount === 0) return { difference: 0, error: 0 }
  const variance = Math.max(0, squares / n - (total / n) ** 2)
  return {
    difference: otherTotal / otherCount - (total - otherTotal) / firstCount,
    error: Math.sqrt(variance * (1 / otherCount + 1 / firstCount)),
  }
}
