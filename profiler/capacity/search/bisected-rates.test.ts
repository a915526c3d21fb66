/**
 * Which windows the bisection of rates plays, and what it makes of them; servers with a queue are
 * in rate-bisection.test.ts.
 */
import { describe, expect, test } from 'vitest'
import { summariseRun } from '../../load/load-point.ts'
import type { Load } from '../../model/load.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Slo } from '../../model/slo.ts'
import { runOf, scriptedGenerator } from '../../testing/scripted-generator.ts'
import { targetAt } from '../../testing/servers.ts'
import { efforts } from '../effort.ts'
import type { CapacitySearchOptions } from '../search-options.ts'
import { Session } from '../session.ts'
import { bisectRate } from './rate-bisection.ts'

const slo: Slo = { percentile: 0.9, limitMs: 100, maxErrorRate: 0.01 }
const infinite = Number.POSITIVE_INFINITY
const rateOf = (load: Load): number => (load.kind === 'open' ? load.rateRps : Number.NaN)
/** All of a window's requests take so long. */
const taking = (load: Load, ms: number, more: Partial<LoadRun> = {}): LoadRun =>
  runOf(load, Array<number>(Math.max(1, Math.round(rateOf(load) * load.durationS))).fill(ms), more)

/** Answers that take half a second alone. */
async function bisected(
  answer: (load: Load, window: number) => LoadRun,
  budgetS = 1000,
  windowS = 0.5,
  stream?: LoadRun['stream'],
  options: CapacitySearchOptions = {},
) {
  const generator = scriptedGenerator(answer)
  const session = new Session(
    targetAt('http://127.0.0.1:1'),
    slo,
    generator,
    new AbortController().signal,
    () => {},
  )
  const unloaded = summariseRun(
    runOf({ kind: 'closed', connections: 1, durationS: 1 }, [500, 500, 500], {
      stream,
      sentMs: new Float64Array(3),
    }),
    slo,
  )
  const effort = { ...efforts.quick, windowS, budgetS }
  const found = await bisectRate({ session, effort, seed: 7, options }, unloaded)
  return { found, asked: generator.asked, rates: generator.asked.map(rateOf) }
}
const upTo = (capacityRps: number) => (load: Load) =>
  taking(load, rateOf(load) <= capacityRps ? 50 : 150)
const close = (found: readonly number[], wanted: readonly number[]) => {
  expect(found).toHaveLength(wanted.length)
  for (const [i, rate] of wanted.entries()) expect(found[i]! / rate).toBeCloseTo(1, 9)
}

describe('rates', () => {
  test('double until one violates the SLO, then bisect until the interval is within 6 %', async () => {
    const { found, rates } = await bisected(upTo(20))
    // 2^4.5, 2^4.25, 2^4.375.
    close(
      rates,
      [4, 8, 16, 32, 22.627417, 19.027314, 20.749433].map(
        (rate) => 2 ** (Math.round(Math.log2(rate) * 16) / 16),
      ),
    )
    expect(found).toMatchObject({ outcome: 'converged', bounds: 'both' })
    const [low, high] = found.capacityCi90Rps
    expect(found.capacityRps).toBeGreaterThan(2 ** 4.25)
    expect(found.capacityRps).toBeLessThan(2 ** 4.375)
    // About what lies between the rate that held and the one that did not, neither of which is an
    // end of the interval.
    expect(low / 2 ** 4.25).toBeCloseTo(1, 1)
    expect(high / 2 ** 4.375).toBeCloseTo(1, 1)
    expect(high - low).toBeLessThan(2 * 0.06 * found.capacityRps)
    expect(found.detail).toBeUndefined()
  })

  test('halve while none meets the SLO', async () => {
    const { found, rates } = await bisected(upTo(0.9))
    close(rates.slice(0, 4), [4, 2, 1, 0.5])
    expect(found.capacityCi90Rps[0]).toBeLessThanOrEqual(0.9)
    expect(Math.abs(found.capacityRps / 0.9 - 1)).toBeLessThan(0.06)
    expect(found.capacityCi90Rps[1] / found.capacityCi90Rps[0]).toBeLessThan(1.13)
  })

  test('start at two requests in progress, by the p90 of whole answers', async () => {
    const part = (ms: number) => new Float64Array(3).fill(ms)
    const stream = {
      latenciesMs: { ttft: part(10), tpot: part(1), e2e: part(1000) },
      tokens: part(5),
      gapsMs: part(1),
    }
    expect((await bisected(upTo(20), 1000, 0.5, stream)).rates[0]).toBe(2)
  })

  test('each have their own seed', async () => {
    const { asked } = await bisected(upTo(20))
    expect(asked.map((load) => (load.kind === 'open' ? load.seed : 0))).toEqual([
      7, 8, 9, 10, 11, 12, 13,
    ])
  })
})

