import { describe, expect, test } from 'vitest'
import { activeReadings } from './bounds.ts'
import type { Datum } from './datum.ts'
import { createDesign } from './design.ts'
import type { Problem } from './types.ts'

const problem: Problem = {
  space: {
    parameters: [{ name: 'cores', category: 'resource', kind: 'ordinal', values: [1, 2, 4, 8, 16, 32], scale: 'log' }],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  pricePerHour: () => 1,
}
const design = createDesign(problem, 'rate')
const exact = [1, 2, 8, 16].map((cores): Datum => ({ at: { cores }, target: Math.log(100 * cores), noise: 1e-4 }))
const bound = (cores: number, rate: number, kind: 'most' | 'least'): Datum => ({
  at: { cores },
  target: Math.log(rate),
  noise: 1e-4,
  bound: kind,
})

describe('activeReadings', () => {
  test('keeps exact readings as they are', () => {
    expect(activeReadings(design, exact)).toBe(exact)
  })
  test('leaves out a bound that the others keep anyway', () => {
    expect(activeReadings(design, [...exact, bound(4, 900, 'most')])).toEqual(exact)
    expect(activeReadings(design, [...exact, bound(4, 200, 'least')])).toEqual(exact)
  })
  test('keeps a bound that the others would break', () => {
    const low = bound(4, 150, 'most')
    expect(activeReadings(design, [...exact, low])).toContain(low)
    const high = bound(4, 900, 'least')
    expect(activeReadings(design, [...exact, high])).toContain(high)
  })
  test('keeps something where all are bounds', () => {
    const bounds = [bound(1, 100, 'most'), bound(2, 200, 'most')]
    expect(activeReadings(design, bounds).length).toBeGreaterThan(0)
  })
})
