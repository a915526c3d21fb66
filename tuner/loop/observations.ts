/** How trials look to the search. */
import type { Measurement } from '../../profiler/types.ts'
import { learnedRate, type Objective } from '../../search/objective.ts'
import type { Observation } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'

/** z of a two-sided 90 % normal interval. */
const z90 = 1.645

/** Standard deviation of ln(capacity), from its 90 % interval; undefined where the interval has no positive ends. */
export function logSdOf(measurement: Measurement): number | undefined {
  const [low, high] = measurement.capacityCi90Rps
  if (!(low > 0) || !Number.isFinite(high) || high <= low) return undefined
  return Math.log(high / low) / (2 * z90)
}

/** What a finished trial teaches about its configuration; undefined for failed and disturbed trials and for confirmations, which teach nothing new. */
export function observationOf(trial: FinishedTrial, objective: Objective): Observation | undefined {
  if (trial.state === 'failed' || trial.purpose === 'confirmation') return undefined
  const { configuration } = trial
  if (trial.state === 'infeasible') return { configuration, state: 'infeasible', reason: `${trial.reason}: ${trial.detail}` }
  const { measurement, usage } = trial
  if (measurement.outcome === 'disturbed') return undefined
  const rate = learnedRate(objective, { capacityRps: measurement.capacityRps, idleMs: idleSloMs(measurement), usage })
  return {
    configuration,
    state: 'complete',
    rate: Number.isNaN(rate) ? undefined : { value: rate, logSd: logSdOf(measurement) },
    constraint: idleSloMs(measurement) > 0 ? { value: idleSloMs(measurement) } : undefined,
    censored: measurement.outcome === 'beaten',
  }
}

/** Latency of an unloaded server at the SLO's percentile, or the nearest percentile that a summary holds, ms. */
export function idleSloMs(measurement: Measurement): number {
  const { idle, slo } = measurement
  const known: [number, number][] = [
    [0.5, idle.p50Ms],
    [0.9, idle.p90Ms],
    [0.95, idle.p95Ms],
    [0.99, idle.p99Ms],
  ]
  return known.reduce((a, b) => (Math.abs(b[0] - slo.percentile) < Math.abs(a[0] - slo.percentile) ? b : a))[1]
}