describe('a window', () => {
  test('lasts four answers, or 60 requests if a sixth of the budget suffices', async () => {
    const lengths = async (budgetS: number, windowS?: number) =>
      (await bisected(upTo(20), budgetS, windowS)).asked.map(({ durationS }) =>
        Number(durationS.toFixed(4)),
      )
    expect((await lengths(1000)).slice(0, 4)).toEqual([15, 7.5, 3.75, 2])
    expect((await lengths(60)).slice(0, 4)).toEqual([10, 7.5, 3.75, 2])
    expect((await lengths(1000, 5)).slice(0, 4)).toEqual([15, 7.5, 5, 5])
    // Whatever the time, until a rate held and another, 30 % beyond it at most, did not.
    expect(await lengths(1)).toEqual([2, 2, 2, 2, 2, 2])
    expect(await lengths(0.2, 3)).toEqual([3, 3, 3, 3, 3, 3])
  })

  test('without budget left ends the search with the present bounds', async () => {
    const { found, asked } = await bisected(upTo(20), 12)
    // 2, 2, 2, 2 and 2 s, and 12 s in all.
    expect(asked.map(({ durationS }) => durationS)).toEqual([2, 2, 2, 2, 2, 2])
    expect(found).toMatchObject({
      outcome: 'budget',
      detail: 'the SLO was met at 19 req/s and violated at 22.6 req/s when the time was up',
    })
    const unbounded = (await bisected((load) => taking(load, 50), 5)).found
    // Eight windows, where no rate is missed.
    expect(unbounded).toMatchObject({
      outcome: 'budget',
      bounds: 'lower',
      detail: 'the SLO was met at 512 req/s when the time was up',
    })
    expect(unbounded.capacityCi90Rps).toEqual([512, infinite])
  })

  test('reports the throughput until the last answer', async () => {
    // At the most 32 a second for two seconds: 64, the last after 150 ms; and three a second alone.
    expect((await bisected(upTo(20))).found.saturationRps).toBeCloseTo(
      64 / ((2 * 63) / 64 + 0.15),
      9,
    )
    const failing = await bisected(
      (load) => taking(load, Number.NaN, { errorKinds: { timeout: 1 } }),
      4,
    )
    expect(failing.found.saturationRps).toBe(3)
  })
})

