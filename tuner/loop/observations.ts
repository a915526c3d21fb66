/** Turns trials into observations for the search. */
import { hasNoResult } from '../../profiler/capacity/capacity-bounds.ts'
import { interpolatePercentile } from '../../profiler/capacity/rederive/load-curve.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { tabulateReadings } from '../../profiler/prometheus.ts'
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
import { isSearchTrial } from './trial-status.ts'

type CompleteTrial = Extract<FinishedTrial, { state: 'complete' }>

/**
 * Computes the standard deviation of ln(capacity) that the 90 % interval implies; undefined where
 * it is empty or unbounded.
 */
export function computeLogSd({ capacityCi90Rps }: Measurement): number | undefined {
  const [low, high] = capacityCi90Rps
  if (!(low > 0) || !Number.isFinite(high) || high <= low) return undefined
  return Math.log(high / low) / (2 * z90)
}

/**
 * Turns a finished trial into an observation for the search. Returns undefined if the trial failed,
 * has no result, or is a confirmation that met the SLO at its rate.
 * @param scale scale of a signed metric (asinh axis), from `computeObjectiveScale`; 1 for other
 * objectives
 */
export function observeTrial(
  trial: FinishedTrial,
  objective: Objective,
  scale = 1,
): Observation | undefined {
  if (trial.state === 'failed') return undefined
  if (!isSearchTrial(trial)) return observeRefutation(trial, objective)
  const { configuration } = trial
  if (trial.state === 'infeasible')
    return { configuration, state: 'infeasible', reason: `${trial.reason}: ${trial.detail}` }
  const { measurement } = trial
  if (hasNoResult(measurement)) return undefined
  const figures = { ...extractFigures(trial), unloadedMs: extractUnloadedMs(measurement) }
  // Modelled quantity: the capacity, or another quantity that the objective measures.
  const rate = computeModelledRate(objective, figures, scale)
  const logSd = getMetric(objective) === undefined ? computeLogSd(measurement) : undefined
  return {
    configuration,
    state: 'complete',
    rate: Number.isNaN(rate) ? undefined : { value: rate, logSd },
    constraint: extractConstraint(measurement),
    censored: measurement.outcome === 'pruned',
  }
}

/**
 * Turns a refuted confirmation into an observation of the capacity. An objective that measures
 * another quantity gets none, because the confirmation measured it at another rate.
 */
function observeRefutation(trial: FinishedTrial, objective: Objective): Observation | undefined {
  const refutation = findRefutation(trial)
  if (trial.state !== 'complete' || !refutation || !modelsCapacityOrLatency(objective))
    return undefined
  const { configuration, measurement } = trial
  const [metRps, violatedRps] = refutation
  return {
    configuration,
    state: 'complete',
    // Geometric mean of the bracket. If no rate met the SLO, the lowest violated rate is an upper
    // bound.
    rate: {
      value: metRps > 0 ? Math.sqrt(metRps * violatedRps) : violatedRps,
      logSd: computeLogSd(measurement),
    },
    constraint: extractConstraint(measurement),
    censored: metRps === 0,
  }
}

/**
 * Finds the bracket of the capacity from a refuted confirmation, req/s: the highest met rate (0 if
 * none) and the lowest violated rate. Undefined if the confirmation met the SLO at its rate, which
 * adds nothing to the first measurement.
 */
export function findRefutation(
  trial: FinishedTrial,
): readonly [metRps: number, violatedRps: number] | undefined {
  if (trial.state !== 'complete' || isSearchTrial(trial) || hasNoResult(trial.measurement))
    return undefined
  const [metRps, violatedRps] = trial.measurement.capacityCi90Rps
  return Number.isFinite(violatedRps) && violatedRps > metRps ? [metRps, violatedRps] : undefined
}

/**
 * Finds the trials whose result a later confirmation of the same configuration refuted. The
 * confirmation replaces them, because its windows are several times as long.
 */
export function findRefuted(trials: readonly FinishedTrial[]): FinishedTrial[] {
  const createKey = ({ configuration }: FinishedTrial) => configurationKey(configuration)
  const refutations = trials.filter((trial) => findRefutation(trial) !== undefined)
  const lastRefutation = new Map(refutations.map((trial) => [createKey(trial), trial]))
  return trials.filter((trial) => {
    const refutation = lastRefutation.get(createKey(trial))
    return trial.state === 'complete' && refutation !== undefined && refutation !== trial
  })
}

/** Computes the scale of a signed metric (asinh axis), from the first trials that measured it. */
export const computeObjectiveScale = (
  trials: readonly FinishedTrial[],
  objective: Objective,
): number =>
  computeMetricScale(
    objective,
    trials.flatMap((trial) =>
      trial.state === 'complete' && isSearchTrial(trial) ? [extractFigures(trial)] : [],
    ),
  )

const extractFigures = ({ measurement, usage }: CompleteTrial): MeasuredFigures => ({
  capacityRps: measurement.capacityRps,
  usage,
  metrics: tabulateReadings(measurement.metrics),
})

const extractUnloadedMs = ({ unloaded, slo }: Measurement): number =>
  interpolatePercentile(unloaded, slo.percentile)

/** Extracts the unloaded latency; undefined if it was not measured. */
function extractConstraint(measurement: Measurement): Estimate | undefined {
  const unloadedMs = extractUnloadedMs(measurement)
  return unloadedMs > 0 ? { value: unloadedMs } : undefined
}
