import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createUniform } from '../seeded-random.ts'
import {
  computeBinomialCdf,
  computeBinomialQuantile,
  computeQuantileInterval,
  computeQuantileRanks,
  selectQuantile,
} from './percentile.ts'

describe('selectQuantile', () => {
  test('is the ⌈p n⌉-th smallest', () => {
    const values = Float64Array.from({ length: 100 }, (_, i) => i + 1)
    expect([0.5, 0.9, 0.99, 1].map((p) => selectQuantile(values, p))).toEqual([50, 90, 99, 100])
    expect(selectQuantile([7], 0.99)).toBe(7)
    expect(selectQuantile([], 0.99)).toBeNaN()
  })

  test('leaves at least p of the values at or below it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 1e4, noNaN: true }), { minLength: 1 }),
        fc.double({ min: 0.01, max: 1, noNaN: true }),
        (values, p) => {
          const ascending = Float64Array.from(values).sort()
          const q = selectQuantile(ascending, p)
          const below = ascending.filter((v) => v <= q).length
          expect(below).toBeGreaterThanOrEqual(p * values.length - 1e-6)
        },
      ),
    )
  })
})

describe('confidence intervals of a percentile', () => {
  test('p99 of 1,000 values lies between ranks 983 and 997 at 95 % (Hahn and Meeker)', () => {
    const [lower, upper] = computeQuantileRanks(1000, 0.99, 0.95)
    expect(Math.abs(lower - 983)).toBeLessThanOrEqual(1)
    expect(Math.abs(upper - 997)).toBeLessThanOrEqual(1)
  })

  test('p99 of 300 values has no upper bound', () => {
    const values = Float64Array.from({ length: 300 }, (_, i) => i)
    expect(computeQuantileInterval(values, 0.99, 0.95)[1]).toBe(Number.POSITIVE_INFINITY)
  })

  test('covers the true percentile at least as often as it says', () => {
    const uniform = createUniform(7)
    let covered = 0
    const runs = 1000
    for (let run = 0; run < runs; run++) {
      const values = Float64Array.from({ length: 600 }, () => uniform()).sort()
      const [lower, upper] = computeQuantileInterval(values, 0.95, 0.9)
      if (lower <= 0.95 && 0.95 <= upper) covered++
    }
    expect(covered / runs).toBeGreaterThan(0.88)
    expect(covered / runs).toBeLessThan(0.97)
  })
})

test('computeBinomialCdf sums the mass', () => {
  expect(computeBinomialCdf(1, 3, 0.5)).toBeCloseTo(0.5, 12)
  expect(computeBinomialCdf(0, 299, 0.01)).toBeCloseTo(0.99 ** 299, 12)
})

