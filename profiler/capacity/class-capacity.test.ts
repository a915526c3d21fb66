/**
 * A rare class of requests that breaks first: each must keep the percentile by itself, in every
 * search, in a confirmation, and when it is derived.
 */
import { median } from 'simple-statistics'
import { describe, expect, test } from 'vitest'
import type { Slo } from '../model/slo.ts'
import { ClassedGenerator, ClassedServer } from '../testing/classed-generator.ts'
import { QueueServer } from '../testing/queue-server.ts'
import { targetAt } from '../testing/servers.ts'
import { confirmCapacity } from './confirmation/confirm.ts'
import { efforts } from './effort.ts'
import { measureCapacity } from './measure.ts'
import { deriveCapacity } from './rederive/capacity-under-slo.ts'
import { judgeWindow } from './rederive/window-under-slo.ts'
import { measureSimulatedCapacity } from './simulated/simulated-capacity.ts'

/**
 * Four at a time, 200 ms each; one request in twenty is rare, and all are served alike. Nine in ten
 * wait no longer than 150 ms up to 14.6 a second, and no longer than 20 ms up to 9.2 (80,000
 * arrivals).
 */
const answerMs = 200
const serverOf = () =>
  new QueueServer({ seed: 1, servers: 4, maxBatch: 1, serviceMs: () => answerMs })
const { signal } = new AbortController()
const target = { ...targetAt('http://127.0.0.1:1'), transport: 'sse' } as const
const generatorOf = () => new ClassedGenerator(serverOf(), answerMs - 1, signal)
const classes = ['usual', 'rare']

const all: Slo = { percentile: 0.9, limitMs: 150, maxErrorRate: 0.01, metric: 'ttft' }
const ofRare = (limitMs: number): Slo => ({
  percentile: 0.9,
  limitMs: 150,
  maxErrorRate: 0.01,
  limits: [
    { metric: 'ttft', limitMs: 150 },
    { metric: 'ttft', limitMs, requestClass: 'rare' },
  ],
  classes,
})
const measured = (slo: Slo, seed = 1, budgetS = 60) =>
  measureCapacity({
    target,
    slo,
    signal,
    generator: generatorOf(),
    seed,
    effort: { ...efforts.quick, budgetS },
  })

describe('the capacity with request classes', () => {
  test('is the rate at which the rare class violates its limit', async () => {
    const rates: number[] = []
    for (const seed of [1, 2, 3, 4, 5, 6, 7]) {
      const { capacityRps, capacityCi90Rps } = await measured(ofRare(20), seed)
      rates.push(capacityRps)
      expect([seed, capacityCi90Rps[0] < 9.2 && capacityCi90Rps[1] > 9.2]).toEqual([seed, true])
    }
    expect(median(rates) / 9.2).toBeGreaterThan(0.85)
    expect(median(rates) / 9.2).toBeLessThan(1.15)
  })

  test('is the same for classes without own limits', async () => {
    const { capacityRps } = await measured({ ...all, classes })
    expect(capacityRps).toBeGreaterThan(12)
    expect(capacityRps).toBeLessThan(18)
  })
})

test('in virtual time agrees with long windows', async () => {
  const virtual = (slo: Slo) => {
    const server = new ClassedServer(
      new QueueServer({ seed: 1, servers: 4, maxBatch: 1, serviceMs: () => answerMs }),
    )
    return measureSimulatedCapacity({ target: { kind: 'virtual', server }, slo, seed: 1, signal })
  }
  const within = (limitMs: number) => ({
    ...ofRare(limitMs),
    limitMs: 350,
    limits: ofRare(limitMs).limits!.map((l) => ({ ...l, limitMs: l.limitMs + 200 })),
  })
  const { capacityRps } = await virtual(within(20))
  expect(capacityRps / 9.2).toBeGreaterThan(0.92)
  expect(capacityRps / 9.2).toBeLessThan(1.08)
  // As one SLO of all requests the rare ones would not be missed.
  const together = await virtual({ ...all, limitMs: 350 })
  expect(together.capacityRps / 14.6).toBeGreaterThan(0.95)
})

describe('a confirmation', () => {
  const confirmed = (rateRps: number, seconds: number) =>
    confirmCapacity({ target, slo: ofRare(20), signal, generator: generatorOf(), rateRps, seconds })

  test('refutes a rate at which only the rare class violates its limit', async () => {
    const { met, capacityRps } = await confirmed(13, 200)
    expect(met).toBe(false)
    expect(capacityRps).toBeGreaterThan(5)
    expect(capacityRps).toBeLessThan(10)
  })

  test('is proven once the rare class has enough requests', async () => {
    const few = await confirmed(6, 20)
    expect(few).toMatchObject({ met: true, proven: false })
    expect(few.nEff).toBeLessThan(20)
    expect(few.caveats.join()).toContain('of the class with the fewest do not prove p90')
    expect(await confirmed(6, 300)).toMatchObject({ met: true, proven: true })
  })
})

describe('under another SLO', () => {
  test('the capacity uses the latencies of each class', async () => {
    const measurement = await measured({ ...all, classes }, 1, 300)
    const [tight, loose] = [20, 5000].map((limitMs) => deriveCapacity(measurement, ofRare(limitMs)))
    expect([tight!.derived, loose!.derived]).toEqual([true, true])
    expect(tight!.capacityRps).toBeGreaterThan(7)
    expect(tight!.capacityRps).toBeLessThan(12)
    expect(loose!.capacityRps).toBeGreaterThan(12)
  })

  test('a window that only the rare class violates is violated', async () => {
    const { points } = await measured(ofRare(20))
    const open = points.filter(({ load }) => load.kind === 'open')
    for (const point of open) expect(judgeWindow(point, ofRare(20))).toBe(point.sloMs <= 150)
    const missed = open.filter((point) => point.sloMs > 150)
    expect(missed.length).toBeGreaterThan(0)
    expect(missed.some((point) => judgeWindow(point, all) === true)).toBe(true)
  })
})
