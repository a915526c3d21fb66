/**
 * Readings that are hard to believe: too far from the device model's estimate and from what the
 * search's own model expected. Each is measured again before it counts, and the second reading
 * stands, whatever it says.
 */
import { contradicts } from '../../profiler/capacity/cross-check.ts'
import { saysNothing } from '../../profiler/capacity/known-capacity.ts'
import { z90 } from '../../search/normal.ts'
import { configurationKey } from '../../search/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { logSdOf } from './observations.ts'

/** What the device model expects of a configuration that serves. */
export interface Expected {
  readonly capacityRps: number
  /** About two in three truths lie within ± this part of it. */
  readonly relativeError: number
}

/** Undefined where nothing is known of a configuration beforehand. */
export type Expectation = (configuration: Configuration) => Expected | undefined

/**
 * Trials to measure again, and those whose reading gave way to a second one. A reading is doubted
 * where both beliefs are there and it is far from each: one alone may be wrong, as the device model
 * is where a machine differs, and the search's model after few trials.
 */
export function secondReadings(
  trials: readonly FinishedTrial[],
  expectation: Expectation,
): { readonly due: readonly FinishedTrial[]; readonly replaced: readonly FinishedTrial[] } {
  const due: FinishedTrial[] = []
  const replaced: FinishedTrial[] = []
  const read = new Set<string>()
  for (const [i, trial] of trials.entries()) {
    const key = configurationKey(trial.configuration)
    const first = !read.has(key)
    if (isReading(trial)) read.add(key)
    // The second one stands, however far it is.
    if (!first || !isHardToBelieve(trial, expectation(trial.configuration))) continue
    const again = trials
      .slice(i + 1)
      .some((later) => isReading(later) && configurationKey(later.configuration) === key)
    ;(again ? replaced : due).push(trial)
  }
  return { due, replaced }
}

const isReading = (trial: FinishedTrial): boolean =>
  trial.purpose !== 'confirmation' &&
  (trial.state === 'infeasible' || (trial.state === 'complete' && !saysNothing(trial.measurement)))

/** Of a trial that was measured to the end, and of a capacity that both models speak of. */
function isHardToBelieve(trial: FinishedTrial, expected: Expected | undefined): boolean {
  if (
    trial.state !== 'complete' ||
    trial.purpose === 'confirmation' ||
    !expected ||
    !trial.predicted
  )
    return false
  const { capacityRps, capacityCi90Rps, outcome } = trial.measurement
  if (
    !['converged', 'budget'].includes(outcome) ||
    !(capacityRps > 0) ||
    logSdOf(trial.measurement) === undefined
  )
    return false
  const { rate, low, high } = trial.predicted
  const reading = { capacityRps, capacityCi90Rps, known: 'held' } as const
  const reach = Math.exp(z90 * Math.log1p(expected.relativeError))
  const byDevice = {
    rateRps: expected.capacityRps,
    ci90Rps: [expected.capacityRps / reach, expected.capacityRps * reach],
  } as const
  return (
    contradicts(reading, byDevice) && contradicts(reading, { rateRps: rate, ci90Rps: [low, high] })
  )
}
