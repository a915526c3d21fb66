import { expect, test } from 'vitest'
import type { CapacityOutcome, Measurement } from '../model/measurement.ts'
import {
  boundedAbove,
  boundedBetween,
  computeHalfWidth,
  noCapacity,
  resolveCapacity,
  unknownCapacity,
} from './capacity-bounds.ts'

const infinite = Number.POSITIVE_INFINITY

test('what held and what bounds it tell how a capacity is known', () => {
  expect(
    [
      boundedBetween(90, 110, 100),
      boundedBetween(90, infinite),
      boundedBetween(0, 50),
      boundedBetween(0, infinite),
    ].map(({ known }) => known),
  ).toEqual(['held', 'bound below', 'bound above', 'nothing'])
  expect(boundedBetween(0.5, 0.6)).toEqual({
    capacityRps: 0.5,
    capacityCi90Rps: [0.5, 0.6],
    known: 'held',
  })
  expect([noCapacity, unknownCapacity]).toEqual([
    { capacityRps: 0, capacityCi90Rps: [0, 0], known: 'held' },
    { capacityRps: 0, capacityCi90Rps: [0, infinite], known: 'nothing' },
  ])
  expect(boundedAbove(50)).toEqual({
    capacityRps: 50,
    capacityCi90Rps: [0, 50],
    known: 'bound above',
  })
})

test.each<[CapacityOutcome, number, [number, number], string]>([
  ['converged', 100, [90, 110], 'held'],
  ['beaten', 50, [0, 50], 'bound above'],
  ['generator-limit', 100, [90, 110], 'bound below'],
  ['generator-limit', 0, [0, infinite], 'nothing'],
  ['budget', 100, [90, infinite], 'bound below'],
  ['budget', 0.5, [0.4, infinite], 'bound below'],
  ['budget', 0, [0, infinite], 'nothing'],
  ['slo-unattainable', 0, [0, 0], 'held'],
])(
  'a stored measurement without it: %s, %d of %j is %s',
  (outcome, capacityRps, capacityCi90Rps, known) => {
    const stored = { outcome, capacityRps, capacityCi90Rps } as unknown as Measurement
    expect(resolveCapacity(stored)).toEqual({ capacityRps, capacityCi90Rps, known })
    expect(resolveCapacity({ ...stored, known: 'nothing' }).known).toBe('nothing')
  },
)

test('half the width of an interval is a share of the capacity, not of its middle', () => {
  expect(computeHalfWidth({ capacityRps: 50, capacityCi90Rps: [40, 70] })).toBe(0.3)
})
