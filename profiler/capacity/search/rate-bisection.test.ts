import { describe, expect, test } from 'vitest'
import type { Load } from '../../model/load.ts'
import type { LoadGenerator } from '../../model/load-generator.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { judgeSloByInterval, meetsSlo, type Slo } from '../../model/slo.ts'
import type { Target } from '../../model/target.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { targetAt } from '../../testing/servers.ts'
import { StreamingGenerator } from '../../testing/streaming-generator.ts'
import { efforts } from '../effort.ts'
import { measureCapacity } from '../measure.ts'

const slo: Slo = { percentile: 0.9, limitMs: 150, maxErrorRate: 0.01, metric: 'ttft' }
const { signal } = new AbortController()
const answerMs = 200

/** So many answers at a time, 200 ms each; others wait for their first token. */
const serverOf = (places: number) =>
  new QueueServer({ seed: 1, servers: places, maxBatch: 1, serviceMs: () => answerMs })
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

const measure = (generator: LoadGenerator, budgetS: number, seed: number, within: Slo = slo) =>
  measureCapacity({
    target: { ...targetAt('http://127.0.0.1:1'), transport: 'sse' },
    slo: within,
    signal,
    generator,
    seed,
    effort: { ...efforts.quick, budgetS },
  })

describe('bisection for answers that take seconds', () => {
  // Four at a time, 200 ms each: 20 requests per second at most; nine in ten wait no longer than
  // 150 ms up to 14.3 (40,000 arrivals).
  test.each([1, 2, 3, 4])(
    'the rate at which first tokens begin to wait is found, and bracketed (seed %d)',
    async (seed) => {
      const { outcome, capacityRps, capacityCi90Rps, points, unloaded, saturationRps } =
        await measure(placesOf(4), 40, seed)
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
      expect(unloaded.p50Ms).toBeLessThan(points.at(-1)!.stream!.e2e.p50Ms)
    },
  )

  test('the interval contradicts no window that met the SLO', async () => {
    const within = { ...slo, limitMs: 500 }
    for (let seed = 1; seed <= 12; seed++) {
      const server = new QueueServer({
        seed,
        servers: 1,
        maxBatch: 8,
        serviceMs: (batch) => 200 + 25 * batch,
      })
      const { capacityCi90Rps, points } = await measure(
        new StreamingGenerator(server, 100, signal),
        3,
        seed,
        within,
      )
      const rates = (held: (point: LoadPoint) => boolean) => [
        0,
        ...points.flatMap((point) =>
          point.load.kind === 'open' && held(point) ? [point.load.rateRps] : [],
        ),
      ]
      expect(capacityCi90Rps[0]).toBeLessThanOrEqual(
        Math.max(...rates((point) => meetsSlo(point, within))) + 1e-9,
      )
      // At most 20 a second are served: beyond, a window holds for its end.
      const surely = rates((point) => judgeSloByInterval(point, within) === true).filter(
        (rate) => rate < 20,
      )
      expect(capacityCi90Rps[1]).toBeGreaterThanOrEqual(Math.max(...surely) - 1e-9)
    }
  })

  test('the throughput of an overloaded server determines the capacity in a short time', async () => {
    const { outcome, capacityRps, capacityCi90Rps, points } = await measure(placesOf(400), 1, 1)
    // 2,000 a second at most: waits of 150 ms come just before.
    expect(outcome).toBe('converged')
    expect(capacityRps / 2000).toBeCloseTo(0.97, 1)
    expect(capacityCi90Rps[1]).toBeLessThan(2100)
    expect(points.filter(({ load }) => load.kind === 'open').length).toBeLessThan(9)
  })

  // 20 requests per second at most: a queue that grows in a window of one second never makes anyone
  // wait for two.
  test.each([1, 2, 3, 4])(
    'what a long limit hides of a queue that grows is not held (seed %d)',
    async (seed) => {
      const { capacityRps, capacityCi90Rps } = await measure(placesOf(4), 6, seed, {
        ...slo,
        limitMs: 2000,
      })
      expect(capacityRps).toBeGreaterThan(18)
      expect(capacityRps).toBeLessThan(20)
      expect(capacityCi90Rps[0]).toBeLessThan(19.5)
      expect(capacityCi90Rps[1]).toBeGreaterThan(19.5)
      expect(capacityCi90Rps[1]).toBeLessThan(21)
    },
  )

  test('a server that refuses every rate ends as errors, not by time', async () => {
    const found = await measure(new ChangedGenerator(allRefused), 40, 1)
    expect(found).toMatchObject({
      outcome: 'errors',
      capacityRps: 0,
      detail: expect.stringMatching(/requests failed \(status 503 × \d+\)/),
    })
  })

  test('violations that late sends explain end as generator limit', async () => {
    expect(await measure(new ChangedGenerator(sentLate(160)), 40, 1)).toMatchObject({
      outcome: 'generator-limit',
    })
  })
})

test('a server that refuses some rates and is slow at others does not end as errors', async () => {
  let window = 0
  const both = new ChangedGenerator((run) => (window++ === 0 ? allRefused(run) : sentLate(0)(run)))
  const found = await measure(both, 40, 1, { ...slo, limitMs: 0.5 })
  expect(found.outcome).not.toBe('errors')
})

describe('the length of a window', () => {
  const first = async (budgetS: number, within: Slo) => {
    const { points } = await measure(placesOf(4), budgetS, 1, within)
    const open = points.find(({ load }) => load.kind === 'open')!
    return open.load.kind === 'open' ? open.load.durationS : 0
  }
  test('is four times the longest limit, at most ten seconds or the budget', async () => {
    expect(await first(40, { ...slo, limitMs: 5000 })).toBe(20)
    expect(await first(40, { ...slo, limitMs: 12_000 })).toBe(40)
    expect(await first(6, { ...slo, limitMs: 5000 })).toBe(10)
    const limits = [
      { metric: 'ttft', limitMs: 1000 },
      { metric: 'e2e', limitMs: 4000 },
    ] as const
    expect(await first(40, { ...slo, limitMs: 1000, limits })).toBe(16)
  })
})
