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

describe('the speed of later steps over that of earlier ones', () => {
  test('is their ratio where it changed', () => {
    expect(compareSpeeds([even(10)], even(8)).ratio).toBeCloseTo(1.25, 9)
    expect(compareSpeeds([even(10), even(10)], even(12.5)).ratio).toBeCloseTo(0.8, 9)
    expect(compareSpeeds([even(10)], even(9.6)).ratio).toBe(1)
  })

  test('is 1 for few steps', () => {
    expect(compareSpeeds([even(10, 5)], even(5, 5)).ratio).toBe(1)
    expect(compareSpeeds([], even(5)).ratio).toBe(1)
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
    expect(compareSpeeds([taking(mixed(20, 12), 10)], taking(mixed(12, 30), 10)).ratio).toBe(1)
    expect(compareSpeeds([taking(mixed(20, 20), 10)], taking(mixed(20, 20), 8)).ratio).toBeCloseTo(
      1.25,
      9,
    )
  })
})
