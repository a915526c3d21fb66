import { describe, expect, test } from 'vitest'
import { ApiError, pauseBefore } from './api.ts'

describe('pauses', () => {
  const pauses = (attempt: number, error: unknown) => Array.from({ length: 200 }, () => pauseBefore(attempt, 250, error))
  const busy = (retryAfterMs?: number) => new ApiError(429, 'TooManyRequests', 'later', undefined, retryAfterMs)
  test('double up to 5 s, each spread by a quarter', () => {
    for (const [attempt, ms] of [
      [1, 250],
      [3, 1000],
      [20, 5000],
    ] as const) {
      for (const pause of pauses(attempt, busy())) {
        expect(pause).toBeGreaterThanOrEqual(0.75 * ms)
        expect(pause).toBeLessThanOrEqual(1.25 * ms)
      }
    }
  })
  test('are never shorter than the server asked for, and still grow when it goes on refusing', () => {
    for (const pause of pauses(1, busy(1000))) expect(pause).toBeGreaterThanOrEqual(1000)
    for (const pause of pauses(10, busy(1000))) expect(pause).toBeGreaterThanOrEqual(3750)
    for (const pause of pauses(1, new Error('other'))) expect(pause).toBeLessThanOrEqual(313)
  })
})
