import { describe, expect, test } from 'vitest'
import { QueueServer } from '../testing/queue-server.ts'
import { targetAt } from '../testing/servers.ts'
import { StreamingGenerator } from '../testing/streaming-generator.ts'
import type { Load, LoadGenerator, LoadRun, Slo, Target } from '../types.ts'
import { efforts } from './effort.ts'
import { measureCapacity } from './measure.ts'

const slo: Slo = { percentile: 0.9, limitMs: 150, maxErrorRate: 0.01, metric: 'ttft' }
const { signal } = new AbortController()
const answerMs = 200

/** So many answers at a time, 200 ms each; others wait for their first token. */
const serverOf = (places: number) => new QueueServer({ seed: 1, servers: places, maxBatch: 1, serviceMs: () => answerMs })
const placesOf = (places: number) => new StreamingGenerator(serverOf(places), answerMs - 1, signal)

/** Four places, whose open load is told as `changed` makes it. */
class ChangedGenerator extends StreamingGenerator {
  constructor(private readonly changed: (run: LoadRun) => LoadRun) {
    super(serverOf(4), answerMs - 1, signal)
  }

  override async play(target: Target, load: Load): Promise<LoadRun> {
    const run = await super.play(target, load)
    return load.kind === 'open' ? this.changed(run) : run
  }
}

const allRefused = (run: LoadRun): LoadRun => ({
  ...run,
  latencyMs: run.latencyMs.map(() => Number.NaN),
  stream: undefined,
  errorKinds: { 'status 503': run.latencyMs.length },
})
const sentLate =
  (lateMs: number) =>
  (run: LoadRun): LoadRun => {
    const ttft = run.latencyMs.map((ms) => ms + lateMs)
    const stream = run.stream && { ...run.stream, latenciesMs: { ...run.stream.latenciesMs, ttft } }
    return { ...run, latencyMs: ttft, latenessP99Ms: lateMs, stream }
  }

const measure = (generator: LoadGenerator, budgetS: number, seed: number, within: Slo = slo, aim: object = {}) =>
  measureCapacity({
    target: { ...targetAt('http://127.0.0.1:1'), transport: 'sse' },
    slo: within,
    signal,
    generator,
    seed,
    effort: { ...efforts.quick, budgetS },
    ...aim,
  })

describe('answers that take seconds', () => {
  // Four at a time, 200 ms each: 20 requests per second at most; nine in ten wait no longer than 150 ms up to 14.3 (40,000 arrivals).
  test.each([1, 2, 3, 4])('the rate at which first tokens begin to wait is found, and bracketed (seed %d)', async (seed) => {
    const { outcome, capacityRps, capacityCi90Rps, points, idle, saturationRps } = await measure(placesOf(4), 40, seed)
    expect(saturationRps).toBeGreaterThan(13)
    expect(saturationRps).toBeLessThan(20.5)
    const seeds = points.flatMap(({ load }) => (load.kind === 'open' ? [load.seed] : []))
    expect(seeds).toEqual(seeds.map((_, i) => seeds[0]! + i))
    expect(outcome).toBe('converged')
    expect(capacityRps).toBeGreaterThan(13)
    expect(capacityRps).toBeLessThan(20)
    expect(capacityCi90Rps[0]).toBeLessThan(14.3)
    expect(capacityCi90Rps[1]).toBeGreaterThan(14.3)
    expect(capacityCi90Rps[1]).toBeLessThan(20.5)
    expect(idle.p50Ms).toBeLessThan(points.at(-1)!.stream!.e2e.p50Ms)
  })

  test('however short the time, what a server of many places serves while it falls behind tells its capacity', async () => {
    const { outcome, capacityRps, capacityCi90Rps, points } = await measure(placesOf(400), 1, 1)
    // 2,000 a second at most: waits of 150 ms come just before.
    expect(outcome).toBe('converged')
    expect(capacityRps / 2000).toBeCloseTo(0.97, 1)
    expect(capacityCi90Rps[1]).toBeLessThan(2100)
    expect(points.filter(({ load }) => load.kind === 'open').length).toBeLessThan(9)
  })

  // 20 requests per second at most: a queue that grows in a window of one second never makes anyone wait for two.
  test.each([1, 2, 3, 4])('what a long limit hides of a queue that grows is not held (seed %d)', async (seed) => {
    const { capacityRps, capacityCi90Rps } = await measure(placesOf(4), 6, seed, { ...slo, limitMs: 2000 })
    expect(capacityRps).toBeGreaterThan(18)
    expect(capacityRps).toBeLessThan(20)
    expect(capacityCi90Rps[0]).toBeLessThan(19.5)
    expect(capacityCi90Rps[1]).toBeGreaterThan(19.5)
    expect(capacityCi90Rps[1]).toBeLessThan(21)
  })

  test('a server that answers one at a time and refuses every rate fails its requests: it did not run out of time', async () => {
    const found = await measure(new ChangedGenerator(allRefused), 40, 1)
    expect(found).toMatchObject({
      outcome: 'errors',
      capacityRps: 0,
      detail: expect.stringMatching(/requests failed \(status 503 × \d+\)/),
    })
  })

  test('misses that late sends explain are those of the generator', async () => {
    expect(await measure(new ChangedGenerator(sentLate(160)), 40, 1)).toMatchObject({ outcome: 'generator-limit' })
  })
})

/** Rates of the windows of the search. */
const ratesOf = ({ points }: Awaited<ReturnType<typeof measure>>) =>
  points.flatMap(({ load }) => (load.kind === 'open' ? [load.rateRps] : []))

