import { describe, expect, test } from 'vitest'
import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import type { Load } from '../../model/load.ts'
import type { Slo } from '../../model/slo.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import { estimateJointCapacity } from './joint-capacity.ts'
import {
  estimateOverloadThroughput,
  type ObservedWindow,
  summariseWindow,
} from './short-windows.ts'

const slo: Slo = { percentile: 0.9, limitMs: 2000, maxErrorRate: 0.01, metric: 'ttft' }
const generator = new VirtualLoadGenerator()
/** 20 a second at most. */
const steady = { servers: 1, maxBatch: 1, serviceMs: () => 50 }
async function seen(
  rateRps: number,
  durationS: number,
  server: Omit<ConstructorParameters<typeof QueueServer>[0], 'seed'> = steady,
) {
  const load: Load = { kind: 'open', rateRps, durationS, seed: 3, arrivals: { kind: 'poisson' } }
  const target = { kind: 'virtual', server: new QueueServer({ seed: 1, ...server }) } as const
  return summariseWindow(await generator.play(target, load, new AbortController().signal), slo, 0.1)
}

describe('the throughput of an overloaded server', () => {
  test.each([30, 40, 80])('is what it can, at %d requests a second', async (rate) => {
    const { overload } = await seen(rate, 8)
    expect(overload!.answers / overload!.seconds).toBeCloseTo(20, 6)
    expect(overload!.dispersion).toBeLessThan(0.2)
  })

  test('is measured over whole batches', async () => {
    const batches = { servers: 1, maxBatch: 8, serviceMs: () => 400 }
    for (const rate of [26, 33, 41]) {
      const { overload } = await seen(rate, 8, batches)
      expect(overload!.answers / overload!.seconds).toBeCloseTo(20, 6)
    }
  })

  test.each([5, 10, 18])('is not known of one that keeps up with %d', async (rate) => {
    expect((await seen(rate, 20)).overload).toBeUndefined()
  })

  test('is the mean over all overloaded windows, weighted by answers', () => {
    const of = (answers: number, seconds: number, dispersion = 1): ObservedWindow => ({
      rateRps: 9,
      seconds: 9,
      nEff: 9,
      violationShare: 1,
      overload: { answers, seconds, dispersion },
    })
    expect(
      estimateOverloadThroughput([{ rateRps: 9, seconds: 9, nEff: 9, violationShare: 0 }]),
    ).toBeUndefined()
    expect(estimateOverloadThroughput([of(30, 1), of(30, 2)])).toEqual({
      rps: 20,
      relativeError: Math.sqrt(60) / 60,
    })
    expect(estimateOverloadThroughput([of(25, 1, 4)])!.relativeError).toBeCloseTo(0.4, 12)
  })
})

test('a window with too many failures is violated, however fast its answers', () => {
  const load: Load = {
    kind: 'open',
    rateRps: 10,
    durationS: 10,
    seed: 1,
    arrivals: { kind: 'poisson' },
  }
  const after = (failed: number) =>
    summariseWindow(
      runOf(
        load,
        Array.from({ length: 100 }, (_, i) => (i < failed ? Number.NaN : 5)),
      ),
      slo,
      0,
    )
  expect(after(0).violationShare).toBe(0)
  expect(after(6).violationShare).toBe(1)
})

