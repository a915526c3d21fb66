/**
 * Recomputes the load points of a measurement of streamed answers for an SLO on other latencies
 * than the measured one: time to first token, time per output token or end-to-end latency.
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
 * points without one are left out. The capacity is unknown (0): the caller reads it off the load
 * curve. Under a joint SLO, each latency is scaled to the first limit, and the percentile is the
 * greatest of them. That is a lower bound: it assumes that the same requests violate all limits.
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
    unloaded: unloaded ?? noLatency,
    points,
  }
}

/** Recomputes a load point for the latencies that `slo` counts. */
function viewPoint(point: LoadPoint, stream: StreamSummary, slo: Slo): LoadPoint {
  const parts = splitPoint(point, stream, slo)
  const findMax = (getFigure: (part: RequestPart) => number) => Math.max(...parts.map(getFigure))
  const sloMs = findMax(({ summary, requests, errors }) => {
    const failedShare = requests > 0 ? errors / requests : 0
    // Failed requests are the slowest, so the percentile of all requests is a higher one of the
    // answered requests.
    const percentile = Math.min(1, slo.percentile / Math.max(minAnsweredShare, 1 - failedShare))
    return percentile >= 1 && failedShare > 0
      ? Number.POSITIVE_INFINITY
      : selectPercentile(summary, percentile)
  })
  // The interval keeps the relative width of that of the measured latency.
  // NaN, for example from 0 / 0 or ∞ / ∞, means no bound on that side.
  const [low, high] = point.sloCi95Ms.map((end) => (sloMs * end) / point.sloMs) as [number, number]
  return {
    ...point,
    ...mapFigures((figure) => findMax(({ summary }) => summary[figure])),
    requests: point.requests,
    sloMs,
    sloCi95Ms: [Number.isNaN(low) ? 0 : low, Number.isNaN(high) ? Number.POSITIVE_INFINITY : high],
  }
}

/** Keeps a division by the share of answered requests finite. */
const minAnsweredShare = 1e-9

const figures = ['meanMs', 'p50Ms', 'p90Ms', 'p95Ms', 'p99Ms', 'maxMs'] as const

const mapFigures = (compute: (figure: (typeof figures)[number]) => number) =>
  Object.fromEntries(figures.map((figure) => [figure, compute(figure)])) as Omit<
    LatencySummary,
    'requests'
  >

/** A group of requests that must meet the percentile on its own: all, or a class. */
interface RequestPart extends Pick<LoadPoint, 'requests' | 'errors'> {
  readonly summary: Omit<LatencySummary, 'requests'>
}

/** Splits the requests of a point into the groups that must meet the percentile on their own. */
function splitPoint(point: LoadPoint, stream: StreamSummary, slo: Slo): RequestPart[] {
  const { metric = 'e2e', limits, classes = [] } = slo
  // An answer counts as failed where the latency that the SLO limits is not observable.
  const countUnobservable = (
    summaries: Parameters<typeof countNotObservable>[0],
    requestClass?: string,
  ) => countNotObservable(summaries, selectLimits(resolveLimits(slo), requestClass))
  /**
   * Selects the latency figures that the SLO constrains; under several limits, scaled to the first
   * limit.
   */
  const selectSummary = (
    summaries: Pick<StreamSummary, SloLimit['metric']>,
    requestClass?: string,
  ) =>
    limits === undefined
      ? summaries[metric]
      : mapFigures(
          (figure) =>
            limits[0]!.limitMs *
            Math.max(
              ...selectLimits(limits, requestClass).map(
                (limit) => summaries[limit.metric][figure] / limit.limitMs,
              ),
            ),
        )
  const parts = classes.flatMap((name): RequestPart[] => {
    const classSummary = stream.classes?.[name]
    if (classSummary === undefined) return []
    const failed = classSummary.errors ?? 0
    return [
      {
        summary: selectSummary(classSummary, name),
        requests: classSummary.e2e.requests + failed,
        errors: failed + countUnobservable(classSummary, name),
      },
    ]
  })
  if (parts.length > 0) return parts
  const errors = countFailed(point) + countUnobservable(stream)
  return [{ summary: selectSummary(stream), requests: point.requests, errors }]
}

/** Selects the stored percentile at or just above the requested one. */
const selectPercentile = (s: RequestPart['summary'], percentile: number): number =>
  s[storedPercentiles.find(([stored]) => percentile <= stored)?.[1] ?? 'maxMs']
