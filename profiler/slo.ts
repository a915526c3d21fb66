/** What an SLO counts as the latency of a request, and what it is called. */
import type { LatencyMetric, Slo, SloLimit } from './types.ts'

/** Latencies of one streamed answer, ms. */
export type StreamLatencies = Readonly<Record<LatencyMetric, number>>

/** The latency that counts: of one metric, or under a joint SLO the greatest part of a limit, in units of the first. */
export function countedMs(
  of: StreamLatencies,
  { metric = 'e2e', limits }: { metric?: LatencyMetric; limits?: readonly SloLimit[] },
): number {
  const [first] = limits ?? []
  if (limits === undefined || first === undefined) return of[metric]
  return first.limitMs * Math.max(...limits.map((limit) => of[limit.metric] / limit.limitMs))
}

const names: Readonly<Record<LatencyMetric, string>> = { ttft: 'TTFT', tpot: 'TPOT', e2e: 'E2E' }

/** "p99", "p99.9", "TTFT p99"; of a joint SLO "p99 of TTFT and TPOT". */
export function sloName({ percentile, metric, limits }: Slo): string {
  const p = `p${Number((percentile * 100).toFixed(4))}`
  if (limits !== undefined) return `${p} of ${limits.map((limit) => names[limit.metric]).join(' and ')}`
  return metric === undefined ? p : `${names[metric]} ${p}`
}

/** "p99 <= 50 ms"; "TTFT <= 200 ms and TPOT <= 30 ms for 99 % of requests". */
export function sloText(slo: Slo): string {
  if (slo.limits === undefined) return `${sloName(slo)} <= ${slo.limitMs} ms`
  const share = Number((slo.percentile * 100).toFixed(4))
  return `${slo.limits.map((limit) => `${names[limit.metric]} <= ${limit.limitMs} ms`).join(' and ')} for ${share} % of requests`
}

/** A value of the SLO percentile: "43.1 ms"; under a joint SLO "82 % of the limits". */
export function sloValue(slo: Slo, ms: number): string {
  if (!Number.isFinite(ms)) return 'without an answer'
  return slo.limits === undefined ? `${ms.toFixed(1)} ms` : `${((100 * ms) / slo.limitMs).toFixed(0)} % of the limits`
}
