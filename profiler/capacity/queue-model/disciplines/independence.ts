/**
 * Tests service times under an assumed number of workers: whether they are independent of the load,
 * and whether they changed over time.
 */
import { quickselect } from 'simple-statistics'
import { computeMoments } from '../../../statistics/moments.ts'
import { binomialCdf, computeMedian } from '../../../statistics/percentile.ts'
import type { ServiceTimes } from '../../service-log/service-log.ts'

/** Minimum number of requests that waited, and of those that did not, for a comparison. */
export const minRequestsToCompare = 25
/** Mean service times within this share of each other count as equal. */
const maxMeanDifference = 0.02
/**
 * Standard errors that make a difference significant: four, as service times have long tails and
 * many loops are compared; three between halves of the loops.
 */
const minStandardErrors = 4
const minHalfStandardErrors = 3
/**
 * Mean absolute deviations of log service times, of requests that waited and of others, count as
 * equal within this difference.
 */
const maxSpreadDifference = 0.1
/**
 * Share of requests that waited whose service may be short: less than half of the 5 % quantile of
 * requests that did not wait (2.5 % for exponential services).
 */
const maxShortShare = 0.04

/**
 * Whether service times are independent of waiting. Requests that waited must have the same mean
 * and spread as those that did not, likewise requests that found longer queues. Undefined where
 * either group is too small.
 */
export function isIndependentOfLoad(
  runs: readonly ServiceTimes[],
  workers: number,
): boolean | undefined {
  const { free: unqueued, waited } = splitByWaiting(runs, workers)
  if (unqueued.length < minRequestsToCompare || waited.length < minRequestsToCompare)
    return undefined
  const twentieth = Math.floor(0.05 * unqueued.length)
  quickselect(unqueued, twentieth)
  const shortMs = 0.5 * unqueued[twentieth]!
  const short = waited.filter((each) => each < shortMs).length
  if (
    short >
    maxShortShare * waited.length + minHalfStandardErrors * Math.sqrt(maxShortShare * waited.length)
  )
    return false
  const { ms, found } = concatenate(runs)
  const ascending = found.slice().sort()
  const quarters = [1, 2, 3].map((quarter) => ascending[Math.floor((quarter * found.length) / 4)]!)
  const sample = makeSample(ms)
  if (hasOtherSpread(sample.logs.of, (i) => found[i]! >= workers)) return false
  return [...new Set([workers, ...quarters])].every((n) =>
    isSplitSimilar(sample, (i) => found[i]! >= n, minStandardErrors),
  )
}

/**
 * Whether the log service times of one part are spread more, or less, about the common median than
 * those of the rest.
 */
function hasOtherSpread(logs: Float64Array, isOther: (i: number) => boolean): boolean {
  const middle = computeMedian(logs)
  return differ(
    computeSampleMoments(logs.map((log) => Math.abs(log - middle))),
    isOther,
    () => maxSpreadDifference,
    minStandardErrors,
  )
}

/**
 * Splits service times into those of requests that found a free worker, and of those that did not.
 */
export function splitByWaiting(
  runs: readonly ServiceTimes[],
  workers: number,
): { readonly free: number[]; readonly waited: number[] } {
  const free: number[] = []
  const waited: number[] = []
  for (const { log, found } of runs)
    for (let i = 0; i < found.length; i++)
      (found[i]! < workers ? free : waited).push(log.tookMs[i]!)
  return { free, waited }
}

function concatenate(runs: readonly ServiceTimes[]): {
  readonly ms: Float64Array
  readonly found: Int32Array
} {
  const size = runs.reduce((sum, { found }) => sum + found.length, 0)
  const ms = new Float64Array(size)
  const found = new Int32Array(size)
  let at = 0
  for (const run of runs) {
    ms.set(run.log.tookMs, at)
    found.set(run.found, at)
    at += run.found.length
  }
  return { ms, found }
}

/**
 * Squared difference of mean log service times between requests that waited and others, in standard
 * errors.
 */
export function computeMisfit(runs: readonly ServiceTimes[], workers: number): number {
  const { ms, found } = concatenate(runs)
  const { logs } = makeSample(ms)
  const { difference, error } = compareParts(logs, (i) => found[i]! >= workers)
  return error > 0 ? (difference / error) ** 2 : 0
}

