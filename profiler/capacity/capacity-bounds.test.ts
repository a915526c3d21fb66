import { expect, test } from 'vitest'
import {
  computeHalfWidth,
  createBracket,
  createUpperBound,
  noCapacity,
  unknownCapacity,
} from './capacity-bounds.ts'

const infinite = Number.POSITIVE_INFINITY

test('the met rate and the upper bound determine which bounds are known', () => {
  expect(
    [
      createBracket(90, 110, 100),
      createBracket(90, infinite),
      createBracket(0, 50),
      createBracket(0, infinite),
    ].map(({ bounds }) => bounds),
  ).toEqual(['both', 'lower', 'upper', 'none'])
  expect(createBracket(0.5, 0.6)).toEqual({
    capacityRps: 0.5,
    capacityCi90Rps: [0.5, 0.6],
    bounds: 'both',
  })
  expect([noCapacity, unknownCapacity]).toEqual([
    { capacityRps: 0, capacityCi90Rps: [0, 0], bounds: 'both' },
    { capacityRps: 0, capacityCi90Rps: [0, infinite], bounds: 'none' },
  ])
  expect(createUpperBound(50)).toEqual({
    capacityRps: 50,
    capacityCi90Rps: [0, 50],
    bounds: 'upper',
  })
})

test('the half width is relative to the capacity, not to the middle', () => {
  expect(computeHalfWidth({ capacityRps: 50, capacityCi90Rps: [40, 70] })).toBe(0.3)
})
