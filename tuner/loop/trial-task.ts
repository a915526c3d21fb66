/** What is asked of a trial: as much as the search needs to know of it, and no more. Pure. */
import { estimateRequestsToWarm, estimateRequestsUntilSteady } from '../../profiler/index.ts'
import {
  capacityToBeatRps,
  modelsCapacityOrLatency,
  type Objective,
} from '../../search/objective.ts'
import type { ReplicaPrice } from '../../search/replica-price.ts'
import type { Configuration, SearchSpace } from '../../search/types.ts'
import type { FinishedTrial, Prediction, TrialPurpose } from '../../trials/types.ts'
import type { TrialTask } from '../backends/backend.ts'

interface Asked {
  readonly purpose?: TrialPurpose
  /** What the search's model believes of it. */
  readonly predicted?: Prediction
  /** What the device model expects, requests per second. */
  readonly expectedRps?: number
  readonly objective: Objective
  readonly price: ReplicaPrice
  /** What the best so far costs by the objective. */
  readonly bestCost?: number
  /** How much better something must be to matter, 0.05 = 5 %. */
  readonly tolerance: number
  readonly warmUpRequests?: number
}

/** A belief wider than this, high over low of 90 %, says little of where to look. */
const widest = 2
/**
 * Of the tolerance: a first trial is compared with nothing yet, and a gain over the default is told
 * in two digits.
 */
const firstPrecision = 2
const yardstickPrecision = 3

/**
 * The yardstick is measured to the end, for a gain is stated against it; anything else may end once
 * it cannot cost less than the best.
 */
export function taskOf({
  purpose,
  predicted,
  expectedRps,
  objective,
  price,
  bestCost,
  tolerance,
  warmUpRequests,
}: Asked): TrialTask {
  const yardstick = purpose === 'default'
  const known = predicted && predicted.high < widest * predicted.low ? predicted.rate : expectedRps
  return {
    kind: 'trial',
    capacityToBeatRps: yardstick ? undefined : capacityToBeatRps(objective, price, bestCost),
    expectedRps: modelsCapacityOrLatency(objective) ? known : undefined,
    warmUpRequests,
    precision:
      tolerance * (yardstick ? yardstickPrecision : bestCost === undefined ? firstPrecision : 1),
  }
}

/**
 * Requests that warm a configuration, by the trials of those that differ from it in resources and
 * in how much they serve at once alone: whatever else is tuned may be what has to warm up, a
 * compiler or a cache. Undefined where none tells, and for a configuration that was tried before.
 */
export function warmUpRequestsFor(
  configuration: Configuration,
  space: SearchSpace,
  trials: readonly FinishedTrial[],
): number | undefined {
  if (trials.some((trial) => !differsIn(trial.configuration, configuration, space.parameters)))
    return undefined
  return estimateRequestsToWarm(warmUpsAlike(configuration, space, trials))
}

/** Requests after which a configuration is steady that was measured before, by the same trials. */
export const steadyRequestsFor = (
  configuration: Configuration,
  space: SearchSpace,
  trials: readonly FinishedTrial[],
): number | undefined => estimateRequestsUntilSteady(warmUpsAlike(configuration, space, trials))

function warmUpsAlike(
  configuration: Configuration,
  { parameters }: SearchSpace,
  trials: readonly FinishedTrial[],
) {
  const decisive = parameters.filter(
    ({ category, concurrency }) => category !== 'resource' && !concurrency,
  )
  const alike = trials.filter((trial) => !differsIn(trial.configuration, configuration, decisive))
  return alike.flatMap((trial) => (trial.state === 'complete' && trial.measurement.warmUp) || [])
}

const differsIn = (
  one: Configuration,
  other: Configuration,
  parameters: SearchSpace['parameters'],
): boolean => parameters.some(({ name }) => one[name] !== other[name])
