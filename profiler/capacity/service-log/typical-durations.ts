/** Typical durations of service steps, by the number of requests that they served. */
import { computeMedian } from '../../statistics/percentile.ts'
import { theilSenSlope } from '../../statistics/theil-sen.ts'
import type { ServiceLog } from './service-log.ts'

const minGroupSize = 8

/**
 * Counts the requests on which the duration of a step depends. For a batch these are its members,
 * as requests that wait for the next batch do not lengthen this one. For a single departure these
 * are all requests present when the step began.
 */
export const countServed = ({ present, departed }: ServiceLog, i: number): number =>
  departed[i]! > 1 ? departed[i]! : present[i]!

/**
 * Computes the median step duration by `countServed`, ms. Neighbouring numbers are pooled until a
 * group has enough steps. Within a group the median follows a Theil-Sen line (Theil 1950; Sen
 * 1968), so that a step of twenty requests is not an outlier beside steps of ten.
 */
export function typicalDurations(runs: readonly ServiceLog[]): number[] {
  const maxServed = runs.reduce(
    (highest, log) => log.tookMs.reduce((k, _, i) => Math.max(k, countServed(log, i)), highest),
    0,
  )
  const times: number[][] = Array.from({ length: maxServed + 1 }, () => [])
  for (const log of runs)
    for (const [i, ms] of log.tookMs.entries()) times[countServed(log, i)]!.push(ms)
  const typicalMs: number[] = []
  let group: { readonly k: number; readonly ms: number }[] = []
  let from = 0
  for (let k = 0; k < times.length; k++) {
    group.push(...times[k]!.map((ms) => ({ k, ms })))
    if (group.length < minGroupSize && k < times.length - 1) continue
    const isSparse = group.length < minGroupSize && from > 0
    const slope = isSparse
      ? 0
      : Math.max(0, theilSenSlope(group.map((step) => ({ x: step.k, y: step.ms }))))
    const median = isSparse
      ? typicalMs[from - 1]!
      : computeMedian(group.map((step) => step.ms - slope * step.k))
    for (; from <= k; from++) typicalMs[from] = median + slope * from
    group = []
  }
  return typicalMs
}
