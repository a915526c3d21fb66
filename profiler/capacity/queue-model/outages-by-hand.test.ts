/** Outages of steps written by hand; those told from servers' steps are in outages.test.ts. */
import { describe, expect, test } from 'vitest'
import { createUniform } from '../../seeded-random.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { computeTypicalDurations } from '../service-log/typical-durations.ts'
import {
  type Outage,
  replayOutages,
  sampleOutageRates,
  separateOutages,
  simulateOutages,
} from './outages.ts'

/** Steps one after the other that served one each. */
const stepsOf = (
  tookMs: readonly number[],
  served: readonly number[] = tookMs.map(() => 1),
): ServiceLog => {
  let now = 0
  return {
    present: [...served],
    departed: [...served],
    tookMs: [...tookMs],
    rank: tookMs.map(() => 0),
    endedMs: tookMs.map((ms) => (now += ms)),
    spreadMs: tookMs.map(() => 0),
  }
}
/** So many steps of 10 ms, but for those. */
const tens = (
  n: number,
  others: Readonly<Record<number, number>> = {},
  each: (i: number) => number = () => 10,
) => stepsOf(Array.from({ length: n }, (_, i) => others[i] ?? each(i)))
const found = (log: ServiceLog): readonly Outage[] => separateOutages([log]).outages[0]!

describe('the usual time of a step', () => {
  test('is the median of those that served as many, neighbours along a line until there are eight', () => {
    const of = (byServed: Readonly<Record<number, readonly number[]>>) => {
      const pairs = Object.entries(byServed).flatMap(([k, times]) =>
        times.map((ms) => [Number(k), ms] as const),
      )
      return computeTypicalDurations([
        stepsOf(
          pairs.map(([, ms]) => ms),
          pairs.map(([k]) => k),
        ),
      ]).slice(1)
    }
    expect(of({ 1: [8, 1, 7, 2, 6, 3, 5, 4], 2: [20, 21, 22, 23, 24, 25, 26, 27, 28] })).toEqual([
      4, 24,
    ])
    expect(of({ 1: [1, 2, 3, 4], 2: [5, 6, 7, 8], 3: [9, 9, 9, 9, 9, 9, 9, 9] })).toEqual([2, 6, 9])
    // Too few of the largest: as the number before.
    expect(of({ 1: [1, 1, 1, 1, 1, 1, 1, 1], 3: [90, 90] })).toEqual([1, 1, 1])
    expect(of({ 2: [7, 9, 8] })).toEqual([8, 8])
  })

  test('of few steps of every size: large ones are longer, and none of them stalled', () => {
    const sizes = [1, 3, 6, 9, 12, 15, 18, 20]
    const log = stepsOf(
      sizes.map((k) => 2 + 10 * k),
      sizes,
    )
    for (const k of sizes) expect(computeTypicalDurations([log])[k]).toBeCloseTo(2 + 10 * k, 6)
    expect(found(log)).toEqual([])
  })

  test('of very many that served as many is found at once: they are in no pair with each other', () => {
    const many = 50_000
    const served = [1, 2, 3, ...Array<number>(many).fill(4)]
    const started = process.cpuUsage()
    expect(
      computeTypicalDurations([
        stepsOf(
          served.map((k) => 2 + 10 * k),
          served,
        ),
      ]).slice(1),
    ).toEqual([12, 22, 32, 42])
    // Each with each would take over ten seconds.
    expect(process.cpuUsage(started).user / 1e6).toBeLessThan(3)
  })

  test('is by whoever was there, or left', () => {
    const log = { ...stepsOf(Array<number>(16).fill(5)), present: Array<number>(16).fill(1) }
    log.departed.splice(8, 8, ...Array<number>(8).fill(3))
    log.tookMs.splice(8, 8, ...Array<number>(8).fill(9))
    expect(computeTypicalDurations([log]).slice(1)).toEqual([5, 9, 9])
  })
})