describe('an expected capacity', () => {
  const from = (capacityRps: number, aim: object) =>
    bisected(upTo(capacityRps), 1000, 0.5, undefined, aim)

  test('is the first rate, followed by growing steps away from it', async () => {
    close((await from(20, { expectedRps: 18 })).rates.slice(0, 3), [18, 22.5, Math.sqrt(18 * 22.5)])
    close((await from(100, { expectedRps: 18 })).rates.slice(0, 4), [
      18,
      22.5,
      22.5 * 1.25 ** 2,
      22.5 * 1.25 ** 6,
    ])
    close((await from(10, { expectedRps: 18 })).rates.slice(0, 4), [
      18,
      14.4,
      14.4 / 1.25 ** 2,
      Math.sqrt(14.4 * (14.4 / 1.25 ** 2)),
    ])
  })

  test('below the capacity to beat, one violation prunes the trial', async () => {
    const { found, rates } = await from(10, { expectedRps: 12, capacityToBeatRps: 15 })
    expect(rates).toEqual([15])
    expect(found).toMatchObject({
      outcome: 'pruned',
      bounds: 'upper',
      detail: 'stopped early: violates the SLO at 15 req/s, and 15 req/s is needed to win',
    })
    expect(found.capacityCi90Rps[1]).toBe(15)
    // Not a rate far beyond what is expected: an overload teaches nothing.
    expect((await from(10, { expectedRps: 8, capacityToBeatRps: 100 })).rates[0]).toBe(12)
  })

  test('above the capacity to beat, or absent, two violations prune the trial', async () => {
    const against = await from(10, { expectedRps: 20, capacityToBeatRps: 15 })
    close(against.rates, [20, 16, 16 / 1.25 ** 2])
    expect(against.found.outcome).toBe('pruned')
    const without = await from(10, { capacityToBeatRps: 14 })
    close(without.rates, [4, 8, 16, Math.sqrt(128)])
    expect(without.found.outcome).toBe('pruned')
    expect((await from(20, { expectedRps: 12, capacityToBeatRps: 15 })).found).toMatchObject({
      outcome: 'converged',
      bounds: 'both',
    })
  })

  test('is absent: rates with latencies far below the limit are quadrupled', async () => {
    const { rates } = await bisected((load) =>
      taking(load, rateOf(load) <= 10 ? 20 : rateOf(load) <= 40 ? 60 : 150),
    )
    close(rates.slice(0, 4), [4, 16, 32, 64])
  })
})

test('a violation in a disturbed window is repeated, at most three times in a row', async () => {
  const disturbed = (load: Load, ms: number) => taking(load, ms, { machineWait: { server: 0.4 } })
  const { found, rates } = await bisected((load) =>
    rateOf(load) > 10 ? disturbed(load, 150) : taking(load, 50),
  )
  expect(rates).toEqual([4, 8, 16, 16, 16])
  expect(found.outcome).toBe('host-interference')
})

describe('a generator at its limit', () => {
  const late = (load: Load, ms: number, latenessP99Ms: number) =>
    taking(load, ms, { latenessP99Ms })

  test('repeats a violation that late sends explain, at most three times in a row', async () => {
    const { found, rates } = await bisected((load) =>
      rateOf(load) > 10 ? late(load, 150, 50) : taking(load, 50),
    )
    expect(rates).toEqual([4, 8, 16, 16, 16])
    expect(found).toMatchObject({
      outcome: 'generator-limit',
      capacityRps: 8,
      bounds: 'lower',
    })
    const once = await bisected((load, window) =>
      window === 1 || window === 3 || window === 5 ? late(load, 150, 60) : upTo(20)(load),
    )
    expect(once.rates.slice(0, 7)).toEqual([4, 8, 8, 16, 16, 32, 32])
    expect(once.found.outcome).toBe('converged')
  })

  test('explains no other violation, and an SLO met in spite of late sends is met', async () => {
    expect(
      (await bisected((load) => late(load, rateOf(load) <= 20 ? 90 : 150, 49.9))).found,
    ).toMatchObject({ outcome: 'converged' })
    // Late, but not so late that the window is marked.
    expect(
      (await bisected((load) => late(load, rateOf(load) <= 20 ? 90 : 103, 4))).found,
    ).toMatchObject({ outcome: 'converged' })
  })
})

test('a dead server ends the search', async () => {
  const { found } = await bisected((load, window) =>
    window === 0 ? taking(load, 50) : taking(load, Number.NaN, { errorKinds: { refused: 60 } }),
  )
  expect(found).toMatchObject({
    outcome: 'server-died',
    detail: expect.stringMatching(/nothing listens any more: 60 of 60 requests failed/),
  })
})
