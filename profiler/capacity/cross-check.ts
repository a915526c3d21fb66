/**
 * A reading beside what was expected of it: the device model's estimate, a neighbour in the search
 * space, an earlier measurement.
 */
import type { Capacity } from '../types.ts'

export interface Expected {
  readonly rateRps: number
  /** 90 % interval of what is expected. */
  readonly ci90Rps: readonly [number, number]
}

const farIntervals = 3

/**
 * Whether a capacity lies more than three intervals from what was expected: three times the half
 * widths of both, as distances of ln rate. What is only a bound contradicts an expectation on its
 * wrong side alone. Such a reading is measured again before it counts. False where nothing is
 * known, and nothing is far from an expectation without an end.
 */
export function contradicts(
  { capacityRps, capacityCi90Rps: [low, high], known }: Capacity,
  expected: Expected,
): boolean {
  const [from, to] = expected.ci90Rps
  if (known === 'nothing' || !(expected.rateRps > 0)) return false
  const expectedHalf = Math.log(to / from) / 2
  const beyond = (log: number, half: number) => log > farIntervals * Math.hypot(half, expectedHalf)
  if (known === 'bound above')
    return beyond(Math.log(expected.rateRps / Math.max(high, Number.MIN_VALUE)), 0)
  if (known === 'bound below') return beyond(Math.log(low / expected.rateRps), 0)
  return beyond(
    Math.abs(Math.log(capacityRps / expected.rateRps)),
    capacityRps > 0 ? Math.log(high / low) / 2 : 0,
  )
}
