/**
 * Whether service times are those of one kind of request, served alike: what they hang on, were
 * there so many workers, and whether they changed.
 */
import { quickselect } from 'simple-statistics'
import { binomialCdf, quantileOfSorted } from '../../../statistics/percentile.ts'
import type { Services } from '../../service-log/service-log.ts'

/** Fewest requests that waited, and that did not, to tell whether it makes a difference. */
export const fewest = 25
/** Difference of mean service times, as a share of them, that is none. */
const same = 0.02
/**
 * Standard errors beyond which a difference is one: service times have long tails, and there are
 * many loops to compare; of half of all of them.
 */
const certain = 4
const ratherCertain = 3
/**
 * How much further services of requests that waited may be from the middle one than those of the
 * others, on the mean, or nearer, by their logarithms.
 */
const alikeVaried = 0.1
/**
 * Share of services not half as long as nearly all of requests that did not wait, up to which they
 * are chance (2.5 % where they are exponential).
 */
const fewShort = 0.04

/**
 * Whether requests that waited were served as long as those that did not, and varied as much, and
 * those that found many as long as those that found few; undefined where too few of either tell.
 */
export function independent(runs: readonly Services[], workers: number): boolean | undefined {
  const { free: atOnce, waited } = byWaiting(runs, workers)
  if (atOnce.length < fewest || waited.length < fewest) return undefined
  const twentieth = Math.floor(0.05 * atOnce.length)
  quickselect(atOnce, twentieth)
  const shortMs = 0.5 * atOnce[twentieth]!
  const short = waited.filter((each) => each < shortMs).length
  if (short > fewShort * waited.length + ratherCertain * Math.sqrt(fewShort * waited.length))
    return false
  const { ms, found } = joined(runs)
  const ascending = found.slice().sort()
  const quarters = [1, 2, 3].map((quarter) => ascending[Math.floor((quarter * found.length) / 4)]!)
  const sample = sampleOf(ms)
  if (variesOtherwise(sample.logs.of, (i) => found[i]! >= workers)) return false
  return [...new Set([workers, ...quarters])].every((n) =>
    splitAlike(sample, (i) => found[i]! >= n, certain),
  )
}

/**
 * Whether logarithms of the services of some are further from the middle one, or nearer to it, than
 * those of the others.
 */
function variesOtherwise(logs: Float64Array, isOther: (i: number) => boolean): boolean {
  const middle = quantileOfSorted(logs.slice().sort(), 0.5)
  return apart(
    momentsOf(logs.map((log) => Math.abs(log - middle))),
    isOther,
    () => alikeVaried,
    certain,
  )
}

/** Service times of requests that found a worker free, and of those that did not. */
export function byWaiting(
  runs: readonly Services[],
  workers: number,
): { readonly free: number[]; readonly waited: number[] } {
  const free: number[] = []
  const waited: number[] = []
  for (const { steps, found } of runs)
    for (let i = 0; i < found.length; i++)
      (found[i]! < workers ? free : waited).push(steps.tookMs[i]!)
  return { free, waited }
}

function joined(runs: readonly Services[]): {
  readonly ms: Float64Array
  readonly found: Int32Array
} {
  const size = runs.reduce((sum, { found }) => sum + found.length, 0)
  const ms = new Float64Array(size)
  const found = new Int32Array(size)
  let at = 0
  for (const run of runs) {
    ms.set(run.steps.tookMs, at)
    found.set(run.found, at)
    at += run.found.length
  }
  return { ms, found }
}

/**
 * How unlike services of requests that waited are to those of the others: the difference of their
 * mean logarithms, in standard errors, squared.
 */
export function misfit(runs: readonly Services[], workers: number): number {
  const { ms, found } = joined(runs)
  const { logs } = sampleOf(ms)
  const { difference, error } = differenceOf(logs, (i) => found[i]! >= workers)
  return error > 0 ? (difference / error) ** 2 : 0
}

/**
 * The last loops whose service times do not differ from those of the open windows and of the loops
 * after them, one by one and the earlier half together.
 */
export function servedAlike(open: readonly Services[], loops: readonly Services[]): Services[] {
  const times = (of: readonly Services[]) => of.flatMap(({ steps }) => steps.tookMs)
  let found: Services[] = []
  for (const services of loops.toReversed()) {
    if (!alike(times([...open, ...found]), services.steps.tookMs, certain)) break
    found.unshift(services)
  }
  for (let half = Math.floor(found.length / 2); half > 0; half = Math.floor(found.length / 2)) {
    const [earlier, later] = [times(found.slice(0, half)), times([...open, ...found.slice(half)])]
    if (alike(later, earlier, ratherCertain) && !slowOnesGrewRarer(earlier, later)) break
    found = found.slice(half)
  }
  return found
}

/** A service is slow that takes so many times the median, and rare where no larger share is. */
const slow = 2
const rare = 0.1
/**
 * Probability of fewer slow ones later by chance, below which they became rarer: as of a cache that
 * fills, each of whose inputs is slow once.
 */
const chance = 0.05

function slowOnesGrewRarer(earlier: readonly number[], later: readonly number[]): boolean {
  const leastMs = slow * quantileOfSorted(Float64Array.from([...earlier, ...later]).sort(), 0.5)
  const [before, after] = [earlier, later].map((times) => times.filter((ms) => ms > leastMs).length)
  const all = before! + after!
  return (
    all <= rare * (earlier.length + later.length) &&
    binomialCdf(after!, all, later.length / (earlier.length + later.length)) < chance
  )
}

/**
 * Whether two samples differ neither in their mean nor in that of their logarithms, beyond 2 % and
 * so many standard errors, were they of one kind.
 */
function alike(known: readonly number[], other: readonly number[], errors: number): boolean {
  return splitAlike(
    sampleOf(new Float64Array([...known, ...other])),
    (i) => i >= known.length,
    errors,
  )
}

/** Values, and what their means are compared by. */
interface Sample {
  readonly values: Moments
  readonly logs: Moments
}
interface Moments {
  readonly of: Float64Array
  readonly mean: number
  readonly variance: number
}

function sampleOf(values: Float64Array): Sample {
  const plain = momentsOf(values)
  return {
    values: plain,
    logs: momentsOf(values.map((value) => Math.log(Math.max(1e-3 * plain.mean, value)))),
  }
}

function momentsOf(of: Float64Array): Moments {
  const mean = of.reduce((sum, value) => sum + value, 0) / of.length
  return { of, mean, variance: of.reduce((sum, value) => sum + (value - mean) ** 2, 0) / of.length }
}

/** As `alike`, of two parts of one sample; alike where one of them is empty. */
function splitAlike(
  { values, logs }: Sample,
  isOther: (i: number) => boolean,
  errors: number,
): boolean {
  return (
    !apart(values, isOther, (knownMean) => same * knownMean, errors) &&
    !apart(logs, isOther, () => same, errors)
  )
}

/**
 * Whether the means of two parts differ by more than `least`, given that of the first, and so many
 * standard errors.
 */
function apart(
  of: Moments,
  isOther: (i: number) => boolean,
  least: (knownMean: number) => number,
  errors: number,
): boolean {
  const { difference, restMean, error } = differenceOf(of, isOther)
  return Math.abs(difference) > Math.max(least(restMean), errors * error)
}

/**
 * Mean of one part over that of the rest, and its standard error were they of one kind; no
 * difference where one of them is empty.
 */
function differenceOf({ of, mean, variance }: Moments, isOther: (i: number) => boolean) {
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
