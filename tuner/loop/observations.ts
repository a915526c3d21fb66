/** How trials look to the search. */

import { hasNoResult } from '../../profiler/capacity/capacity-bounds.ts'
import { interpolatePercentile } from '../../profiler/capacity/rederive/load-curve.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { metricValues } from '../../profiler/prometheus.ts'
import { z90 } from '../../search/gp/normal.ts'
import {
  computeMetricScale,
  computeModelledRate,
  getMetric,
  type MeasuredFigures,
  modelsCapacityOrLatency,
  type Objective,
} from '../../search/objective.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Estimate, Observation } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'

/**
 * Standard deviation of ln(capacity), from its 90 % interval; undefined where the interval has no
 * positive ends.
 */
export function logSdOf(measurement: Measurement): number | undefined {
  const [low, high] = measurement.capacityCi90Rps
  if (!(low > 0) || !Number.isFinite(high) || high <= low) return undefined
  return Math.log(high / low) / (2 * z90)
}

/** The cluster has no place for it now; it may have one when the experiment is resumed. */
export const withoutPlace = (trial: FinishedTrial): boolean =>
  trial.state === 'failed' && trial.final === 'run'

const measuredOf = ({
  measurement,
  usage,
}: FinishedTrial & { readonly state: 'complete' }): MeasuredFigures => ({
  capacityRps: measurement.capacityRps,
  usage,
  metrics: metricValues(measurement.metrics),
})

/**
 * Of what the objective ranks by, where that may be zero or less: the same for trials and any that
 * come after them.
 */
export const scaleOf = (trials: readonly FinishedTrial[], objective: Objective): number =>
  computeMetricScale(
    objective,
    trials.flatMap((trial) =>
      trial.state === 'complete' && trial.purpose !== 'confirmation' ? [measuredOf(trial)] : [],
    ),
  )

/**
 * Where a confirmation puts the capacity that missed a rate: between the rate that held, 0 where
 * none did, and the lowest that was missed, req/s. Undefined of one that held where it was asked
 * to: that is nothing new.
 */
export function missedBetween(
  trial: FinishedTrial,
): readonly [provenRps: number, missedRps: number] | undefined {
  if (
    trial.state !== 'complete' ||
    trial.purpose !== 'confirmation' ||
    hasNoResult(trial.measurement)
  )
    return undefined
  const [provenRps, missedRps] = trial.measurement.capacityCi90Rps
  return Number.isFinite(missedRps) && missedRps > provenRps ? [provenRps, missedRps] : undefined
}

/**
 * Readings that gave way to a confirmation of the same configuration which missed: windows of half
 * a minute say more than those of seconds.
 */
export function outdatedReadings(trials: readonly FinishedTrial[]): FinishedTrial[] {
  const key = ({ configuration }: FinishedTrial) => configurationKey(configuration)
  const last = new Map(
    trials.flatMap((trial) =>
      missedBetween(trial) === undefined ? [] : [[key(trial), trial] as const],
    ),
  )
  return trials.filter(
    (trial) => trial.state === 'complete' && last.has(key(trial)) && last.get(key(trial)) !== trial,
  )
}

/**
 * What a finished trial teaches about its configuration; undefined for failed trials, those that
 * say nothing, and confirmations that teach nothing new.
 * @param scale of what may be zero or less, as `scaleOf` has it
 */
export function observationOf(
  trial: FinishedTrial,
  objective: Objective,
  scale = 1,
): Observation | undefined {
  if (trial.state === 'failed') return undefined
  if (trial.purpose === 'confirmation') return lessonOf(trial, objective)
  const { configuration } = trial
  if (trial.state === 'infeasible')
    return { configuration, state: 'infeasible', reason: `${trial.reason}: ${trial.detail}` }
  const { measurement, predicted } = trial
  if (hasNoResult(measurement)) return undefined
  const rate = computeModelledRate(
    objective,
    { ...measuredOf(trial), unloadedMs: idleMsOf(measurement) },
    scale,
  )
  return {
    configuration,
    state: 'complete',
    rate: Number.isNaN(rate)
      ? undefined
      : {
          value: rate,
          logSd: getMetric(objective) === undefined ? logSdOf(measurement) : undefined,
        },
    constraint: constraintOf(measurement),
    censored: measurement.outcome === 'pruned',
    ...(predicted && {
      predicted: {
        value: predicted.rate,
        logSd: Math.log(predicted.high / predicted.low) / (2 * z90),
      },
    }),
  }
}

const idleMsOf = ({ unloaded, slo }: Measurement): number =>
  interpolatePercentile(unloaded, slo.percentile)

/** One that was not measured constrains nothing. */
function constraintOf(measurement: Measurement): Estimate | undefined {
  const unloadedMs = idleMsOf(measurement)
  return unloadedMs > 0 ? { value: unloadedMs } : undefined
}

/** Of capacities alone: what else the objective ranks by was read at another rate. */
function lessonOf(trial: FinishedTrial, objective: Objective): Observation | undefined {
  const between = missedBetween(trial)
  if (trial.state !== 'complete' || between === undefined || !modelsCapacityOrLatency(objective))
    return undefined
  const { configuration, measurement } = trial
  const [provenRps, missedRps] = between
  return {
    configuration,
    state: 'complete',
    rate: {
      value: provenRps > 0 ? Math.sqrt(provenRps * missedRps) : missedRps,
      logSd: logSdOf(measurement),
    },
    constraint: constraintOf(measurement),
    censored: provenRps === 0,
  }
}