/**
 * Selects the latest loops whose service times agree with those of the open windows and of later
 * loops. Loops are compared one by one, then by halves, which detects a gradual change.
 */
export function selectSimilarLoops(
  open: readonly ServiceTimes[],
  loops: readonly ServiceTimes[],
): ServiceTimes[] {
  const times = (of: readonly ServiceTimes[]) => of.flatMap(({ log }) => log.tookMs)
  let found: ServiceTimes[] = []
  for (const services of loops.toReversed()) {
    if (!areSimilar(times([...open, ...found]), services.log.tookMs, minStandardErrors)) break
    found.unshift(services)
  }
  for (let half = Math.floor(found.length / 2); half > 0; half = Math.floor(found.length / 2)) {
    const [earlier, later] = [times(found.slice(0, half)), times([...open, ...found.slice(half)])]
    if (areSimilar(later, earlier, minHalfStandardErrors) && !didSlowServicesFade(earlier, later))
      break
    found = found.slice(half)
  }
  return found
}

/** A service is slow from this multiple of the median. */
const minSlowFactor = 2
/** Slow services are rare up to this share. */
const maxRareShare = 0.1
/**
 * Rare slow services fade where their number among later services is significantly small at this
 * p-value. Misses of a filling cache fade so.
 */
const maxFadingPValue = 0.05

function didSlowServicesFade(earlier: readonly number[], later: readonly number[]): boolean {
  const minSlowMs = minSlowFactor * computeMedian([...earlier, ...later])
  const [before, after] = [earlier, later].map(
    (times) => times.filter((ms) => ms > minSlowMs).length,
  )
  const all = before! + after!
  return (
    all <= maxRareShare * (earlier.length + later.length) &&
    binomialCdf(after!, all, later.length / (earlier.length + later.length)) < maxFadingPValue
  )
}

/**
 * Whether two samples agree in their means and in their mean logarithms, within 2 % or the given
 * standard errors.
 */
function areSimilar(known: readonly number[], other: readonly number[], errors: number): boolean {
  return isSplitSimilar(
    makeSample(new Float64Array([...known, ...other])),
    (i) => i >= known.length,
    errors,
  )
}

/** Values and their logarithms, which are compared by their means. */
interface Sample {
  readonly values: Moments
  readonly logs: Moments
}
type Moments = ReturnType<typeof computeMoments> & { readonly of: Float64Array }

function makeSample(values: Float64Array): Sample {
  const plain = computeSampleMoments(values)
  return {
    values: plain,
    logs: computeSampleMoments(values.map((value) => Math.log(Math.max(1e-3 * plain.mean, value)))),
  }
}

const computeSampleMoments = (of: Float64Array): Moments => ({ of, ...computeMoments(of) })

/** As `areSimilar`, for two parts of one sample; true where one is empty. */
function isSplitSimilar(
  { values, logs }: Sample,
  isOther: (i: number) => boolean,
  errors: number,
): boolean {
  return (
    !differ(values, isOther, (knownMean) => maxMeanDifference * knownMean, errors) &&
    !differ(logs, isOther, () => maxMeanDifference, errors)
  )
}

/**
 * Whether the means of two parts differ by more than `minDifference` (given the mean of the rest)
 * and the given standard errors.
 */
function differ(
  of: Moments,
  isOther: (i: number) => boolean,
  minDifference: (knownMean: number) => number,
  errors: number,
): boolean {
  const { difference, restMean, error } = compareParts(of, isOther)
  return Math.abs(difference) > Math.max(minDifference(restMean), errors * error)
}

/**
 * Difference of the means of one part and the rest, and its standard error for one common
 * distribution; 0 where one is empty.
 */
function compareParts({ of, mean, variance }: Moments, isOther: (i: number) => boolean) {
  let others = 0
  let sum = 0
  for (let i = 0; i < of.length; i++) {
    if (!isOther(i)) continue
    others++
    sum += of[i]!
  }
  const rest = of.length - others
  if (others === 0 || rest === 0) return { difference: 0, restMean: mean, error: 0 }
  const restMean = (mean * of.length - sum) / rest
  return {
    difference: sum / others - restMean,
    restMean,
    error: Math.sqrt(variance * (1 / others + 1 / rest)),
  }
}
