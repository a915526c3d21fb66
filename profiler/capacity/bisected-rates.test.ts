/** Which windows the bisection of rates plays, and what it makes of them; servers with a queue are in rate-bisection.test.ts. */
import { describe, expect, test } from 'vitest'
import { loadPointOf } from '../statistics/load-point.ts'
import { runOf, scriptedGenerator } from '../testing/scripted-generator.ts'
import { targetAt } from '../testing/servers.ts'
import type { Load, LoadRun, Slo } from '../types.ts'
import { efforts } from './effort.ts'
import { rateBisection } from './rate-bisection.ts'
import { Session } from './session.ts'

const slo: Slo = { percentile: 0.9, limitMs: 100, maxErrorRate: 0.01 }
const infinite = Number.POSITIVE_INFINITY
const rateOf = (load: Load): number => (load.kind === 'open' ? load.rateRps : Number.NaN)
/** All of a window's requests take so long. */
const taking = (load: Load, ms: number, more: Partial<LoadRun> = {}): LoadRun =>
  runOf(load, Array<number>(Math.max(1, Math.round(rateOf(load) * load.durationS))).fill(ms), more)

/** Answers that take half a second alone. */
async function bisected(answer: (load: Load, window: number) => LoadRun, budgetS = 1000, windowS = 0.5, stream?: LoadRun['stream']) {
  const generator = scriptedGenerator(answer)
  const session = new Session(targetAt('http://127.0.0.1:1'), slo, generator, new AbortController().signal, () => {})
  const idle = loadPointOf(
    runOf({ kind: 'closed', connections: 1, durationS: 1 }, [500, 500, 500], { stream, sentMs: new Float64Array(3) }),
    slo,
  )
  const found = await rateBisection(session, { ...efforts.quick, windowS, budgetS }, idle, 7)
  return { found, asked: generator.asked, rates: generator.asked.map(rateOf) }
}
const upTo = (capacityRps: number) => (load: Load) => taking(load, rateOf(load) <= capacityRps ? 50 : 150)
const close = (found: readonly number[], wanted: readonly number[]) => {
  expect(found).toHaveLength(wanted.length)
  for (const [i, rate] of wanted.entries()) expect(found[i]! / rate).toBeCloseTo(1, 9)
}

describe('rates', () => {
  test('are doubled until one misses, then the mean of what held and missed, until 8 % lie between', async () => {
    const { found, rates } = await bisected(upTo(20))
    // 2^4.5, 2^4.25, 2^4.375, 2^4.3125.
    close(
      rates,
      [4, 8, 16, 32, 22.627417, 19.027314, 20.749433, 19.869745].map((rate) => 2 ** (Math.round(Math.log2(rate) * 16) / 16)),
    )
    expect(found).toMatchObject({ outcome: 'converged', known: 'held', capacityRps: expect.closeTo(2 ** 4.3125, 9) })
    expect(found.capacityCi90Rps[1]).toBeCloseTo(2 ** 4.375, 9)
    expect(found.detail).toBeUndefined()
  })

  test('are halved while none held', async () => {
    const { found, rates } = await bisected(upTo(0.9))
    close(rates.slice(0, 4), [4, 2, 1, 0.5])
    expect(found.capacityCi90Rps[0]).toBeLessThanOrEqual(0.9)
    expect(found.capacityCi90Rps[1]).toBeGreaterThan(0.9)
    expect(found.capacityCi90Rps[1] / found.capacityCi90Rps[0]).toBeLessThan(1.08)
  })

  test('begin with two under way, by the ninth of ten answers, of streams whole ones', async () => {
    const part = (ms: number) => new Float64Array(3).fill(ms)
    const stream = { latenciesMs: { ttft: part(10), tpot: part(1), e2e: part(1000) }, tokens: part(5), gapsMs: part(1) }
    expect((await bisected(upTo(20), 1000, 0.5, stream)).rates[0]).toBe(2)
  })

  test('each have arrivals of their own', async () => {
    const { asked } = await bisected(upTo(20))
    expect(asked.map((load) => (load.kind === 'open' ? load.seed : 0))).toEqual([7, 8, 9, 10, 11, 12, 13, 14])
  })
})

