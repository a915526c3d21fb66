import { expect, test } from 'vitest'
import type { Capacity, CapacityKnown } from '../types.ts'
import { contradicts } from './cross-check.ts'

const capacity = (
  capacityRps: number,
  low: number,
  high: number,
  known: CapacityKnown = 'held',
): Capacity => ({
  capacityRps,
  capacityCi90Rps: [low, high],
  known,
})
const expected = { rateRps: 1000, ci90Rps: [900, 1111] } as const

test('three intervals of both, as ratios, are far', () => {
  // Half widths of 5.1 % and 10.5 %: three times their root sum of squares is 35 %.
  expect(contradicts(capacity(1350, 1283, 1421), expected)).toBe(false)
  expect(contradicts(capacity(1450, 1378, 1526), expected)).toBe(true)
  expect(contradicts(capacity(740, 703, 779), expected)).toBe(false)
  expect(contradicts(capacity(690, 656, 726), expected)).toBe(true)
  expect(contradicts(capacity(1450, 1000, 2100), expected)).toBe(false)
  expect(contradicts(capacity(0, 0, 0), expected)).toBe(true)
  // Below one a second as well: half widths of 10.5 % each, three times their root sum of squares
  // is 44.7 %.
  const slow = { rateRps: 0.5, ci90Rps: [0.45, 0.5555] } as const
  expect([
    contradicts(capacity(0.76, 0.684, 0.8444), slow),
    contradicts(capacity(0.79, 0.711, 0.8777), slow),
  ]).toEqual([false, true])
})

test('bounds contradict what lies on their wrong side alone', () => {
  expect(contradicts(capacity(500, 0, 500, 'bound above'), expected)).toBe(true)
  expect(contradicts(capacity(900, 0, 900, 'bound above'), expected)).toBe(false)
  expect(contradicts(capacity(5000, 0, 5000, 'bound above'), expected)).toBe(false)
  expect(contradicts(capacity(2000, 2000, Number.POSITIVE_INFINITY, 'bound below'), expected)).toBe(
    true,
  )
  expect(contradicts(capacity(100, 100, Number.POSITIVE_INFINITY, 'bound below'), expected)).toBe(
    false,
  )
  expect(contradicts(capacity(1000, 1000, Number.POSITIVE_INFINITY, 'bound below'), expected)).toBe(
    false,
  )
})

test('nothing known contradicts nothing, and nothing expected is not contradicted', () => {
  expect(contradicts(capacity(0, 0, Number.POSITIVE_INFINITY, 'nothing'), expected)).toBe(false)
  expect(contradicts(capacity(100, 95, 105), { rateRps: 0, ci90Rps: [0, 0] })).toBe(false)
  expect(contradicts(capacity(100, 95, 105), { rateRps: 0, ci90Rps: [1, 2] })).toBe(false)
  for (const ci90Rps of [[900, Number.POSITIVE_INFINITY] as const, [0, 1100] as const])
    for (const rps of [100, 0])
      expect(contradicts(capacity(rps, rps, rps), { rateRps: 1000, ci90Rps })).toBe(false)
})
