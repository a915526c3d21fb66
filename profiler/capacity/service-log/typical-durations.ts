/** How long steps of a service log typically take, by the number of requests that they served. */
import { quantileOfSorted } from '../../statistics/percentile.ts'
import { theilSenSlope } from '../../statistics/theil-sen.ts'
import type { Steps } from './service-log.ts'

const fewestAlike = 8

/**
 * Requests that a step was about: those present when it began, or as many as left, if more joined
 * them. Of a batch those in it: how many more waited for the next one makes it no longer.
 */
export const servedBy = ({ present, departed }: Steps, i: number): number =>
  departed[i]! > 1 ? departed[i]! : present[i]!

/**
 * Median time of a step by the number it served. Neighbouring numbers go together until there are
 * enough, along the line between them (Theil 1950, Sen 1968: the median of the slopes): a step of
 * twenty is no stall for being longer than one of ten.
 */
export function usualTimes(runs: readonly Steps[]): number[] {
  const most = runs.reduce(
    (highest, steps) => steps.tookMs.reduce((k, _, i) => Math.max(k, servedBy(steps, i)), highest),
    0,
  )
  const times: number[][] = Array.from({ length: most + 1 }, () => [])
  for (const steps of runs)
    for (const [i, ms] of steps.tookMs.entries()) times[servedBy(steps, i)]!.push(ms)
  const usual: number[] = []
  let group: { readonly k: number; readonly ms: number }[] = []
  let from = 0
  for (let k = 0; k < times.length; k++) {
    group.push(...times[k]!.map((ms) => ({ k, ms })))
    if (group.length < fewestAlike && k < times.length - 1) continue
    const few = group.length < fewestAlike && from > 0
    const slope = few
      ? 0
      : Math.max(0, theilSenSlope(group.map((step) => ({ x: step.k, y: step.ms }))))
    const median = few ? usual[from - 1]! : middle(group.map((step) => step.ms - slope * step.k))
    for (; from <= k; from++) usual[from] = median + slope * from
    group = []
  }
  return usual
}

const middle = (values: number[]): number =>
  quantileOfSorted(
    values.sort((a, b) => a - b),
    0.5,
  )