describe('the binomial distribution', () => {
  /** C(n, k) p^k (1 - p)^(n - k), multiplied out. */
  const mass = (n: number, k: number, p: number): number => {
    let value = (1 - p) ** (n - k)
    for (let i = 1; i <= k; i++) value *= (p * (n - k + i)) / i
    return value
  }
  const sum = (n: number, k: number, p: number) =>
    Array.from({ length: k + 1 }, (_, i) => mass(n, i, p)).reduce((a, b) => a + b, 0)

  test.each([
    [10, 0.3],
    [200, 0.05],
    [40, 0.9],
  ])('of %i with %d sums the mass of all counts up to one', (n, p) => {
    for (const k of [0, 1, Math.floor(n * p), n - 1])
      expect(computeBinomialCdf(k, n, p)).toBeCloseTo(sum(n, k, p), 9)
  })

  test('at its ends', () => {
    expect([
      computeBinomialCdf(5, 5, 0.2),
      computeBinomialCdf(9, 5, 0.2),
      computeBinomialCdf(-1, 5, 0),
      computeBinomialCdf(0, 5, 0),
    ]).toEqual([1, 1, 0, 1])
    expect([
      computeBinomialCdf(4, 5, 1),
      computeBinomialCdf(5, 5, 1),
      computeBinomialCdf(-1, 5, 0.2),
    ]).toEqual([0, 1, 0])
    for (let n = 1; n <= 60; n++) {
      expect(computeBinomialCdf(n, n, 0.7)).toBe(1)
      expect(computeBinomialCdf(n - 1, n, 1e-12)).toBeLessThanOrEqual(1)
    }
    expect(computeBinomialCdf(4, 5, 0.2)).toBeCloseTo(1 - 0.2 ** 5, 12)
    // Where the sum begins far above nothing, what it leaves out does not matter.
    expect(computeBinomialCdf(50_000, 1_000_000, 0.05)).toBeCloseTo(0.5, 2)
    expect(computeBinomialCdf(49_000, 1_000_000, 0.05)).toBeLessThan(1e-5)
  })

  // Sums of exact terms with 60 digits (Python's decimal).
  test.each([
    [9890, 10_000, 0.99, 0.16939377362840013],
    [95, 10_000, 0.01, 0.33028551192588834],
    [4, 1000, 0.001, 1 - 0.00363687802952179],
    [83, 100, 0.9, 0.020598810145300146],
  ])('P(Binomial <= %i) of %i at %d', (k, n, p, probability) => {
    expect(computeBinomialCdf(k, n, p) / probability).toBeCloseTo(1, 8)
  })

  test('of a hundred million begins where there is something to sum', () => {
    // The normal's, with the continuity correction: 1e8 tosses have a standard deviation of 5000.
    expect(computeBinomialCdf(50_000_000, 1e8, 0.5)).toBeCloseTo(
      0.5 + 0.5 / (5000 * Math.sqrt(2 * Math.PI)),
      6,
    )
    expect(
      Math.abs(computeBinomialQuantile(0.841344746, 1e8, 0.5) - 50_005_000),
    ).toBeLessThanOrEqual(1)
    // Of a rare thing and of a frequent one, summed with 60 digits.
    expect(computeBinomialCdf(1000, 1_000_000, 0.001)).toBeCloseTo(0.50840936822, 7)
    expect(computeBinomialCdf(999_000, 1_000_000, 0.999)).toBeCloseTo(0.504211555167, 7)
  })

  test('a quantile is the fewest that reach its probability', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 400 }),
        fc.double({ min: 0.01, max: 0.99, noNaN: true }),
        fc.double({ min: 0.001, max: 0.999, noNaN: true }),
        (n, p, probability) => {
          const k = computeBinomialQuantile(probability, n, p)
          expect(computeBinomialCdf(k, n, p)).toBeGreaterThanOrEqual(probability - 1e-9)
          if (k > 0) expect(computeBinomialCdf(k - 1, n, p)).toBeLessThan(probability + 1e-9)
        },
      ),
    )
    expect([computeBinomialQuantile(0.5, 0, 0.5), computeBinomialQuantile(0.5, 10, 0)]).toEqual([
      0, 0,
    ])
    expect(computeBinomialQuantile(1, 3, 0.5)).toBe(3)
    // The normal's: mean 50,000, standard deviation 218.
    expect(
      Math.abs(computeBinomialQuantile(0.975, 1_000_000, 0.05) - (50_000 + 1.96 * 217.9)),
    ).toBeLessThan(2)
  })
})

test('ranks that leave at most the tail on either side, and no bound where no rank does', () => {
  // Of 30 tosses 11 to 19 heads are the quantiles at 5 and 95 % (scipy.stats.binom.ppf).
  expect(computeQuantileRanks(30, 0.5, 0.9)).toEqual([11, 20])
  const values = Float64Array.from({ length: 30 }, (_, i) => i + 1)
  expect(computeQuantileInterval(values, 0.5, 0.9)).toEqual([11, 20])
  expect(computeQuantileRanks(30, 0.01, 0.9)[0]).toBe(0)
  expect(computeQuantileInterval(values, 0.01, 0.9)[0]).toBe(0)
})

// The fewest k with P(Binomial(n, p) <= k) >= either end's probability, summed with 60 digits
// (Python's decimal).
test.each([
  [1000, 0.99, 0.95, 983, 997],
  [100, 0.5, 0.95, 40, 61],
  [10_000, 0.99, 0.95, 9880, 9920],
  [100_000, 0.999, 0.9, 99_883, 99_917],
  [100_000, 0.001, 0.9, 84, 118],
  [10, 0.5, 0.99, 1, 10],
  [5, 0.9, 0.9, 3, 6],
])(
  'of %i values the quantile %d lies with %d between ranks %i and %i',
  (n, p, confidence, lower, upper) => {
    expect(computeQuantileRanks(n, p, confidence)).toEqual([lower, upper])
    const interval = computeQuantileInterval(
      Array.from({ length: n }, (_, i) => i + 1),
      p,
      confidence,
    )
    expect(interval).toEqual([lower, upper > n ? Number.POSITIVE_INFINITY : upper])
  },
)

test('the ranks of any number of values are the nearest that leave no more than the tail outside', () => {
  for (let n = 1; n <= 300; n++) {
    const [lower, upper] = computeQuantileRanks(n, 0.9, 0.95)
    // The quantile lies below the k-th smallest value where fewer than k lie below it.
    const below = (rank: number) => computeBinomialCdf(rank - 1, n, 0.9)
    if (lower > 0) expect(below(lower)).toBeLessThan(0.025)
    if (lower < n) expect(below(lower + 1)).toBeGreaterThanOrEqual(0.025)
    expect(below(upper)).toBeGreaterThanOrEqual(0.975 - 1e-12)
    if (upper > 1) expect(below(upper - 1)).toBeLessThan(0.975)
  }
})