describe('a stall', () => {
  test('adds half the usual step at least', () => {
    expect(found(tens(100, { 50: 15.1 }))).toEqual([
      { atMs: 500, excessesMs: [expect.closeTo(5.1, 9)], typicalMs: [10] },
    ])
    expect(found(tens(100, { 50: 15 }))).toEqual([])
  })

  test('and eight deviations of the others from theirs, by their median one', () => {
    // A tenth more or less: 8 times 1.4826 times 0.1 are 1.186.
    const spread = (i: number) => [9, 10, 11][i % 3]!
    expect(found(tens(300, { 150: 22 }, spread))).toEqual([
      { atMs: expect.any(Number), excessesMs: [expect.closeTo(12, 9)], typicalMs: [10] },
    ])
    expect(found(tens(300, { 150: 21.8 }, spread))).toEqual([])
  })

  test('stands apart: none where as many steps lie in the upper half of the way to it', () => {
    expect(found(tens(100, { 20: 13, 50: 16 }))).toEqual([])
    expect(found(tens(100, { 20: 12.5, 50: 16 }))).toHaveLength(1)
    expect(found(tens(100, { 20: 13, 50: 16, 70: 16 }))).toHaveLength(2)
    // One just at half of it more is still below it.
    expect(found(tens(100, { 20: 15, 50: 16 }))).toEqual([])
  })

  test('is rare: three in a hundred steps at most, and slow ones in a row five on average', () => {
    expect(found(tens(100, { 10: 20, 40: 20, 70: 20 }))).toHaveLength(3)
    expect(found(tens(100, { 10: 20, 40: 20, 70: 20, 90: 20 }))).toEqual([])
    const rows = (lengths: readonly number[]) =>
      found(
        tens(
          100,
          Object.fromEntries(
            lengths.flatMap((n, r) => Array.from({ length: n }, (_, i) => [30 * r + i, 20])),
          ),
        ),
      )
    expect(rows([5, 5, 5]).map(({ excessesMs }) => excessesMs.length)).toEqual([5, 5, 5])
    expect(rows([5, 5, 6])).toEqual([])
  })

  test('is taken out of its run, which keeps the usual time there; each run has its own', () => {
    const runs = [tens(300, { 50: 30, 51: 25, 53: 40, 60: 20, 61: 16, 62: 16 }), tens(100)]
    const { typical, outages } = separateOutages(runs)
    expect(outages).toEqual([
      [
        // Two in a row are two; three and more are a time in which the server was slow.
        { atMs: 500, excessesMs: [20], typicalMs: [10] },
        { atMs: 530, excessesMs: [15], typicalMs: [10] },
        { atMs: 565, excessesMs: [30], typicalMs: [10] },
        { atMs: 665, excessesMs: [10, 6, 6], typicalMs: [10, 10, 10] },
      ],
      [],
    ])
    expect(typical.map(({ tookMs }) => tookMs.every((ms) => ms === 10))).toEqual([true, true])
    expect(typical[0]!.endedMs).toEqual(runs[0]!.endedMs)
  })
})

test('a replayed outage comes with the step that was half done when it fell, or the first one after it', () => {
  const at = (began: number) =>
    replayOutages([{ atMs: 100, excessesMs: [7], typicalMs: [10] }])(began, 10)
  expect([at(94.9), at(95), at(300)]).toEqual([0, 7, 7])
})

describe('the rate of outages', () => {
  /** A thousand steps of 10 ms in two runs, and outages of 40 ms at these. */
  const ratesOf = (stalledAt: readonly number[], draws = 16, uniform = createUniform(1)) => {
    const runs = [tens(500), tens(500)]
    const outages = runs.map((_, r) =>
      stalledAt
        .filter((at) => Math.floor(at / 500) === r)
        .map((at) => ({ atMs: 10 * (at % 500), excessesMs: [40], typicalMs: [10] })),
    )
    return sampleOutageRates(runs, outages, draws, uniform).map((rate) => rate!)
  }
  // At random, a gamma-distributed gap would say so.
  const irregular = [100, 120, 700, 720]

  test('is drawn evenly from its posterior, its variance 1.5 times that of independent ones', () => {
    const rates = ratesOf(irregular)
    // 1.5 times quantiles of Gamma(4.5 / 1.5), from 1 - exp(-x) (1 + x + x²/2).
    const counts: Readonly<Record<number, number>> = {
      0: 1.01352,
      4: 2.76635,
      8: 4.20443,
      12: 6.20505,
      15: 10.39435,
    }
    const seen = rates.flatMap(({ clock, shape, rate }, r) =>
      shape === 1 && counts[r] !== undefined
        ? [(rate * (clock === 'step' ? 1000 : 10_000 + 4 * 40)) / counts[r]]
        : [],
    )
    expect(seen.length).toBeGreaterThanOrEqual(3)
    for (const ratio of seen) expect(Math.abs(ratio - 1)).toBeLessThan(0.025)
  })

  test('goes by steps as likely as by time where all steps are alike, and mostly at random', () => {
    const rates = ratesOf(irregular, 400)
    const byStep = rates.filter(({ clock }) => clock === 'step').length / 400
    // Of time a little more has passed, that of the outages: 1 to (10,000 / 10,160)^4.
    expect(Math.abs(byStep - 1 / (1 + (10_000 / 10_160) ** 4))).toBeLessThan(0.08)
    expect(rates.filter(({ shape }) => shape === 1).length / 400).toBeGreaterThan(0.85)
    expect(new Set(rates.map(({ shape }) => shape)).size).toBeGreaterThan(1)
  })

  test('of regular ones is of one gap in so many', () => {
    const rates = ratesOf([50, 150, 250, 350, 450, 550, 650, 750, 850, 950], 400)
    expect(rates.filter(({ shape }) => shape >= 8).length / 400).toBeGreaterThan(0.8)
    // Whatever their shape, as many outages in all.
    for (const { clock, rate } of rates.slice(150, 250))
      expect((rate * (clock === 'step' ? 1000 : 10_400)) / 10).toBeLessThan(1.25)
    for (const { clock, rate } of rates.slice(150, 250))
      expect((rate * (clock === 'step' ? 1000 : 10_400)) / 10).toBeGreaterThan(0.8)
  })

  test('of one alone says nothing of how regular they are', () => {
    const rates = ratesOf([300], 2000)
    const share = (of: number) => rates.filter(({ shape }) => shape === of).length / 2000
    for (const [shape, prior] of [
      [1, 0.85],
      [2, 0.06],
      [4, 0.04],
      [8, 0.03],
      [16, 0.02],
    ] as const)
      expect(Math.abs(share(shape) - prior)).toBeLessThan(0.025)
  })

  test('has lengths drawn from those that were seen, a tenth of an error apart', () => {
    const runs = [tens(1000)]
    const outages = [
      [10, 20, 40, 80].map((ms, i) => ({
        atMs: 2000 * i + 100,
        excessesMs: [ms],
        typicalMs: [10],
      })),
    ]
    const simulateOutages = sampleOutageRates(runs, outages, 200, createUniform(2)).flatMap(
      (rate) => rate!.delays as number[],
    )
    expect(simulateOutages).toHaveLength(800)
    for (const seen of [10, 20, 40, 80]) {
      const near = simulateOutages.filter((ms) => Math.abs(Math.log(ms / seen)) < 0.3)
      expect(Math.abs(near.length / 800 - 0.25)).toBeLessThan(0.06)
      const logs = near.map((ms) => Math.log(ms / seen))
      expect(Math.sqrt(logs.reduce((sum, x) => sum + x * x, 0) / logs.length)).toBeCloseTo(0.05, 2)
    }
  })

  test('has slow times as slow and about as long as those that were seen', () => {
    const outages = [[{ atMs: 100, excessesMs: [10, 20, 10], typicalMs: [10, 20, 10] }]]
    for (const rate of sampleOutageRates([tens(1000)], outages, 8, createUniform(2))) {
      const [delay] = rate!.delays
      expect(delay).toEqual({ factor: 1, forMs: expect.any(Number) })
      expect(Math.abs(Math.log((delay as { forMs: number }).forMs / 80))).toBeLessThan(0.4)
    }
  })
})