describe('a window', () => {
  test('is four answers long, or 60 requests, for a sixth of the time at most', async () => {
    const lengths = async (budgetS: number, windowS?: number) =>
      (await bisected(upTo(20), budgetS, windowS)).asked.map(({ durationS }) => Number(durationS.toFixed(4)))
    expect((await lengths(1000)).slice(0, 4)).toEqual([15, 7.5, 3.75, 2])
    expect((await lengths(60)).slice(0, 4)).toEqual([10, 7.5, 3.75, 2])
    expect((await lengths(1000, 5)).slice(0, 4)).toEqual([15, 7.5, 5, 5])
    // The first is played whatever the time, within it.
    expect(await lengths(1)).toEqual([1])
    expect(await lengths(0.2)).toEqual([0.5])
  })

  test('for which no time is left ends the search, with what it knows', async () => {
    const { found, asked } = await bisected(upTo(20), 12)
    // 2, 2, 2, 2 and 2 s, and 12 s in all.
    expect(asked.map(({ durationS }) => durationS)).toEqual([2, 2, 2, 2, 2, 2])
    expect(found).toMatchObject({ outcome: 'budget', detail: 'the SLO held at 19.03 req/s and not at 22.63 when the time was up' })
    const unbounded = (
      await bisected(() => taking({ kind: 'open', rateRps: 1, arrivals: { kind: 'poisson' }, durationS: 2, seed: 1 }, 50), 5)
    ).found
    expect(unbounded).toMatchObject({ outcome: 'budget', known: 'bound below', detail: 'the SLO held at 8.00 req/s when the time was up' })
    expect(unbounded.capacityCi90Rps).toEqual([8, infinite])
  })

  test('tells what the server answered, its last answers included', async () => {
    // At the most 32 a second for two seconds: 64 in 2.5 s; and three a second alone.
    expect((await bisected(upTo(20))).found.saturationRps).toBeCloseTo(64 / 2.5, 9)
    const failing = await bisected((load) => taking(load, Number.NaN, { errorKinds: { timeout: 1 } }), 4)
    expect(failing.found.saturationRps).toBe(3)
  })
})

describe('a generator at its limit', () => {
  const late = (load: Load, ms: number, latenessP99Ms: number) => taking(load, ms, { latenessP99Ms })

  test('whose late sends explain a miss plays it again, three times in a row at most', async () => {
    const { found, rates } = await bisected((load) => (rateOf(load) > 10 ? late(load, 150, 50) : taking(load, 50)))
    expect(rates).toEqual([4, 8, 16, 16, 16])
    expect(found).toMatchObject({ outcome: 'generator-limit', capacityRps: 8, known: 'bound below' })
    const once = await bisected((load, window) => (window === 1 || window === 3 || window === 5 ? late(load, 150, 60) : upTo(20)(load)))
    expect(once.rates.slice(0, 7)).toEqual([4, 8, 8, 16, 16, 32, 32])
    expect(once.found.outcome).toBe('converged')
  })

  test('does not explain a miss by more, and what held in spite of it held', async () => {
    expect((await bisected((load) => late(load, rateOf(load) <= 20 ? 90 : 150, 49.9))).found).toMatchObject({ outcome: 'converged' })
    // Late, but not so late that the window is marked.
    expect((await bisected((load) => late(load, rateOf(load) <= 20 ? 90 : 103, 4))).found).toMatchObject({ outcome: 'converged' })
  })
})

test('a server that is gone ends it', async () => {
  const { found } = await bisected((load, window) =>
    window === 0 ? taking(load, 50) : taking(load, Number.NaN, { errorKinds: { refused: 60 } }),
  )
  expect(found).toMatchObject({
    outcome: 'server-died',
    detail: expect.stringMatching(/nothing listens any more: 60 of 60 requests failed/),
  })
})
