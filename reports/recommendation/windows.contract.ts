/** Windows of open load with a given p99, latencies recorded. */
import { recordLatencies } from '../../profiler/load/latency-record.ts'
import type { LatencySummary, LoadPoint } from '../../profiler/model/load-point.ts'
import type { LoadRun } from '../../profiler/model/load-run.ts'
import type { Slo } from '../../profiler/model/slo.ts'

export type Windows = readonly (readonly [rateRps: number, p99Ms: number])[]

/**
 * Latencies as of an exponential tail: linear in -ln(1 - q). Shuffled, so that neighbours are not
 * alike.
 */
export function window(
  rateRps: number,
  p99Ms: number,
  { limits }: Pick<Slo, 'limits'> = {},
  seconds = 10,
): { point: LoadPoint; summary: LatencySummary } {
  const n = Math.max(20, Math.round(rateRps * seconds))
  const at = (q: number) => (p99Ms * -Math.log1p(-q)) / Math.log(100)
  const latencyMs = Float64Array.from({ length: n }, (_, i) => at(((i * 7919) % n) / n))
  const summary: LatencySummary = {
    requests: n,
    meanMs: at(0.63),
    p50Ms: at(0.5),
    p90Ms: at(0.9),
    p95Ms: at(0.95),
    p99Ms,
    maxMs: at(1 - 1 / n),
  }
  const load = {
    kind: 'open',
    rateRps,
    arrivals: { kind: 'poisson' },
    durationS: seconds,
    seed: 1,
  } as const
  const parts = limits && {
    ttft: summary,
    tpot: scaled(summary, 0.1),
    e2e: scaled(summary, 8),
    interToken: scaled(summary, 0.1),
    outputTokensPerSecond: 900,
  }
  const point: LoadPoint = {
    ...summary,
    load,
    offeredRps: rateRps,
    achievedRps: rateRps,
    goodputRps: rateRps,
    errors: 0,
    errorKinds: {},
    sloMs: p99Ms,
    sloCi95Ms: [0.96 * p99Ms, 1.04 * p99Ms],
    generatorSaturated: false,
    latenessP99Ms: 0.5,
    seconds,
    latencies: recordLatencies({ latencyMs } as LoadRun),
    ...(parts && { stream: parts }),
  }
  return { point, summary }
}

const scaled = (summary: LatencySummary, by: number): LatencySummary =>
  Object.fromEntries(
    Object.entries(summary).map(([name, value]) => [
      name,
      name === 'requests' ? value : value * by,
    ]),
  ) as unknown as LatencySummary
