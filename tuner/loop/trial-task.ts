/** Task of a trial: measures only as much as the search needs. Pure. */
import { estimateRequestsToWarm, estimateRequestsUntilSteady } from '../../profiler/index.ts'
import { computeEstimatedCost } from '../../reports/recommendation/confirmation-round.ts'
import { computeCapacityToBeatRps, modelsCapacityOrLatency } from '../../search/objective.ts'
import { resolveReplicaPrice } from '../../search/replica-price.ts'
import type { Configuration, SearchSpace } from '../../search/types.ts'
import { declareDiscipline } from '../../trials/launchers/declare-discipline.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { TrialTask } from '../backends/backend.ts'
import type { Experiment } from '../config/types.ts'
import type { Ledger } from './ledger.ts'
import type { LoopParts } from './parts.ts'
import type { TrialRequest } from './trial-runner.ts'

/**
 * Maximum ratio of the ends of a predicted 90 % interval that gives an expected capacity. Assumed.
 */
const maxPredictionRatio = 2
/**
 * Half widths of the capacity interval, as multiples of the tolerance. The first trial has nothing
 * to be compared with, and the gain over the baseline is reported with two digits. Assumed.
 */
const firstTrialPrecision = 2
const baselinePrecision = 3

/**
 * Creates the task of a trial. A trial may be pruned once it cannot cost less than the best. The
 * baseline is measured to the end, because the gain is reported relative to it.
 */
export function createTrialTask(
  { configuration, purpose, predicted }: TrialRequest,
  { objective, own, predictor, stop }: Pick<Experiment, 'objective' | 'own' | 'predictor' | 'stop'>,
  { problem, estimateCapacityRps }: Pick<LoopParts, 'problem' | 'estimateCapacityRps'>,
  { best, trials }: Pick<Ledger, 'best' | 'trials'>,
): TrialTask {
  const isBaseline = purpose === 'default'
  const price = resolveReplicaPrice(problem.pricePerHour, configuration)
  // Comparable with the estimate of a running trial: the safe capacity of the best is discounted.
  const bestCost = best && computeEstimatedCost(best, objective)
  const isPrecise = predicted && predicted.high < maxPredictionRatio * predicted.low
  const expectedRps = isPrecise ? predicted.rate : estimateCapacityRps?.(configuration)
  const precision = isBaseline ? baselinePrecision : best ? 1 : firstTrialPrecision
  return {
    kind: 'trial',
    capacityToBeatRps: isBaseline
      ? undefined
      : computeCapacityToBeatRps(objective, price, bestCost),
    expectedRps: modelsCapacityOrLatency(objective) ? expectedRps : undefined,
    warmUpRequests: estimateWarmUpRequests(configuration, problem.space, trials),
    discipline: declareDiscipline(predictor, configuration, own.gpus),
    precision: precision * stop.tolerance,
  }
}

/**
 * Estimates the requests that warm a configuration up, from trials that differ only in resources
 * and concurrency: any other parameter may change what has to warm up, such as a compiler or a
 * cache. Undefined where there is no such trial, and for a configuration that was tried before.
 */
export function estimateWarmUpRequests(
  configuration: Configuration,
  space: SearchSpace,
  trials: readonly FinishedTrial[],
): number | undefined {
  if (trials.some((trial) => !isDifferent(trial.configuration, configuration, space.parameters)))
    return undefined
  return estimateRequestsToWarm(findComparableWarmUps(configuration, space, trials))
}

/** Estimates the requests until a configuration that was measured before is steady. */
export const estimateSteadyRequests = (
  configuration: Configuration,
  space: SearchSpace,
  trials: readonly FinishedTrial[],
): number | undefined =>
  estimateRequestsUntilSteady(findComparableWarmUps(configuration, space, trials))

function findComparableWarmUps(
  configuration: Configuration,
  { parameters }: SearchSpace,
  trials: readonly FinishedTrial[],
) {
  const comparedParameters = parameters.filter(
    ({ category, concurrency }) => category !== 'resource' && !concurrency,
  )
  return trials.flatMap((trial) =>
    trial.state === 'complete' &&
    trial.measurement.warmUp &&
    !isDifferent(trial.configuration, configuration, comparedParameters)
      ? trial.measurement.warmUp
      : [],
  )
}

const isDifferent = (
  one: Configuration,
  other: Configuration,
  parameters: SearchSpace['parameters'],
): boolean => parameters.some(({ name }) => one[name] !== other[name])