describe('drawn stalls', () => {
  const slow = { factor: 2, forMs: 75 }
  /** Gaps as regular as can be drawn: mean ones within a tenth. */
  const played = (clock: 'step' | 'time', delay: number | typeof slow) => {
    const rate = clock === 'step' ? 0.01 : 0.001
    const outageProcess = simulateOutages(
      { clock, rate, shape: 1000, delays: [delay] },
      createUniform(3),
    )
    return Array.from({ length: 1000 }, (_, i) => outageProcess(10 * i, 10))
  }
  const rowsOf = (excesses: readonly number[]) =>
    excesses
      .map((ms) => (ms > 0 ? 'x' : ' '))
      .join('')
      .trim()
      .split(/ +/)

  test('come after so many steps, or after so much time, which goes on during an outage', () => {
    const outages = (clock: 'step' | 'time') => played(clock, 500).filter((ms) => ms > 0)
    expect(outages('step')).toEqual(outages('step').map(() => 500))
    expect(Math.abs(outages('step').length - 10)).toBeLessThanOrEqual(1)
    // After the first 100 steps, one each 50: half of the time passes in outages.
    expect(Math.abs(outages('time').length - 19)).toBeLessThanOrEqual(1)
  })

  test('of a slow time make every step longer until it is over', () => {
    for (const clock of ['step', 'time'] as const) {
      const excesses = played(clock, slow)
      expect(new Set(excesses)).toEqual(new Set([0, 20]))
      // Steps of 30 ms: the third begins within the 75.
      expect(new Set(rowsOf(excesses))).toEqual(new Set(['xxx']))
    }
  })

  test('come as regularly as their shape says', () => {
    const gapsOf = (shape: number) => {
      const outageProcess = simulateOutages(
        { clock: 'step', rate: 0.01, shape, delays: [50] },
        createUniform(4),
      )
      const at = Array.from({ length: 200_000 }, (_, i) =>
        outageProcess(i, 1) > 0 ? [i] : [],
      ).flat()
      const gaps = at.slice(1).map((to, i) => to - at[i]! - 1)
      const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length
      return {
        mean,
        cv: Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length) / mean,
      }
    }
    for (const shape of [1, 4, 16]) {
      const { mean, cv } = gapsOf(shape)
      expect(Math.abs(mean / 100 - 1)).toBeLessThan(0.06)
      expect(Math.abs(cv * Math.sqrt(shape) - 1)).toBeLessThan(0.08)
    }
  })
})
