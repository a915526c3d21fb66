/** Whether a stored window keeps another SLO than it was measured for, as far as its recorded latencies tell. Pure: also runs in a browser. */
import { failsTooOften, limitsOf, mostOver } from '../slo.ts'
import { provesPercentile } from '../statistics/early-stopping.ts'
import { countWithin } from '../statistics/latency-record.ts'
import { keptPercentiles } from '../statistics/latency-summary.ts'
import type { LatencySummary, LoadPoint, Slo, SloLimit } from '../types.ts'

/**
 * Whether the very same window keeps `slo`: true, false, or undefined where what was recorded does not tell. A window that the generator or the machine
 * spoilt can keep an SLO in spite of it, but not miss one; one that was cut short can miss one only.
 */
export function keptUnder(point: LoadPoint, slo: Slo): boolean | undefined {
  const spoilt = point.generatorSaturated || point.disturbed === true
  if (failsTooOften(point, slo)) return spoilt ? undefined : false
  const over = overUnder(point, slo)
  if (over === undefined) return undefined
  const [least, most] = over
  const { load } = point
  const planned = point.cut && load.kind === 'open' ? Math.max(point.requests, Math.round(load.rateRps * load.durationS)) : point.requests
  if (least > mostOver(slo, planned)) return spoilt ? undefined : false
  return !point.cut && most <= mostOver(slo, point.requests) ? true : undefined
}

/** Whether the very same window proves `slo` at 95 %: LoadGen's rule (see early-stopping.ts) on its requests, counted by how alike neighbours are. */
export function provenUnder(point: LoadPoint, slo: Slo): boolean {
  const over = overUnder(point, slo)
  if (over === undefined || point.latencies === undefined || keptUnder(point, slo) !== true) return false
  const { dispersion } = point.latencies
  return provesPercentile(point.requests / dispersion, over[1] / dispersion, slo.percentile)
}

type Bounds = readonly [least: number, most: number]

/** How many requests failed or miss a limit of the SLO: a request that misses one limit of several may or may not be one that misses another. */
function overUnder(point: LoadPoint, slo: Slo): Bounds | undefined {
  const each = limitsOf(slo).map((limit) => withinLimit(point, limit))
  let [least, most] = [0, 0]
  for (const within of each) {
    if (within === undefined) return undefined
    least = Math.max(least, point.requests - within[1])
    most += point.requests - within[0]
  }
  return [least, Math.min(most, point.requests)]
}

/** How many requests kept one limit: by the percentiles that the point has of it, and by its histogram, where it has one. */
function withinLimit(point: LoadPoint, { metric, limitMs }: SloLimit): Bounds | undefined {
  const summary: LatencySummary | undefined = point.stream ? point.stream[metric] : metric === 'e2e' ? point : undefined
  if (summary === undefined) return undefined
  const answered = point.requests - point.errors
  if (answered === 0) return [0, 0]
  let [least, most] = [0, answered]
  for (const [share, name] of [...keptPercentiles, [1, 'maxMs'] as const]) {
    const ms = summary[name]
    const rank = Math.max(1, Math.ceil(share * answered - 1e-9))
    if (ms <= limitMs) least = Math.max(least, rank)
    else if (ms > limitMs) most = Math.min(most, rank - 1)
  }
  const record = point.latencies?.[metric]
  if (record === undefined) return [least, Math.max(least, most)]
  const [fewest, all] = countWithin(record, limitMs)
  return [Math.max(least, fewest), Math.max(least, Math.min(most, all))]
}
