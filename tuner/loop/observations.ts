/** How trials look to the search. */
import { percentileOf } from '../../profiler/capacity/capacity-under.ts'
import { saysNothing } from '../../profiler/capacity/known-capacity.ts'
import { metricValues } from '../../profiler/prometheus.ts'
import type { Measurement } from '../../profiler/types.ts'
import { z90 } from '../../search/normal.ts'
import { learnedRate, learnedScale, type Measured, metricOf, type Objective } from '../../search/objective.ts'
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

const measuredOf = ({ measurement, usage }: FinishedTrial & { readonly state: 'complete' }): Measured => ({
  capacityRps: measurement.capacityRps,
  usage,
  metrics: metricValues(measurement.metrics),
})

/** Of what the objective ranks by, where that may be zero or less: the same for trials and any that come after them. */
export const scaleOf = (trials: readonly FinishedTrial[], objective: Objective): number =>
  learnedScale(
    objective,
    trials.flatMap((trial) => (trial.state === 'complete' && trial.purpose !== 'confirmation' ? [measuredOf(trial)] : [])),
  )

/** What a finished trial teaches about its configuration; undefined for failed trials, those that say nothing, and confirmations, which teach nothing new. @param scale of what may be zero or less, as `scaleOf` has it */
export function observationOf(trial: FinishedTrial, objective: Objective, scale = 1): Observation | undefined {
  if (trial.state === 'failed' || trial.purpose === 'confirmation') return undefined
  const { configuration } = trial
  if (trial.state === 'infeasible') return { configuration, state: 'infeasible', reason: `${trial.reason}: ${trial.detail}` }
  const { measurement, predicted } = trial
  if (saysNothing(measurement)) return undefined
  const idleMs = percentileOf(measurement.idle, measurement.slo.percentile)
  const rate = learnedRate(objective, { ...measuredOf(trial), idleMs }, scale)
  return {
    configuration,
    state: 'complete',
    rate: Number.isNaN(rate) ? undefined : { value: rate, logSd: metricOf(objective) === undefined ? logSdOf(measurement) : undefined },
    constraint: idleMs > 0 ? { value: idleMs } : undefined,
    censored: measurement.outcome === 'beaten',
    ...(predicted && { foretold: { value: predicted.rate, logSd: Math.log(predicted.high / predicted.low) / (2 * z90) } }),
  }
}