describe('the capacity', () => {
  const window = (rateRps: number, violationShare: number, nEff = 50): ObservedWindow => ({
    rateRps,
    seconds: 8,
    nEff,
    violationShare,
  })

  test('of windows shorter than the queue is close to the throughput', async () => {
    // At 24 a second the limit of two seconds is kept for ten, and nine in ten requests of this
    // window keep it.
    const windows = await Promise.all([10, 24, 40].map((rate) => seen(rate, 9)))
    expect(windows[1]!.violationShare).toBeLessThan(0.15)
    const { median, ci90 } = estimateJointCapacity(windows, slo, 1)
    // 19.46 by 60,000 arrivals a rate.
    expect(median / 19.46).toBeCloseTo(1, 1)
    expect(ci90[0]).toBeGreaterThan(17)
    expect(ci90[0]).toBeLessThan(19.46)
    expect(ci90[1]).toBeGreaterThan(19.46)
    expect(ci90[1]).toBeLessThan(20.5)
  })

  test('lies between met and violated rates, nearer to the one that was almost met', () => {
    const { median, ci90 } = estimateJointCapacity([window(10, 0), window(16, 1)], slo, 1)
    expect(ci90[0]).toBeGreaterThan(9)
    expect(ci90[1]).toBeLessThan(16.5)
    expect(estimateJointCapacity([window(10, 0.08), window(16, 1)], slo, 1).median).toBeLessThan(
      median,
    )
    expect(estimateJointCapacity([window(10, 0), window(16, 0.15)], slo, 1).median).toBeGreaterThan(
      median,
    )
  })

  test('has a wider interval with fewer requests', () => {
    const width = (nEff: number) => {
      const { ci90 } = estimateJointCapacity(
        [window(10, 0.05, nEff), window(16, 0.4, nEff)],
        slo,
        1,
      )
      return Math.log(ci90[1] / ci90[0])
    }
    expect(width(10)).toBeGreaterThan(1.3 * width(100))
  })

  test('is limited by something other than waiting where enough requests violate the SLO', () => {
    const overload = { answers: 160, seconds: 8, dispersion: 0.1 }
    const { ci90 } = estimateJointCapacity(
      [window(5, 0), window(8, 1), window(12, 1), { ...window(40, 1), overload }],
      slo,
      1,
    )
    expect(ci90[0]).toBeGreaterThan(4.5)
    expect(ci90[1]).toBeLessThan(9)
  })

  test.each([
    { ...slo, percentile: 1 },
    { ...slo, limitMs: 3_600_000 },
    { ...slo, limitMs: 1 },
  ])('is a number under any SLO: $percentile $limitMs', (strange) => {
    const overload = { answers: 160, seconds: 8, dispersion: 0.1 }
    for (const windows of [
      [window(10, 0)],
      [window(10, 0), { ...window(40, 1), overload }],
      [window(5, 1), { ...window(40, 1), overload }],
    ]) {
      const { median, ci90 } = estimateJointCapacity(windows, strange, 1)
      expect([ci90[0], median, ci90[1]].every((rps) => rps > 0 && Number.isFinite(rps))).toBe(true)
      expect(ci90[0] <= median && median <= ci90[1]).toBe(true)
    }
  })

  test('is lower for a shorter allowed wait', () => {
    const overload = { answers: 160, seconds: 8, dispersion: 0.1 }
    const at = (limitMs: number, unloadedMs: number) =>
      estimateJointCapacity(
        [window(5, 0), { ...window(40, 1), overload }],
        { ...slo, limitMs },
        unloadedMs,
      ).median
    expect(at(300, 1)).toBeLessThan(at(2000, 1))
    expect(at(2000, 1700)).toBeCloseTo(at(301, 1), 1)
  })
})

/** A linear congruential generator, as the reference has it too. */
function chance(): () => number {
  let x = 1
  return () => {
    x = Number((1103515245n * BigInt(x) + 12345n) % 2147483648n)
    return (x + 0.5) / 2147483648
  }
}

/** A run on so many places, first come first served, requests sent evenly. */
function served(rateRps: number, durationS: number, serviceMs: (u: number) => number, places = 1) {
  const load: Load = { kind: 'open', rateRps, durationS, seed: 1, arrivals: { kind: 'constant' } }
  const next = chance()
  const freeMs = new Array<number>(places).fill(0)
  const count = Math.floor(rateRps * durationS)
  const latencyMs = Array.from({ length: count }, (_, i) => {
    const sentMs = (1000 * durationS * i) / count
    const place = freeMs.indexOf(Math.min(...freeMs))
    freeMs[place] = Math.max(sentMs, freeMs[place]!) + serviceMs(next())
    return freeMs[place]! - sentMs
  })
  return runOf(load, latencyMs)
}

