import { describe, expect, test } from 'vitest'
import { trueCapacities } from '../../bench/truth.bench.ts'
import { DisciplineServer } from '../../testing/discipline-server.ts'
import { drawnCases, windowLimit } from '../../testing/drawn-servers.ts'
import { bucket } from '../../testing/held-out-servers.ts'
import type { Load, LoadRun, VirtualServer } from '../../types.ts'
import { VirtualLoadGenerator } from '../../virtual/virtual-generator.ts'
import { measureCapacity } from '../measure.ts'
import { letsInByTheClock, windowCapacityWithin, windowLimitOf } from './window-limit.ts'

const { signal } = new AbortController()
const server = (admits: (atMs: number) => boolean) =>
  new DisciplineServer({ seed: 1, servers: 4, workMs: () => 5, takes: () => 0, admits })
const play = (of: VirtualServer, load: Load): Promise<LoadRun> =>
  new VirtualLoadGenerator().play({ kind: 'virtual', server: of }, load, signal)
const open = (rateRps: number, durationS: number): Load => ({
  kind: 'open',
  rateRps,
  durationS,
  arrivals: { kind: 'poisson' },
  seed: 3,
})

describe('a limit by windows of the clock', () => {
  test.each([
    [120, 1000],
    [30, 500],
    [250, 2000],
  ])('of %i in each %i ms is told by what was let in after refusals', async (most, windowMs) => {
    const run = await play(
      server(windowLimit(most, windowMs)),
      open((1600 * most) / windowMs, 3.5 * (windowMs / 1000)),
    )
    const found = windowLimitOf([run])!
    expect(found.most).toBe(most)
    expect(Math.abs(found.windowMs - windowMs)).toBeLessThanOrEqual(found.errorMs)
    expect(letsInByTheClock([run])).toBe(true)
  })

  test('is not that of a bucket, nor told by one window or by none', async () => {
    const limited = await play(server(bucket(60, 25)), open(100, 4))
    expect(limited.errorKinds['status 429']).toBeGreaterThan(50)
    expect(windowLimitOf([limited])).toBeUndefined()
    const once = await play(server(windowLimit(120, 1000)), open(200, 1.5))
    expect([windowLimitOf([once]), windowLimitOf([]), letsInByTheClock([])]).toEqual([
      undefined,
      undefined,
      false,
    ])
  })

  test('lets in Poisson arrivals up to the rate at which the part beyond the count may fail', () => {
    // By the sum over the Poisson distribution: E (X - 120)+ is a thousandth of 99.60.
    const { rateRps, ci90Rps } = windowCapacityWithin(
      { most: 120, windowMs: 1000, errorMs: 10 },
      0.001,
    )
    expect(rateRps).toBeCloseTo(99.6, 0)
    expect(ci90Rps[0]).toBeLessThan(rateRps)
    expect(ci90Rps[1]).toBeGreaterThan(rateRps)
    expect(
      windowCapacityWithin({ most: 120, windowMs: 500, errorMs: 10 }, 0.001).rateRps,
    ).toBeCloseTo(2 * rateRps, 6)
  })

  test('is found where closed loops had but a part of a count, and before any window is spent on rates that hold for less than one', async () => {
    const {
      server: of,
      slo,
      name,
    } = drawnCases.find((each) => /106 requests in each/.test(each.name))!
    const truth = trueCapacities()[name]!
    for (const seed of [1001, 1002, 1003]) {
      const target = { kind: 'virtual', server: of(7 * seed) } as const
      const found = await measureCapacity({
        target,
        slo,
        signal,
        effort: 'quick',
        seed: 1000 * seed,
      })
      expect(found.outcome).toBe('converged')
      expect(Math.abs(found.capacityRps / truth - 1)).toBeLessThan(0.03)
    }
    const open: number[] = []
    await measureCapacity({
      target: { kind: 'virtual', server: server(windowLimit(120, 1000)) },
      slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
      signal,
      effort: 'quick',
      onStep: ({ load, seconds }, phase) => {
        if (phase === 'search' && load.kind === 'open') open.push(seconds)
      },
    })
    expect(open.reduce((total, seconds) => total + seconds, 0)).toBeLessThan(4.5)
  })

  test('is found though windows of half a second begin in the middle of a count', async () => {
    for (const seed of [1, 2, 3]) {
      const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
      const target = { kind: 'virtual', server: server(windowLimit(120, 1000)) } as const
      const found = await measureCapacity({
        target,
        slo,
        signal,
        effort: 'quick',
        seed: 7000 * seed,
      })
      const [low, high] = found.capacityCi90Rps
      expect(found.detail).toContain('120 requests are let in in each 1.0 s of the clock')
      expect(low <= 99.6 && 99.6 <= high && high - low < 15).toBe(true)
      expect(Math.abs(found.capacityRps / 99.6 - 1)).toBeLessThan(0.02)
    }
  })
})
