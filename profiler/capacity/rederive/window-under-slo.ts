/**
 * Whether a stored window keeps another SLO than it was measured for, as far as its recorded
 * latencies tell. Pure: also runs in a browser.
 */
import type { LatencyMetric } from '../../model/latency-metrics.ts'
import {
  countFailed,
  countNotObservable,
  failsTooOften,
  limitsFor,
  limitsOf,
  mostOver,
  saysNothing,
  type Slo,
  type SloLimit,
} from '../../model/slo.ts'
import { provesPercentile } from '../../statistics/early-stopping.ts'
import { countWithin } from '../../load/latency-record.ts'
import { keptPercentiles } from '../../load/latency-summary.ts'
import type { LatencySummary, LoadPoint } from '../../model/load-point.ts'

/**
 * Whether the very same window keeps `slo`: true, false, or undefined where what was recorded does
 * not tell. A window that the generator or the machine spoilt can keep an SLO in spite of it, but
 * not miss one; one that was cut short can miss one only.
 */
export function keptUnder(point: LoadPoint, slo: Slo): boolean | undefined {
  const missed = saysNothing(point, slo) ? undefined : false
  const silent = partsOf(point, slo).reduce(
    (sum, { summaries, requestClass }) =>
      sum + countNotObservable(summaries, limitsFor(limitsOf(slo), requestClass)),
    0,
  )
  const errors = countFailed(point) + silent
  if (failsTooOften({ requests: point.requests, errors }, slo)) return missed
  const each = partsUnder(point, slo)
  if (each === undefined) return undefined
  const { load } = point
  const whole =
    point.cut && load.kind === 'open'
      ? Math.max(1, Math.round(load.rateRps * load.durationS) / point.requests)
      : 1
  const misses = (parts: typeof each) =>
    parts.some(({ requests, over: [least] }) => least > mostOver(slo, Math.round(whole * requests)))
  if (misses(each)) return missed
  return !point.cut && each.every(({ requests, over: [, most] }) => most <= mostOver(slo, requests))
    ? true
    : undefined
}

/**
 * Whether the very same window proves `slo` at 95 %: LoadGen's rule (see early-stopping.ts) on its
 * requests, counted by how alike neighbours are.
 */
export function provenUnder(point: LoadPoint, slo: Slo): boolean {
  const each = partsUnder(point, slo)
  if (each === undefined || point.latencies === undefined || keptUnder(point, slo) !== true)
    return false
  const { dispersion } = point.latencies
  return each.every(({ requests, over: [, most] }) =>
    provesPercentile(requests / dispersion, most / dispersion, slo.percentile),
  )
}

type Bounds = readonly [least: number, most: number]

/** Requests that must keep the percentile by themselves: all, or those of a class. */
interface Part extends Pick<LoadPoint, 'requests' | 'errors' | 'latencies'> {
  readonly summaries: Readonly<Partial<Record<LatencyMetric, LatencySummary>>>
  readonly requestClass?: string
}

/**
 * Each of them, and how many of its requests failed or miss a limit of the SLO. Undefined where
 * what was recorded does not tell.
 */
function partsUnder(
  point: LoadPoint,
  slo: Slo,
): { readonly requests: number; readonly over: Bounds }[] | undefined {
  const told: { readonly requests: number; readonly over: Bounds }[] = []
  for (const part of partsOf(point, slo)) {
    const over = overUnder(part, slo)
    if (over === undefined) return undefined
    told.push({ requests: part.requests, over })
  }
  return told
}

function partsOf(point: LoadPoint, { classes = [] }: Slo): Part[] {
  const { requests, latencies, stream } = point
  const each = classes.flatMap((requestClass): Part[] => {
    const own = stream?.classes?.[requestClass]
    if (own === undefined) return []
    // No histogram is kept of a class.
    return [
      {
        requestClass,
        requests: own.e2e.requests + (own.errors ?? 0),
        errors: own.errors ?? 0,
        summaries: own,
      },
    ]
  })
  return each.length > 0
    ? each
    : [{ requests, errors: countFailed(point), latencies, summaries: stream ?? { e2e: point } }]
}

/** A request that misses one limit of several may or may not be one that misses another. */
function overUnder(part: Part, slo: Slo): Bounds | undefined {
  const each = limitsFor(limitsOf(slo), part.requestClass).map((limit) => withinLimit(part, limit))
  let [least, most] = [0, 0]
  for (const within of each) {
    if (within === undefined) return undefined
    least = Math.max(least, part.requests - within[1])
    most += part.requests - within[0]
  }
  return [least, Math.min(most, part.requests)]
}

/**
 * How many requests kept one limit: by the percentiles that are kept of it, and by its histogram,
 * where there is one.
 */
function withinLimit(
  { requests, errors, latencies, summaries }: Part,
  { metric, limitMs }: SloLimit,
): Bounds | undefined {
  const summary = summaries[metric]
  if (summary === undefined) return undefined
  // An answer whose latency was not to be seen keeps no limit.
  const answered = requests - errors - (summaries.e2e!.requests - summary.requests)
  if (answered === 0) return [0, 0]
  let [least, most] = [0, answered]
  for (const [share, name] of [...keptPercentiles, [1, 'maxMs'] as const]) {
    const ms = summary[name]
    const rank = Math.max(1, Math.ceil(share * answered - 1e-9))
    if (ms <= limitMs) least = Math.max(least, rank)
    else if (ms > limitMs) most = Math.min(most, rank - 1)
  }
  const record = latencies?.[metric]
  if (record === undefined) return [least, Math.max(least, most)]
  const [fewest, all] = countWithin(record, limitMs)
  return [Math.max(least, fewest), Math.max(least, Math.min(most, all))]
}
