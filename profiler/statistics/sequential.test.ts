import { describe, expect, test } from 'vitest'
import { createUniform } from '../seeded-random.ts'
import { computeEValues, convertEValue } from './sequential.ts'

describe('evidence on a share of requests', () => {
  test('is what the bets have won, as computed by hand', () => {
    expect(computeEValues(0, 0, 0.01)).toEqual({
      met: expect.closeTo(1, 12),
      violated: expect.closeTo(1, 12),
    })
    // One request that is not over: (1 - part × 0.01) / 0.99, a third of it on a fiftieth.
    const one = 0.35 * 0.9998 + 0.13 * (0.999 + 0.998 + 0.9965 + 0.995 + 0.9935)
    expect(computeEValues(1, 0, 0.01).met).toBeCloseTo(one / 0.99, 12)
    // One that is: its parts themselves.
    expect(computeEValues(1, 1, 0.01).met).toBeCloseTo(
      0.35 * 0.02 + 0.13 * (0.1 + 0.2 + 0.35 + 0.5 + 0.65),
      12,
    )
    expect(computeEValues(1, 1, 0.01).violated).toBeCloseTo(
      0.1 * 1.5 + 0.2 * (2 + 3 + 5 + 10) + 0.1 * 30,
      12,
    )
  })

  test('so many requests prove a p99 at 95 % and at 99 %', () => {
    const least = (over: number, evidence: number) => {
      let n = over
      while (computeEValues(n, over, 0.01).met < evidence) n++
      return n
    }
    // LoadGen's rule, which looks once, takes 299, 473, 628 and 1,049.
    expect([0, 1, 2, 5].map((over) => least(over, 20))).toEqual([358, 655, 884, 1432])
    expect([0, 1, 2, 5].map((over) => least(over, 100))).toEqual([534, 850, 1099, 1683])
  })

  test('of allowed shares near one is a number', () => {
    expect(computeEValues(100, 30, 0.5).met).toBeGreaterThan(20)
    expect(computeEValues(100, 80, 0.5).violated).toBeGreaterThan(20)
    expect(computeEValues(1e6, 0, 0.01).met).toBe(Number.POSITIVE_INFINITY)
  })

  test.each([
    ['met', 0.01],
    ['met', 0.012],
    ['violated', 0.01],
    ['violated', 0.008],
  ] as const)(
    '%s: looked at after each of 3,000 requests of which %d are over, reaches 20 in one series of twenty at most',
    (what, share) => {
      const uniform = createUniform(7)
      const series = 400
      let reached = 0
      for (let s = 0; s < series; s++) {
        let over = 0
        for (let n = 1; n <= 3000; n++) {
          if (uniform() < share) over++
          if (n % 20 === 0 && computeEValues(n, over, 0.01)[what] >= 20) {
            reached++
            break
          }
        }
      }
      // 20 of 400, and two standard deviations.
      expect(reached).toBeLessThanOrEqual(29)
    },
  )

  test('an e-value of 100 makes 99 % sure, one below 1 nothing', () => {
    expect([100, 20, 1, 0.5, 0].map(convertEValue)).toEqual([0.99, 0.95, 0, 0, 0])
  })
})
