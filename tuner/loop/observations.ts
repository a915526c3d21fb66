/** How trials look to the search. */
import { percentileOf } from '../../profiler/capacity/capacity-under.ts'
import { saysNothing } from '../../profiler/capacity/known-capacity.ts'
import type { Measurement } from '../../profiler/types.ts'
import { z90 } from '../../search/normal.ts'
import { learnedRate, type Objective } from '../../search/objective.ts'
import type { Observation } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'

/** Standard deviation of ln(capacity), from its 90 % interval; undefined where the interval has no positive ends. */
export function logSdOf(measurement: Measurement): number | undefined {
  const [low, high] = measurement.capacityCi90Rps
  if (!(low > 0) || !Number.isFinite(high) || high <= low) return undefined
  return Math.log(high / low) / (2 * z90)
}

/** The cluster has no place for it now; it may have one when the experiment is resumed. */
export const withoutPlace = (trial: FinishedTrial): boolean => trial.state === 'failed' && trial.final === 'run'

/** What a finished trial teaches about its configuration; undefined for failed trials, those that say nothing, and confirmations, which teach nothing new. */
export function observationOf(trial: FinishedTrial, objective: Objective): Observation | undefined {
  if (trial.state === 'failed' || trial.purpose === 'confirmation') return undefined
  const { configuration } = trial
  if (trial.state === 'infeasible') return { configuration, state: 'infeasible', reason: `${trial.reason}: ${trial.detail}` }
  const { measurement, usage, predicted } = trial
  if (saysNothing(measurement)) return undefined
  const idleMs = percentileOf(measurement.idle, measurement.slo.percentile)
  const rate = learnedRate(objective, { capacityRps: measurement.capacityRps, idleMs, usage })
  return {
    configuration,
    state: 'complete',
    rate: Number.isNaN(rate) ? undefined : { value: rate, logSd: logSdOf(measurement) },
    constraint: idleMs > 0 ? { value: idleMs } : undefined,
    censored: measurement.outcome === 'beaten',
    ...(predicted && { foretold: { value: predicted.rate, logSd: Math.log(predicted.high / predicted.low) / (2 * z90) } }),
  }
}
