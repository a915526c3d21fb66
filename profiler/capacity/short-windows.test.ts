import { describe, expect, test } from 'vitest'
import { QueueServer } from '../testing/queue-server.ts'
import { runOf } from '../testing/scripted-generator.ts'
import type { Load, Slo } from '../types.ts'
import { VirtualLoadGenerator } from '../virtual/virtual-generator.ts'
import { capacityBehind, servedOf, type WindowSeen, windowSeen } from './short-windows.ts'

const slo: Slo = { percentile: 0.9, limitMs: 2000, maxErrorRate: 0.01, metric: 'ttft' }
const generator = new VirtualLoadGenerator()
/** 20 a second at most. */
const steady = { servers: 1, maxBatch: 1, serviceMs: () => 50 }
async function seen(rateRps: number, durationS: number, server: Omit<ConstructorParameters<typeof QueueServer>[0], 'seed'> = steady) {
  const load: Load = { kind: 'open', rateRps, durationS, seed: 3, arrivals: { kind: 'poisson' } }
  const target = { kind: 'virtual', server: new QueueServer({ seed: 1, ...server }) } as const
  return windowSeen(await generator.play(target, load, new AbortController().signal), slo, 0.1)
}

describe('what a server serves while it falls behind', () => {
  test.each([30, 40, 80])('is what it can, at %d requests a second', async (rate) => {
    const { behind } = await seen(rate, 8)
    expect(behind!.answers / behind!.seconds).toBeCloseTo(20, 6)
    expect(behind!.dispersion).toBeLessThan(0.2)
  })

  test('is told of whole batches, whenever the time begins and ends', async () => {
    const batches = { servers: 1, maxBatch: 8, serviceMs: () => 400 }
    for (const rate of [26, 33, 41]) {
      const { behind } = await seen(rate, 8, batches)
      expect(behind!.answers / behind!.seconds).toBeCloseTo(20, 6)
    }
  })

  test.each([5, 10, 18])('is not known of one that keeps up with %d', async (rate) => {
    expect((await seen(rate, 20)).behind).toBeUndefined()
  })

  test('is that of all windows in which it did, each by its answers', () => {
    const of = (answers: number, seconds: number, dispersion = 1): WindowSeen => ({
      rateRps: 9,
      seconds: 9,
      nEff: 9,
      over: 1,
      behind: { answers, seconds, dispersion },
    })
    expect(servedOf([{ rateRps: 9, seconds: 9, nEff: 9, over: 0 }])).toBeUndefined()
    expect(servedOf([of(30, 1), of(30, 2)])).toEqual({ rps: 20, relativeError: Math.sqrt(60) / 60 })
    expect(servedOf([of(25, 1, 4)])!.relativeError).toBeCloseTo(0.4, 12)
  })
})

test('a window that failed too many requests missed, however fast the others were', () => {
  const load: Load = { kind: 'open', rateRps: 10, durationS: 10, seed: 1, arrivals: { kind: 'poisson' } }
  const after = (failed: number) =>
    windowSeen(
      runOf(
        load,
        Array.from({ length: 100 }, (_, i) => (i < failed ? Number.NaN : 5)),
      ),
      slo,
      0,
    )
  expect(after(0).over).toBe(0)
  expect(after(6).over).toBe(1)
})

describe('the capacity', () => {
  const window = (rateRps: number, over: number, nEff = 50): WindowSeen => ({ rateRps, seconds: 8, nEff, over })

  test('of windows that the queue outlasts is what it serves, but for a little', async () => {
    // At 24 a second the limit of two seconds is kept for ten, and nine in ten requests of this window keep it.
    const windows = await Promise.all([10, 24, 40].map((rate) => seen(rate, 9)))
    expect(windows[1]!.over).toBeLessThan(0.15)
    const { median, ci90 } = capacityBehind(windows, slo, 1)
    // 19.46 by 60,000 arrivals a rate.
    expect(median / 19.46).toBeCloseTo(1, 1)
    expect(ci90[0]).toBeGreaterThan(17)
    expect(ci90[0]).toBeLessThan(19.46)
    expect(ci90[1]).toBeGreaterThan(19.46)
    expect(ci90[1]).toBeLessThan(20.5)
  })

  test('lies between what held and what did not, and nearer to the one that almost did', () => {
    const { median, ci90 } = capacityBehind([window(10, 0), window(16, 1)], slo, 1)
    expect(ci90[0]).toBeGreaterThan(9)
    expect(ci90[1]).toBeLessThan(16.5)
    expect(capacityBehind([window(10, 0.08), window(16, 1)], slo, 1).median).toBeLessThan(median)
    expect(capacityBehind([window(10, 0), window(16, 0.15)], slo, 1).median).toBeGreaterThan(median)
  })

  test('is less sure from fewer requests', () => {
    const width = (nEff: number) => {
      const { ci90 } = capacityBehind([window(10, 0.05, nEff), window(16, 0.4, nEff)], slo, 1)
      return Math.log(ci90[1] / ci90[0])
    }
    expect(width(10)).toBeGreaterThan(1.3 * width(100))
  })

  test('another limit than waiting binds where enough requests miss it at rates that the server serves', () => {
    const behind = { answers: 160, seconds: 8, dispersion: 0.1 }
    const { ci90 } = capacityBehind([window(5, 0), window(8, 1), window(12, 1), { ...window(40, 1), behind }], slo, 1)
    expect(ci90[0]).toBeGreaterThan(4.5)
    expect(ci90[1]).toBeLessThan(9)
  })

  test.each([
    { ...slo, percentile: 1 },
    { ...slo, limitMs: 3_600_000 },
    { ...slo, limitMs: 1 },
  ])('is a number under any SLO: $percentile $limitMs', (strange) => {
    const behind = { answers: 160, seconds: 8, dispersion: 0.1 }
    for (const windows of [[window(10, 0)], [window(10, 0), { ...window(40, 1), behind }], [window(5, 1), { ...window(40, 1), behind }]]) {
      const { median, ci90 } = capacityBehind(windows, strange, 1)
      expect([ci90[0], median, ci90[1]].every((rps) => rps > 0 && Number.isFinite(rps))).toBe(true)
      expect(ci90[0] <= median && median <= ci90[1]).toBe(true)
    }
  })

  test('of a shorter wait is lower', () => {
    const behind = { answers: 160, seconds: 8, dispersion: 0.1 }
    const at = (limitMs: number, idleMs: number) =>
      capacityBehind([window(5, 0), { ...window(40, 1), behind }], { ...slo, limitMs }, idleMs).median
    expect(at(300, 1)).toBeLessThan(at(2000, 1))
    expect(at(2000, 1700)).toBeCloseTo(at(301, 1), 1)
  })
})
