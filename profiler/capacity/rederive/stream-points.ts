/**
 * A measurement of streamed answers as it looks under an SLO on other parts of the stream than the
 * one it was made for.
 */
import {
  countFailed,
  countNotObservable,
  limitsFor,
  limitsOf,
  type Slo,
  type SloLimit,
} from '../../model/slo.ts'
import { keptPercentiles, noLatency } from '../../load/latency-summary.ts'
import type { LatencySummary, LoadPoint, StreamSummary } from '../../model/load-point.ts'
import type { Measurement } from '../../model/measurement.ts'

/**
 * The same load points with the latencies that `slo` counts, from the stream summaries kept with
 * them; points without one are left out. The capacity is not known then (0): it has to be read off
 * the load curve. Under a joint SLO a percentile of the greatest part of a limit is taken to be the
 * greatest of the parts' percentiles, which is its least possible value: requests that miss one
 * limit are taken to be those that miss the other.
 */
export function seenUnder(measurement: Measurement, slo: Slo): Measurement {
  const points = measurement.points.flatMap((point) =>
    point.stream ? [seen(point, point.stream, slo)] : [],
  )
  const [alone] = points.filter(({ load }) => load.kind === 'closed' && load.connections === 1)
  return {
    ...measurement,
    slo,
    capacityRps: 0,
    capacityCi90Rps: [0, 0],
    idle: alone ?? noLatency,
    points,
  }
}

function seen(point: LoadPoint, stream: StreamSummary, slo: Slo): LoadPoint {
  const each = parts(point, stream, slo)
  const highest = (of: (part: Part) => number) => Math.max(...each.map(of))
  const sloMs = highest(({ summary, requests, errors }) => {
    const failed = requests > 0 ? errors / requests : 0
    // Failed requests are the slowest ones: the percentile of all requests lies higher among the
    // answered ones.
    const percentile = Math.min(1, slo.percentile / Math.max(1e-9, 1 - failed))
    return percentile >= 1 && failed > 0 ? Number.POSITIVE_INFINITY : at(summary, percentile)
  })
  // As wide, in proportion, as the interval of the latency that was measured for.
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

/** Requests that must keep the percentile by themselves: all, or those of a class. */
interface Part extends Pick<LoadPoint, 'requests' | 'errors'> {
  readonly summary: Omit<LatencySummary, 'requests'>
}

function parts(point: LoadPoint, stream: StreamSummary, slo: Slo): Part[] {
  const { metric = 'e2e', limits, classes = [] } = slo
  // An answer without one of the latencies that count has failed.
  const silentIn = (of: Parameters<typeof countNotObservable>[0], requestClass?: string) =>
    countNotObservable(of, limitsFor(limitsOf(slo), requestClass))
  const counted = (of: Pick<StreamSummary, SloLimit['metric']>, requestClass?: string) =>
    limits === undefined
      ? of[metric]
      : figuresBy(
          (figure) =>
            limits[0]!.limitMs *
            Math.max(
              ...limitsFor(limits, requestClass).map(
                (limit) => of[limit.metric][figure] / limit.limitMs,
              ),
            ),
        )
  const each = classes.flatMap((name): Part[] => {
    const own = stream.classes?.[name]
    if (own === undefined) return []
    const failed = own.errors ?? 0
    return [
      {
        summary: counted(own, name),
        requests: own.e2e.requests + failed,
        errors: failed + silentIn(own, name),
      },
    ]
  })
  if (each.length > 0) return each
  const errors = countFailed(point) + silentIn(stream)
  return [{ summary: counted(stream), requests: point.requests, errors }]
}

/** Percentile of a summary: the least of those kept that is as high. */
const at = (s: Part['summary'], percentile: number): number =>
  s[keptPercentiles.find(([kept]) => percentile <= kept)?.[1] ?? 'maxMs']
