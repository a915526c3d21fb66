/**
 * Judges whether a stored window meets an SLO other than the one it was measured under, from its
 * recorded latencies. Pure: also runs in a browser.
 */

import { countWithin } from '../../load/latency-record.ts'
import { storedPercentiles } from '../../load/latency-summary.ts'
import type { LatencyMetric } from '../../model/latency-metrics.ts'
import type { LatencySummary, LoadPoint } from '../../model/load-point.ts'
import {
  countFailed,
  countMaxViolations,
  countNotObservable,
  exceedsErrorRate,
  isInvalidWindow,
  resolveLimits,
  type Slo,
  type SloLimit,
  selectLimits,
} from '../../model/slo.ts'
import { provesPercentile } from '../../statistics/early-stopping.ts'

/**
 * Whether the window meets `slo`: true, false, or undefined where the recorded latencies do not
 * decide. An invalid window can meet an SLO but not violate it. A window that was cut can only
 * violate it, as its missing requests might have violated it too.
 */
export function judgeWindow(point: LoadPoint, slo: Slo): boolean | undefined {
  // Host interference or the generator may have caused the violation in an invalid window.
  const verdictIfViolated = isInvalidWindow(point, slo) ? undefined : false
  const unobservable = splitPoint(point, slo).reduce(
    (sum, { summaries, requestClass }) =>
      sum + countNotObservable(summaries, selectLimits(resolveLimits(slo), requestClass)),
    0,
  )
  const errors = countFailed(point) + unobservable
  if (exceedsErrorRate({ requests: point.requests, errors }, slo)) return verdictIfViolated
  const parts = countViolationsByPart(point, slo)
  if (parts === undefined) return undefined
  const { load } = point
  // A window that was cut sent only some of its planned requests. It violates the SLO for certain
  // where its violations exceed those allowed among all planned ones.
  const plannedPerSent =
    point.cut && load.kind === 'open'
      ? Math.max(1, Math.round(load.rateRps * load.durationS) / point.requests)
      : 1
  const isViolated = parts.some(
    ({ requests, violations: [min] }) =>
      min > countMaxViolations(slo, Math.round(plannedPerSent * requests)),
  )
  if (isViolated) return verdictIfViolated
  const isMet =
    !point.cut &&
    parts.every(({ requests, violations: [, max] }) => max <= countMaxViolations(slo, requests))
  return isMet ? true : undefined
}

/**
 * Whether the window proves `slo` at 95 %: LoadGen's rule (early-stopping.ts) on its effective
 * sample size.
 */
export function isProvenUnder(point: LoadPoint, slo: Slo): boolean {
  const parts = countViolationsByPart(point, slo)
  if (parts === undefined || point.latencies === undefined || judgeWindow(point, slo) !== true)
    return false
  const { dispersion } = point.latencies
  return parts.every(({ requests, violations: [, max] }) =>
    provesPercentile(requests / dispersion, max / dispersion, slo.percentile),
  )
}

type CountBounds = readonly [min: number, max: number]

/** A group of requests that must meet the percentile on its own: all, or a class. */
interface RequestPart extends Pick<LoadPoint, 'requests' | 'errors' | 'latencies'> {
  readonly summaries: Readonly<Partial<Record<LatencyMetric, LatencySummary>>>
  readonly requestClass?: string
}

/**
 * Counts the requests of each group that failed or exceed a limit. Undefined where the recorded
 * latencies do not decide.
 */
function countViolationsByPart(
  point: LoadPoint,
  slo: Slo,
): { readonly requests: number; readonly violations: CountBounds }[] | undefined {
  const counts: { readonly requests: number; readonly violations: CountBounds }[] = []
  for (const part of splitPoint(point, slo)) {
    const violations = boundViolations(part, slo)
    if (violations === undefined) return undefined
    counts.push({ requests: part.requests, violations })
  }
  return counts
}

/** Splits the requests of a point into the groups that must meet the percentile on their own. */
function splitPoint(point: LoadPoint, { classes = [] }: Slo): RequestPart[] {
  const { requests, latencies, stream } = point
  const parts = classes.flatMap((requestClass): RequestPart[] => {
    const summaries = stream?.classes?.[requestClass]
    if (summaries === undefined) return []
    const errors = summaries.errors ?? 0
    // Classes have no histogram.
    return [{ requestClass, requests: summaries.e2e.requests + errors, errors, summaries }]
  })
  return parts.length > 0
    ? parts
    : [{ requests, errors: countFailed(point), latencies, summaries: stream ?? { e2e: point } }]
}

/**
 * Bounds the requests of a group that failed or exceed any of the limits. The violations of two
 * limits may coincide (minimum) or be of different requests (maximum).
 */
function boundViolations(part: RequestPart, slo: Slo): CountBounds | undefined {
  let min = 0
  let max = 0
  for (const limit of selectLimits(resolveLimits(slo), part.requestClass)) {
    const within = boundWithinLimit(part, limit)
    if (within === undefined) return undefined
    min = Math.max(min, part.requests - within[1])
    max += part.requests - within[0]
  }
  return [min, Math.min(max, part.requests)]
}

/**
 * Bounds the number of requests within one limit, by the stored percentiles and, where recorded,
 * the histogram.
 */
function boundWithinLimit(
  { requests, errors, latencies, summaries }: RequestPart,
  { metric, limitMs }: SloLimit,
): CountBounds | undefined {
  const summary = summaries[metric]
  if (summary === undefined) return undefined
  // A request without an observable latency meets no limit.
  const answered = requests - errors - (summaries.e2e!.requests - summary.requests)
  if (answered === 0) return [0, 0]
  let min = 0
  let max = answered
  for (const [share, name] of [...storedPercentiles, [1, 'maxMs'] as const]) {
    const ms = summary[name]
    // The small difference keeps a whole product from being rounded up.
    const rank = Math.max(1, Math.ceil(share * answered - 1e-9))
    if (ms <= limitMs) min = Math.max(min, rank)
    else if (ms > limitMs) max = Math.min(max, rank - 1)
  }
  const record = latencies?.[metric]
  if (record === undefined) return [min, Math.max(min, max)]
  const [recordMin, recordMax] = countWithin(record, limitMs)
  return [Math.max(min, recordMin), Math.max(min, Math.min(max, recordMax))]
}