describe('what is expected', () => {
  // Four places of 200 ms: 20 requests a second at most.
  test('is where the search begins; without it, two answers under way', async () => {
    expect(ratesOf(await measure(placesOf(4), 40, 1, slo, { expectedRps: 13 }))[0]).toBe(13)
    expect(ratesOf(await measure(placesOf(4), 40, 1, slo, { expectedRps: 0 }))[0]).toBeCloseTo(10, 6)
    expect(ratesOf(await measure(placesOf(4), 40, 1))[0]).toBeCloseTo(10, 6)
  })

  test('and is too little is left the faster the longer every window holds', async () => {
    const found = await measure(placesOf(400), 40, 1, slo, { expectedRps: 1 })
    expect(found).toMatchObject({
      outcome: 'budget',
      detail: expect.stringMatching(/^the SLO held at [\d.]+ req\/s( and not at [\d.]+)? when the time was up$/),
    })
    const rates = ratesOf(found)
    const strides = rates.slice(1, 7).map((rate, i) => rate / rates[i]!)
    for (const [i, stride] of [1.25, 1.25 ** 2, 1.25 ** 4, 4, 4].entries()) expect(strides[i]).toBeCloseTo(stride, 9)
  })

  test('and is too much likewise, downward', async () => {
    const rates = ratesOf(await measure(placesOf(4), 40, 1, slo, { expectedRps: 60 }))
    expect(rates.slice(0, 3).map((rate) => Number(rate.toFixed(6)))).toEqual([60, 48, Number((48 / 1.25 ** 2).toFixed(6))])
  })

  test('and would not be enough is asked for no more than a half beyond it', async () => {
    const first = async (expectedRps: number, capacityToBeatRps: number) =>
      ratesOf(await measure(placesOf(4), 40, 1, slo, { expectedRps, capacityToBeatRps }))[0]
    expect(await first(12, 15)).toBe(15)
    expect(await first(12, 30)).toBe(18)
    expect(await first(16, 15)).toBe(16)
    expect(await first(15, 15)).toBe(15)
  })
})

describe('a rate that had to be beaten', () => {
  test('is missed by two windows below it, or by one where that was expected: no more is asked', async () => {
    const unexpected = await measure(placesOf(4), 40, 1, slo, { capacityToBeatRps: 200 })
    expect(unexpected).toMatchObject({
      outcome: 'beaten',
      detail: expect.stringMatching(/misses the SLO at [\d.]+ req\/s, below the 200\.00/),
    })
    expect(unexpected.capacityCi90Rps[0]).toBe(0)
    const slow = await measure(placesOf(4), 40, 1, slo, { capacityToBeatRps: 200, expectedRps: 250 })
    const missedBy = (found: typeof slow) => found.points.filter(({ load, sloMs }) => load.kind === 'open' && sloMs > slo.limitMs).length
    expect([missedBy(unexpected), missedBy(slow)]).toEqual([2, 2])
    const foreseen = await measure(placesOf(4), 40, 1, slo, { capacityToBeatRps: 200, expectedRps: 40 })
    expect(foreseen.outcome).toBe('beaten')
    expect(ratesOf(foreseen)).toEqual([60])
  })

  test('and is within reach is searched for as ever', async () => {
    expect((await measure(placesOf(4), 40, 1, slo, { capacityToBeatRps: 10 })).outcome).toBe('converged')
  })
})

test('three windows in a row that something else spoilt end the search, with what it was; two do not', async () => {
  const disturbed = (...windows: number[]) => {
    let window = 0
    return new ChangedGenerator((run) => {
      const late = sentLate(1)(run)
      const kept = {
        ...late,
        latencyMs: late.latencyMs.map(() => 9000),
        stream: { ...late.stream!, latenciesMs: { ...late.stream!.latenciesMs, ttft: late.latencyMs.map(() => 9000) } },
      }
      return windows.includes(window++) ? { ...kept, machineWait: { server: 0.5 } } : run
    })
  }
  expect(await measure(disturbed(0, 1, 2), 40, 1)).toMatchObject({ outcome: 'disturbed', capacityRps: 0 })
  expect((await measure(disturbed(0, 1, 3, 4), 400, 1)).outcome).toBe('converged')
})

test('a server that refuses some rates and is slow at others is slow', async () => {
  let window = 0
  const both = new ChangedGenerator((run) => (window++ === 0 ? allRefused(run) : sentLate(0)(run)))
  const found = await measure(both, 40, 1, { ...slo, limitMs: 0.5 })
  expect(found.outcome).not.toBe('errors')
})

describe('a window lasts', () => {
  const first = async (budgetS: number, within: Slo) => {
    const { points } = await measure(placesOf(4), budgetS, 1, within)
    const open = points.find(({ load }) => load.kind === 'open')!
    return open.load.kind === 'open' ? open.load.durationS : 0
  }
  test('four times the longest limit, as far as ten seconds or the time for all', async () => {
    expect(await first(40, { ...slo, limitMs: 5000 })).toBe(20)
    expect(await first(40, { ...slo, limitMs: 12_000 })).toBe(40)
    expect(await first(6, { ...slo, limitMs: 5000 })).toBe(10)
    const limits = [
      { metric: 'ttft', limitMs: 1000 },
      { metric: 'e2e', limitMs: 4000 },
    ] as const
    expect(await first(40, { ...slo, limitMs: 1000, limits })).toBe(16)
  })

  test('until sixty requests came, as far as a sixth of the time; and four answers', async () => {
    // Ten requests a second are asked for first.
    expect(await first(60, { ...slo, limitMs: 150 })).toBeCloseTo(6, 6)
    expect(await first(18, { ...slo, limitMs: 150 })).toBeCloseTo(3, 6)
  })
})
