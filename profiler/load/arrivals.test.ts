import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Arrivals } from '../model/load.ts'
import { schedule } from './arrivals.ts'

const load = (arrivals: Arrivals, rateRps = 100, durationS = 50, seed = 1) =>
  ({ kind: 'open', rateRps, durationS, seed, arrivals }) as const
const gapsOf = (at: Float64Array) => at.subarray(1).map((t, i) => t - at[i]!)
const variation = (gaps: Float64Array) => {
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length
  return Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length) / mean
}
const kinds: Arrivals[] = [
  { kind: 'constant' },
  { kind: 'poisson' },
  { kind: 'gamma', cv: 2 },
  { kind: 'on-off', onS: 0.5, offS: 1 },
  { kind: 'sweep', fromRps: 50, toRps: 150 },
]

test.each(kinds)('$kind: ascending, within the window, exactly rate × duration', (arrivals) => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 400 }),
      fc.integer({ min: 1, max: 20 }),
      fc.integer(),
      (rateRps, durationS, seed) => {
        const at = schedule(load(arrivals, rateRps, durationS, seed))
        expect(at).toHaveLength(rateRps * durationS)
        expect(
          at.every((t, i) => t >= (i === 0 ? 0 : at[i - 1]!) && t <= durationS * 1000 + 1e-6),
        ).toBe(true)
      },
    ),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 30 },
  )
})

describe('gaps have the configured variation', () => {
  test.each<[Arrivals, number]>([
    [{ kind: 'constant' }, 0],
    [{ kind: 'poisson' }, 1],
    [{ kind: 'gamma', cv: 0.3 }, 0.3],
    [{ kind: 'gamma', cv: 2.5 }, 2.5],
  ])('%o: coefficient of variation %d', (arrivals, expected) => {
    expect(Math.abs(variation(gapsOf(schedule(load(arrivals)))) - expected)).toBeLessThan(
      0.03 + 0.08 * expected,
    )
  })
})

test('on-off arrivals come only while on', () => {
  const at = schedule(load({ kind: 'on-off', onS: 0.5, offS: 1 }))
  expect(at.every((t) => t % 1500 <= 500)).toBe(true)
})

test('a sweep sends at its last rate when it ends', () => {
  const at = schedule(load({ kind: 'sweep', fromRps: 50, toRps: 150 }, 100, 50))
  const last = at.filter((t) => t > 45_000).length / 5
  expect(Math.abs(last - 145)).toBeLessThan(20)
})

test('a trace is replayed up to the end of the window', () => {
  expect([...schedule(load({ kind: 'trace', atMs: [1, 5, 60_000] }))]).toEqual([1, 5])
})
