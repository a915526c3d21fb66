/** A measurement of streamed answers as it looks under an SLO on other parts of the stream than the one it was made for. */
import type { Counted } from '../slo.ts'
import { keptPercentiles, noLatency } from '../statistics/latency-summary.ts'
import type { LatencySummary, LoadPoint, Measurement, Slo, StreamSummary } from '../types.ts'

/**
 * The same load points with the latencies that `slo` counts, from the stream summaries kept with them; points without one are left out. The
 * capacity is not known then (0): it has to be read off the load curve. Under a joint SLO a percentile of the greatest part of a limit is taken to
 * be the greatest of the parts' percentiles, which is its least possible value: requests that miss one limit are taken to be those that miss the other.
 */
export function seenUnder(measurement: Measurement, slo: Slo): Measurement {
  const points = measurement.points.flatMap((point) => (point.stream ? [seen(point, point.stream, slo)] : []))
  const [alone] = points.filter(({ load }) => load.kind === 'closed' && load.connections === 1)
  return { ...measurement, slo, capacityRps: 0, capacityCi90Rps: [0, 0], idle: alone ?? noLatency, points }
}

function seen(point: LoadPoint, stream: StreamSummary, slo: Slo): LoadPoint {
  const summary = counted(stream, slo)
  const failed = point.requests > 0 ? point.errors / point.requests : 0
  // Failed requests are the slowest ones: the percentile of all requests lies higher among the answered ones.
  const percentile = Math.min(1, slo.percentile / Math.max(1e-9, 1 - failed))
  const sloMs = percentile >= 1 && failed > 0 ? Number.POSITIVE_INFINITY : at(summary, percentile)
  // As wide, in proportion, as the interval of the latency that was measured for.
  const [low, high] = point.sloCi95Ms.map((end) => (sloMs * end) / point.sloMs) as [number, number]
  return {
    ...point,
    ...summary,
    requests: point.requests,
    sloMs,
    sloCi95Ms: [low || 0, Number.isNaN(high) ? Number.POSITIVE_INFINITY : high],
  }
}

const figures = ['meanMs', 'p50Ms', 'p90Ms', 'p95Ms', 'p99Ms', 'maxMs'] as const

function counted(stream: StreamSummary, { metric = 'e2e', limits }: Counted): LatencySummary {
  if (limits === undefined) return stream[metric]
  const [first] = limits
  const parts = (figure: (typeof figures)[number]) => limits.map((limit) => stream[limit.metric][figure] / limit.limitMs)
  const worst = Object.fromEntries(figures.map((figure) => [figure, first!.limitMs * Math.max(...parts(figure))]))
  return { requests: stream.e2e.requests, ...(worst as Omit<LatencySummary, 'requests'>) }
}

/** Percentile of a summary: the least of those kept that is as high. */
const at = (s: LatencySummary, percentile: number): number => s[keptPercentiles.find(([kept]) => percentile <= kept)?.[1] ?? 'maxMs']
