import { describe, expect, test } from 'vitest'
import { createUniform, sampleGamma, sampleNormal, type Uniform } from '../../seeded-random.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { replayOutages, sampleOutageRates, separateOutages, simulateOutages } from './outages.ts'

/** Steps one after the other: requests served, and how long it took. */
const stepsOf = (served: readonly number[], tookMs: readonly number[]): ServiceLog => {
  let now = 0
  const endedMs = tookMs.map((ms) => (now += ms))
  return {
    present: [...served],
    departed: [...served],
    tookMs: [...tookMs],
    rank: served.map(() => 0),
    endedMs,
    spreadMs: served.map(() => 0),
  }
}
const draw = (n: number, of: () => number) => Array.from({ length: n }, of)
/** Batches of 1 to 10 that take 5 + n ms, each beyond its usual time by `extra`. */
const batches = (
  uniform: Uniform,
  n: number,
  extra: (i: number, typicalMs: number) => number,
): ServiceLog => {
  const served = draw(n, () => 1 + Math.floor(10 * uniform()))
  const took = served.map((k, i) => {
    const typicalMs = (5 + k) * sampleGamma(uniform, 600)
    return typicalMs + extra(i, typicalMs)
  })
  return stepsOf(served, took)
}

describe('outages are told from steps', () => {
  test('where and how long they were, whatever the batch', () => {
    const uniform = createUniform(5)
    const runs = [
      batches(uniform, 400, (i) => (i % 100 === 50 ? 40 : 0)),
      batches(uniform, 200, () => 0),
    ]
    const { typical, outages } = separateOutages(runs)
    expect(outages.map((of) => of.length)).toEqual([4, 0])
    for (const { atMs, excessesMs } of outages[0]!) {
      expect(excessesMs).toHaveLength(1)
      const excessMs = excessesMs[0]!
      const i = runs[0]!.endedMs.findIndex((ended) => ended > atMs + 1e-6)
      expect(i % 100).toBe(50)
      expect(Math.abs(excessMs - 40)).toBeLessThan(3)
      expect(typical[0]!.tookMs[i]! + excessMs).toBeCloseTo(runs[0]!.tookMs[i]!, 9)
    }
    expect(Math.max(...typical.flatMap((run) => run.tookMs))).toBeLessThan(20)
  })

  test('a slow time is one, however many steps it takes', () => {
    const { outages } = separateOutages([
      batches(createUniform(5), 1000, (i, typicalMs) => (i % 200 >= 190 ? typicalMs : 0)),
    ])
    expect(outages[0]!.map((of) => of.excessesMs.length)).toEqual([10, 10, 10, 10, 10])
  })

  test.each<[string, (uniform: Uniform) => number]>([
    ['a long tail', (uniform) => 8 * Math.exp(0.8 * sampleNormal(uniform))],
    ['gaps between departures of several workers', (uniform) => -8 * Math.log(uniform())],
    ['one in ten slow', (uniform) => (uniform() < 0.1 ? 58 : 8)],
    ['hardly any spread', (uniform) => 10 * sampleGamma(uniform, 1000)],
  ])('%s is service, and none', (_, serviceMs) => {
    const uniform = createUniform(5)
    const run = stepsOf(
      draw(800, () => 1),
      draw(800, () => serviceMs(uniform)),
    )
    const { typical, outages } = separateOutages([run])
    expect(outages).toEqual([[]])
    expect(typical).toEqual([run])
  })
})

test('replayed outages come once each, on the step that they fell on', () => {
  const outageProcess = replayOutages([
    { atMs: 20, excessesMs: [7, 5], typicalMs: [10, 10] },
    { atMs: 21, excessesMs: [8], typicalMs: [10] },
  ])
  expect([
    outageProcess(0, 10),
    outageProcess(10, 10),
    outageProcess(20, 10),
    outageProcess(37, 10),
    outageProcess(52, 10),
    outageProcess(70, 10),
  ]).toEqual([0, 0, 7, 5, 8, 0])
})

describe('the rate of outages', () => {
  const clocksOf = (runs: readonly ServiceLog[]) => {
    const { typical, outages } = separateOutages(runs)
    return { rates: sampleOutageRates(typical, outages, 16, createUniform(1)), outages }
  }

  test('is none without an outage, and spreads about what was seen', () => {
    const uniform = createUniform(5)
    expect(clocksOf([batches(uniform, 300, () => 0)]).rates).toEqual(
      draw(16, () => 0).map(() => undefined),
    )
    const run = batches(uniform, 2000, () => (uniform() < 0.01 ? 40 : 0))
    const { rates, outages } = clocksOf([run])
    const seen = outages.flat().length
    // Whichever clock a draw goes by: how many outages it expects of the same steps.
    const expected = rates.map(
      (rate) => rate!.rate * (rate!.clock === 'step' ? 2000 : run.endedMs.at(-1)!),
    )
    expect(Math.min(...expected) / seen).toBeLessThan(0.9)
    expect(Math.max(...expected) / seen).toBeGreaterThan(1.1)
    expect(Math.max(...expected) / seen).toBeLessThan(2)
  })

  test('goes by time where long steps meet more of them', () => {
    const uniform = createUniform(5)
    let nextMs = 0
    const byTime = (_: number, typicalMs: number, now: number) => {
      if (now + typicalMs < nextMs) return 0
      nextMs = now + typicalMs - 2500 * Math.log(uniform())
      return 60
    }
    const slowAndFast = [1, 10].map((k) => {
      nextMs = 0
      let now = 0
      const took = draw(2500, () => {
        const typical = (5 + 3 * k) * sampleGamma(uniform, 600)
        const ms = typical + byTime(0, typical, now)
        now += ms
        return ms
      })
      return stepsOf(
        draw(2500, () => k),
        took,
      )
    })
    expect(clocksOf(slowAndFast).rates.every((rate) => rate?.clock === 'time')).toBe(true)
  })

  test('knows regular outages from random ones', () => {
    const regular = clocksOf([batches(createUniform(5), 2000, (i) => (i % 150 === 75 ? 60 : 0))])
    expect(regular.rates.every((rate) => rate!.shape >= 4)).toBe(true)
  })
})

test('drawn outages come as often as their rate says, by step or by time', () => {
  const count = (clock: 'step' | 'time', rate: number, shape: number) => {
    const outageProcess = simulateOutages({ clock, rate, shape, delays: [50] }, createUniform(2))
    return draw(20_000, () => outageProcess(0, 10)).filter((ms) => ms > 0).length
  }
  expect(Math.abs(count('step', 0.01, 1) - 200)).toBeLessThan(45)
  expect(Math.abs(count('step', 0.01, 8) - 200)).toBeLessThan(20)
  // 200 s of steps, and an outage every 1 s of time, that of the outages included.
  expect(Math.abs(count('time', 0.001, 1) - 210)).toBeLessThan(45)
  expect(simulateOutages(undefined, createUniform(1))(0, 10)).toBe(0)
})

test('an outage is an offset of a run that it is in', () => {
  const uniform = createUniform(5)
  const { outages } = separateOutages([
    batches(uniform, 300, () => 0),
    batches(uniform, 300, (i) => (i === 20 ? 90 : 0)),
  ])
  expect(outages.map((of) => of.length)).toEqual([0, 1])
})
