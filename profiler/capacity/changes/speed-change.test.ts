import { describe, expect, test } from 'vitest'
import type { ServiceLog } from '../service-log/service-log.ts'
import { compareSpeeds } from './speed-change.ts'

const stepsOf = (
  tookMs: readonly number[],
  served: readonly number[] = tookMs.map(() => 1),
): ServiceLog => ({
  present: [...served],
  departed: [...served],
  tookMs: [...tookMs],
  rank: tookMs.map(() => 0),
  endedMs: tookMs.map((_, i) => 100 * i),
  spreadMs: tookMs.map(() => 0),
})
const even = (ms: number, n = 12) => stepsOf(Array<number>(n).fill(ms))
/** Four steps each a tenth below, at and above. */
const spread = (ms: number) =>
  stepsOf([0.9, 1, 1.1].flatMap((part) => Array<number>(4).fill(part * ms)))

describe('the speed of later steps over that of earlier ones', () => {
  test('is their ratio where it is beyond 5 %', () => {
    expect(compareSpeeds(even(10), even(8))).toBeCloseTo(1.25, 9)
    expect(compareSpeeds(even(10), even(12.5))).toBeCloseTo(0.8, 9)
    expect([compareSpeeds(even(10), even(9.55)), compareSpeeds(even(10), even(9.45))]).toEqual([
      1,
      expect.closeTo(10 / 9.45, 9),
    ])
    expect([compareSpeeds(even(10), even(10.45)), compareSpeeds(even(10), even(10.6))]).toEqual([
      1,
      expect.closeTo(10 / 10.6, 9),
    ])
  })

  test('is 1 of fewer than a dozen steps on either side', () => {
    expect([compareSpeeds(even(10, 11), even(5)), compareSpeeds(even(10), even(5, 11))]).toEqual([
      1, 1,
    ])
  })

  test('is 1 within chance: four standard errors of both medians', () => {
    // The middle one of |ln 0.9|, 0 and ln 1.1 is ln 1.1 = 0.0953: an error of 1.2533 1.4826 0.0953
    // / sqrt(12) = 0.0511 each, four of both 0.289.
    expect(compareSpeeds(spread(10), spread(10 / 1.32))).toBe(1)
    expect(compareSpeeds(spread(10), spread(10 / 1.35))).toBeCloseTo(1.35, 9)
    expect(compareSpeeds(spread(10), spread(13.2))).toBe(1)
    expect(compareSpeeds(spread(10), spread(13.5))).toBeCloseTo(1 / 1.35, 9)
    // 0.0511 and none: four of it 0.204.
    expect([
      compareSpeeds(spread(10), even(10 / 1.21)),
      compareSpeeds(spread(10), even(10 / 1.25)),
    ]).toEqual([1, expect.closeTo(1.25, 9)])
  })

  test('compares steps with those that served as many', () => {
    const mixed = (small: number, large: number) => [
      ...Array<number>(small).fill(1),
      ...Array<number>(large).fill(2),
    ]
    const taking = (served: number[], ms: number) =>
      stepsOf(
        served.map((k) => k * ms),
        served,
      )
    expect(compareSpeeds(taking(mixed(20, 12), 10), taking(mixed(12, 30), 10))).toBe(1)
    expect(compareSpeeds(taking(mixed(20, 20), 10), taking(mixed(20, 20), 8))).toBeCloseTo(1.25, 9)
  })
})
