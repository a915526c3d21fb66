/**
 * How long a twin goes on with what followed in the server. What a step takes hangs on those before
 * it: on what the other workers are at, and on how fast the machine is just then. A twin that
 * forgot the second too soon would spread a slow time over many fast ones, and be faster than any
 * server on such a machine.
 */
import type { Uniform } from '../../seeded-random.ts'
import { servedBy, usualTimes } from './stalls.ts'
import { moments, type Steps } from './steps.ts'

export interface Rows {
  /** Probability that a step comes from the time of the last, not from any time. */
  readonly keepGoing: number
  /**
   * Steps up to so many before or after the last are of its time: the one right after it alone,
   * where 1.
   */
  readonly within: number
}

export const steady: Rows = { keepGoing: 0.8, within: 1 }
/**
 * Where steps are long, or short, for longer than what other workers are at explains: rows of fifty
 * steps, where as many as sixty were seen, as few say nothing of the rest.
 */
const unsteady: Rows = { keepGoing: 0.98, within: 30 }
const fewestSteps = 3000
/**
 * Steps apart at which they are still alike then: as far as their correlation is at least so much,
 * and as many standard errors.
 */
const [nearest, farthest] = [4, 19]
const leastAlike = 0.05
const certain = 3
/**
 * Times as long as their like beyond which steps say no more, and the least deviation that is any.
 */
const mostTelling = 3
const leastDeviation = 0.02

/**
 * Rows of steps: longer where the autocorrelation of how long they take beside their like, on the
 * mean of lags beyond a few, is more than chance (of n of one lag a standard error of 1 / √n:
 * Bartlett 1946).
 */
export function rowsOf(steps: Steps): Rows {
  const { tookMs, endedMs } = steps
  if (tookMs.length < fewestSteps) return steady
  const usualMs = usualTimes([steps])
  const off = tookMs.map((ms, i) => Math.min(mostTelling, ms / usualMs[servedBy(steps, i)]!))
  const { mean, variance } = moments(off, [...off.keys()])
  let [products, pairs] = [0, 0]
  for (let lag = nearest; lag <= farthest; lag++)
    for (let i = 0; i + lag < off.length; i++) {
      // The next run of load began.
      if (endedMs[i + lag]! < endedMs[i]!) continue
      products += (off[i]! - mean) * (off[i + lag]! - mean)
      pairs++
    }
  const alike = variance > leastDeviation ** 2 ? products / pairs / variance : 0
  return alike > Math.max(leastAlike, certain / Math.sqrt(pairs)) ? unsteady : steady
}

/**
 * The step that follows another, of those that fit: mostly one of its time, in the server's own
 * order (stationary bootstrap, Politis and Romano 1994; of those that fit the nearest: the local
 * bootstrap, Paparoditis and Politis 2002).
 * @param fitting indices of steps, ascending as those of a twin drawn anew are
 * @param last -1 for none
 */
export function following(rows: Rows, fitting: Int32Array, last: number, uniform: Uniform): number {
  const next = last < 0 ? undefined : ofItsTime(rows.within, fitting, last)
  return next !== undefined && uniform() < rows.keepGoing
    ? next
    : fitting[Math.floor(uniform() * fitting.length)]!
}

/** The nearest after a step, or before it where none is near. */
function ofItsTime(within: number, fitting: Int32Array, last: number): number | undefined {
  const after = placeAfter(fitting, last)
  if (after < fitting.length && fitting[after]! - last <= within) return fitting[after]!
  const before = fitting[after - 1] === last ? after - 2 : after - 1
  return before >= 0 && last - fitting[before]! < within ? fitting[before]! : undefined
}

/** Place of the first that is greater, of values that ascend. */
function placeAfter(ascending: Int32Array, value: number): number {
  let [from, to] = [0, ascending.length]
  while (from < to) {
    const middle = (from + to) >> 1
    if (ascending[middle]! > value) to = middle
    else from = middle + 1
  }
  return from
}
