/** What is asked of a trial: as much as the search needs to know of it, and no more. Pure. */
import { capacityToBeatRps, learnsPlainly, type Objective } from '../../search/objective.ts'
import type { ReplicaPrice } from '../../search/replica-price.ts'
import type { Prediction, TrialPurpose } from '../../trials/types.ts'
import type { TrialTask } from '../backends/backend.ts'
import type { Expected } from './second-reading.ts'

interface Asked {
  readonly purpose?: TrialPurpose
  /** What the search's model believes of it. */
  readonly predicted?: Prediction
  /** What the device model does. */
  readonly expected?: Expected
  readonly objective: Objective
  readonly price: ReplicaPrice
  /** What the best so far costs by the objective. */
  readonly bestCost?: number
  /** How much better something must be to matter, 0.05 = 5 %. */
  readonly tolerance: number
}

/** A belief wider than this, high over low of 90 %, says little of where to look. */
const widest = 2
/** Of the tolerance: a first trial is compared with nothing yet, and a gain over the default is told in two digits. */
const firstPrecision = 2
const yardstickPrecision = 3

/** The yardstick is measured to the end, for a gain is stated against it; anything else may end once it cannot cost less than the best. */
export function taskOf({ purpose, predicted, expected, objective, price, bestCost, tolerance }: Asked): TrialTask {
  const yardstick = purpose === 'default'
  const known = predicted && predicted.high < widest * predicted.low ? predicted.rate : expected?.capacityRps
  return {
    kind: 'trial',
    capacityToBeatRps: yardstick ? undefined : capacityToBeatRps(objective, price, bestCost),
    expectedRps: learnsPlainly(objective) ? known : undefined,
    precision: tolerance * (yardstick ? yardstickPrecision : bestCost === undefined ? firstPrecision : 1),
  }
}