// An independent program (Python) that follows the formulas of joint-capacity.ts gave these.
describe('against the reference', () => {
  test.each([
    ['one place', served(10, 10, () => 200), { answers: 49, seconds: 9.8, dispersion: 0.1 }],
    [
      'four, exponential',
      served(30, 6, (u) => -200 * Math.log(u), 4),
      { answers: 89, seconds: 3.852834688, dispersion: 0.550561798 },
    ],
    [
      'two, varied',
      served(12, 8, (u) => 100 + 300 * u, 2),
      { answers: 48, seconds: 5.973562796, dispersion: 0.277777778 },
    ],
    ['two, that keep up', served(6, 8, (u) => 100 + 300 * u, 2), undefined],
    ['a little behind, which chance may do', served(13, 8, () => 100), undefined],
    [
      'a little behind, for longer',
      served(14, 12, () => 100),
      { answers: 85, seconds: 8.5, dispersion: 0.1 },
    ],
  ])('what is served while behind: %s', (_, run, expected) => {
    const { overload } = summariseWindow(run, slo, 0)
    if (expected === undefined) expect(overload).toBeUndefined()
    else
      for (const [name, value] of Object.entries(expected))
        expect(overload![name as keyof typeof expected]).toBeCloseTo(value, 8)
  })

  const w = (
    rateRps: number,
    seconds: number,
    nEff: number,
    violationShare: number,
    overload?: readonly [number, number, number],
  ): ObservedWindow => ({
    rateRps,
    seconds,
    nEff,
    violationShare,
    ...(overload && {
      overload: { answers: overload[0], seconds: overload[1], dispersion: overload[2] },
    }),
  })
  test.each([
    [
      'held and missed alone',
      [w(10, 8, 50, 0.02), w(16, 8, 40, 0.6)],
      0.9,
      2000,
      1,
      [13.5537693512, 14.0016038117, 15.561816497],
    ],
    [
      'a few of each',
      [w(3, 20, 6, 0.1), w(5, 20, 7, 0.4), w(4, 20, 5, 0.2)],
      0.9,
      500,
      100,
      [1.4727108759, 2.7525206508, 4.2925843258],
    ],
    [
      'behind once, long waits',
      [w(10, 9, 60, 0.01), w(24, 9, 30, 0.12), w(40, 9, 50, 0.9, [160, 8, 0.3])],
      0.9,
      2000,
      50,
      [17.0162990524, 19.2835199588, 20.7431008889],
    ],
    [
      'behind twice, one in a hundred',
      [
        w(12, 15, 90, 0),
        w(17, 12, 70, 0.02),
        w(30, 10, 80, 0.7, [180, 9.4, 1.2]),
        w(22, 10, 80, 0.3, [150, 8, 0.8]),
      ],
      0.99,
      1000,
      200,
      [14.04939562, 17.0599042363, 19.0615777274],
    ],
    [
      'an answer alone takes nearly all of the limit',
      [w(6, 10, 40, 0.05), w(30, 10, 40, 1, [200, 10, 0.1])],
      0.9,
      500,
      495,
      [5.2460358648, 8.8873935443, 14.4091702132],
    ],
    [
      'something else than waiting binds',
      [w(5, 8, 50, 0), w(8, 8, 50, 1), w(40, 8, 50, 1, [160, 8, 0.1])],
      0.9,
      2000,
      1,
      [5.1857752222, 6.2996052495, 7.6526699671],
    ],
    [
      'held beyond what it serves tells nothing',
      [w(15, 6, 0.5, 0), w(28, 6, 9, 0.05), w(35, 6, 0.4, 0.5, [110, 5.5, 0.5])],
      0.9,
      3000,
      400,
      [17.2173674805, 19.5491572076, 21.797623396],
    ],
  ] as const)(
    'the capacity: %s',
    (_, windows, percentile, limitMs, unloadedMs, [low, median, high]) => {
      const found = estimateJointCapacity(windows, { ...slo, percentile, limitMs }, unloadedMs)
      expect(
        [found.ci90[0], found.median, found.ci90[1]].map((rps) => Number(rps.toFixed(8))),
      ).toEqual([low, median, high].map((rps) => Number(rps.toFixed(8))))
    },
  )

  test('the first requests are left out, up to a third of the window', () => {
    const load: Load = {
      kind: 'open',
      rateRps: 30,
      durationS: 2,
      seed: 1,
      arrivals: { kind: 'constant' },
    }
    // Late for 0.4 s.
    const run = runOf(
      load,
      Array.from({ length: 60 }, (_, i) => (i < 12 ? 9000 : 5)),
    )
    expect(summariseWindow(run, slo, 0).violationShare).toBeCloseTo(12 / 60, 12)
    expect(summariseWindow(run, slo, 0.4).violationShare).toBe(0)
    expect(summariseWindow(run, slo, 0.2).violationShare).toBeCloseTo(6 / 54, 12)
    const longer = runOf(
      load,
      Array.from({ length: 60 }, (_, i) => (i < 24 ? 9000 : 5)),
    )
    expect(summariseWindow(longer, slo, 9).violationShare).toBeCloseTo(4 / 40, 12)
    const few = runOf(
      { ...load, rateRps: 14 },
      Array.from({ length: 28 }, (_, i) => (i < 5 ? 9000 : 5)),
    )
    expect(summariseWindow(few, slo, 9).violationShare).toBeCloseTo(5 / 28, 12)
  })
})
