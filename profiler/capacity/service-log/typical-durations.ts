/** Typical durations of service steps, by the number of requests that they served. */
import { computeMedian } from '../../statistics/percentile.ts'
import { computeTheilSenSlope } from '../../statistics/theil-sen.ts'
import type { ServiceLog } from './service-log.ts'

/** Steps of a group whose median counts. Assumed. */
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
export function computeTypicalDurations(runs: readonly ServiceLog[]): number[] {
  const maxServed = runs.reduce(
    (highest, log) => log.tookMs.reduce((k, _, i) => Math.max(k, countServed(log, i)), highest),
    0,
  )
  const times: number[][] = Array.from({ length: maxServed + 1 }, () => [])
  for (const log of runs)
    for (const [i, ms] of log.tookMs.entries()) times[countServed(log, i)]!.push(ms)
  const typicalMs: number[] = []
  let group: { readonly served: number; readonly ms: number }[] = []
  for (let served = 0; served < times.length; served++) {
    group.push(...times[served]!.map((ms) => ({ served, ms })))
    const isLarge = group.length >= minGroupSize
    if (!isLarge && served < times.length - 1) continue
    const first = typicalMs.length
    // The last numbers of requests may have too few steps: they are like the group before.
    const line =
      isLarge || first === 0 ? fitLine(group) : { slope: 0, offset: typicalMs[first - 1]! }
    for (let k = first; k <= served; k++) typicalMs[k] = line.offset + line.slope * k
    group = []
  }
  return typicalMs
}

/** Fits the median duration as a line that does not fall with the number of requests served. */
function fitLine(group: readonly { readonly served: number; readonly ms: number }[]) {
  const slope = Math.max(
    0,
    computeTheilSenSlope(group.map(({ served, ms }) => ({ x: served, y: ms }))),
  )
  return { slope, offset: computeMedian(group.map(({ served, ms }) => ms - slope * served)) }
}
