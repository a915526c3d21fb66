/**
 * Views a measurement of streamed answers under an SLO on other parts of the stream than its own.
 */

import { noLatency, storedPercentiles } from '../../load/latency-summary.ts'
import type { LatencySummary, LoadPoint, StreamSummary } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'
import {
  countFailed,
  countNotObservable,
  resolveLimits,
  type Slo,
  type SloLimit,
  selectLimits,
} from '../../model/slo.ts'

/**
 * Recomputes the load points for the latencies that `slo` counts, from their stream summaries;
 * points without one are left out. The capacity is unknown (0) and has to be read off the load
 * curve. Under a joint SLO, the percentile is the greatest of those of its parts. That is its
 * smallest possible value: requests that violate one limit are assumed to violate the other.
 */
export function viewUnderSlo(measurement: Measurement, slo: Slo): Measurement {
  const points = measurement.points.flatMap((point) =>
    point.stream ? [viewPoint(point, point.stream, slo)] : [],
  )
  const [unloaded] = points.filter(({ load }) => load.kind === 'closed' && load.connections === 1)
  return {
    ...measurement,
    slo,
    capacityRps: 0,
    capacityCi90Rps: [0, 0],
    idle: unloaded ?? noLatency,
    points,
  }
}

function viewPoint(point: LoadPoint, stream: StreamSummary, slo: Slo): LoadPoint {
  const each = splitPoint(point, stream, slo)
  const highest = (of: (part: RequestPart) => number) => Math.max(...each.map(of))
  const sloMs = highest(({ summary, requests, errors }) => {
    const failed = requests > 0 ? errors / requests : 0
    // Failed requests are the slowest, so the percentile of all requests is a higher one of the
    // answered requests.
    const percentile = Math.min(1, slo.percentile / Math.max(1e-9, 1 - failed))
    return percentile >= 1 && failed > 0
      ? Number.POSITIVE_INFINITY
      : selectPercentile(summary, percentile)
  })
  // The interval is as wide, in proportion, as that of the measured latency.
  const [low, high] = point.sloCi95Ms.map((end) => (sloMs * end) / point.sloMs) as [number, number]
  return {
    ...point,
    ...figuresBy((figure) => highest(({ summary }) => summary[figure])),
    requests: point.requests,
    sloMs,
    sloCi95Ms: [low || 0, Number.isNaN(high) ? Number.POSITIVE_INFINITY : high],
  }
}

const figures = ['meanMs', 'p50Ms', 'p90Ms', 'p95Ms', 'p99Ms', 'maxMs'] as const

const figuresBy = (value: (figure: (typeof figures)[number]) => number) =>
  Object.fromEntries(figures.map((figure) => [figure, value(figure)])) as Omit<
    LatencySummary,
    'requests'
  >

/** A group of requests that must meet the percentile on its own: all, or a class. */
interface RequestPart extends Pick<LoadPoint, 'requests' | 'errors'> {
  readonly summary: Omit<LatencySummary, 'requests'>
}

function splitPoint(point: LoadPoint, stream: StreamSummary, slo: Slo): RequestPart[] {
  const { metric = 'e2e', limits, classes = [] } = slo
  // An answer without a counted latency has failed.
  const countSilent = (of: Parameters<typeof countNotObservable>[0], requestClass?: string) =>
    countNotObservable(of, selectLimits(resolveLimits(slo), requestClass))
  const counted = (of: Pick<StreamSummary, SloLimit['metric']>, requestClass?: string) =>
    limits === undefined
      ? of[metric]
      : figuresBy(
          (figure) =>
            limits[0]!.limitMs *
            Math.max(
              ...selectLimits(limits, requestClass).map(
                (limit) => of[limit.metric][figure] / limit.limitMs,
              ),
            ),
        )
  const each = classes.flatMap((name): RequestPart[] => {
    const own = stream.classes?.[name]
    if (own === undefined) return []
    const failed = own.errors ?? 0
    return [
      {
        summary: counted(own, name),
        requests: own.e2e.requests + failed,
        errors: failed + countSilent(own, name),
      },
    ]
  })
  if (each.length > 0) return each
  const errors = countFailed(point) + countSilent(stream)
  return [{ summary: counted(stream), requests: point.requests, errors }]
}

/** The stored percentile at or just above the requested one. */
const selectPercentile = (s: RequestPart['summary'], percentile: number): number =>
  s[storedPercentiles.find(([stored]) => percentile <= stored)?.[1] ?? 'maxMs']
