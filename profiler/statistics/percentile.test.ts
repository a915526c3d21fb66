import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { seeded } from '../seeded-random.ts'
import { binomialCdf, quantileInterval, quantileOfSorted, quantileRanks } from './percentile.ts'

describe('quantileOfSorted', () => {
  test('is the ⌈p n⌉-th smallest', () => {
    const values = Float64Array.from({ length: 100 }, (_, i) => i + 1)
    expect([0.5, 0.9, 0.99, 1].map((p) => quantileOfSorted(values, p))).toEqual([50, 90, 99, 100])
    expect(quantileOfSorted([7], 0.99)).toBe(7)
    expect(quantileOfSorted([], 0.99)).toBeNaN()
  })

  test('leaves at least p of the values at or below it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 1e4, noNaN: true }), { minLength: 1 }),
        fc.double({ min: 0.01, max: 1, noNaN: true }),
        (values, p) => {
          const ascending = Float64Array.from(values).sort()
          const q = quantileOfSorted(ascending, p)
          const below = ascending.filter((v) => v <= q).length
          expect(below).toBeGreaterThanOrEqual(p * values.length - 1e-6)
        },
      ),
    )
  })
})

describe('confidence intervals of a percentile', () => {
  test('p99 of 1,000 values lies between ranks 983 and 997 at 95 % (Hahn and Meeker)', () => {
    const [lower, upper] = quantileRanks(1000, 0.99, 0.95)
    expect(Math.abs(lower - 983)).toBeLessThanOrEqual(1)
    expect(Math.abs(upper - 997)).toBeLessThanOrEqual(1)
  })

  test('p99 of 300 values has no upper bound', () => {
    const values = Float64Array.from({ length: 300 }, (_, i) => i)
    expect(quantileInterval(values, 0.99, 0.95)[1]).toBe(Number.POSITIVE_INFINITY)
  })

  test('covers the true percentile at least as often as it says', () => {
    const uniform = seeded(7)
    let covered = 0
    const runs = 1000
    for (let run = 0; run < runs; run++) {
      const values = Float64Array.from({ length: 600 }, () => uniform()).sort()
      const [lower, upper] = quantileInterval(values, 0.95, 0.9)
      if (lower <= 0.95 && 0.95 <= upper) covered++
    }
    expect(covered / runs).toBeGreaterThan(0.88)
    expect(covered / runs).toBeLessThan(0.97)
  })
})

test('binomialCdf sums the mass', () => {
  expect(binomialCdf(1, 3, 0.5)).toBeCloseTo(0.5, 12)
  expect(binomialCdf(0, 299, 0.01)).toBeCloseTo(0.99 ** 299, 12)
})
