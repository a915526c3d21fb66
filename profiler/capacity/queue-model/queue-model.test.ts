import { describe, expect, test } from 'vitest'
import { schedule } from '../../load/arrivals.ts'
import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import type { Load } from '../../model/load.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Target } from '../../model/target.ts'
import { createUniform, sampleGamma } from '../../seeded-random.ts'
import { QueueServer, type QueueServerOptions } from '../../testing/queue-server.ts'
import { extractServiceLog } from '../service-log/service-log.ts'
import { bootstrap, buildQueueModel, computeSaturation, simulate } from './queue-model.ts'

const { signal } = new AbortController()
const played = (
  options: Partial<QueueServerOptions> & Pick<QueueServerOptions, 'serviceMs'>,
  rateRps: number,
  durationS: number,
): Promise<LoadRun> => {
  const target: Target = {
    kind: 'virtual',
    server: new QueueServer({ seed: 1, servers: 1, maxBatch: 1, ...options }),
  }
  const load: Load = { kind: 'open', rateRps, durationS, arrivals: { kind: 'poisson' }, seed: 3 }
  return new VirtualLoadGenerator().play(target, load, signal)
}

test('the steps of a single server are its service times, busy or idle before', async () => {
  const log = extractServiceLog(await played({ serviceMs: () => 10 }, 70, 20), 1)
  expect(log.tookMs.every((ms) => Math.abs(ms - 10) < 1e-6)).toBe(true)
  expect(log.departed.every((d) => d === 1)).toBe(true)
  expect(log.rank.every((r) => r === 0)).toBe(true)
  expect(log.present).toContain(1)
  expect(Math.max(...log.present)).toBeGreaterThan(3)
})

test('the steps of a batch server know how many were there and how many left', async () => {
  const log = extractServiceLog(
    await played({ maxBatch: 4, serviceMs: (batch) => 10 + batch }, 220, 10),
    1,
  )
  expect(log.departed.every((d, i) => d === Math.min(4, log.present[i]!))).toBe(true)
  expect(log.tookMs.every((ms, i) => Math.abs(ms - 10 - log.departed[i]!) < 1e-6)).toBe(true)
})

test('a batch whose answers came in two lots, one of the sides having waited for a core, is one step', async () => {
  const run = await played({ maxBatch: 8, serviceMs: (batch) => 10 + batch }, 350, 10)
  let batch = 0
  let lastMs = Number.NaN
  const latencyMs = run.latencyMs.map((ms, i) => {
    const endMs = run.sentMs[i]! + ms
    if (endMs !== lastMs) batch = 0
    lastMs = endMs
    return ms + (batch++ < 3 ? 0 : 2.5)
  })
  const [whole, halting] = [extractServiceLog(run, 1), extractServiceLog({ ...run, latencyMs }, 1)]
  expect(halting.departed.length).toBeGreaterThan(0.97 * whole.departed.length)
  expect(halting.departed.length).toBeLessThan(1.03 * whole.departed.length)
})

test('steps that were cut short and failed requests are left out', async () => {
  const run = await played({ serviceMs: () => 10 }, 50, 4)
  const cut = {
    ...run,
    cutMs: 2000,
    latencyMs: run.latencyMs.map((ms, i) =>
      i % 10 === 0 ? Number.NaN : Math.min(ms, 2000 - run.sentMs[i]!),
    ),
  }
  expect(extractServiceLog(cut, 1).tookMs.length).toBeLessThan(
    extractServiceLog(run, 1).tookMs.length / 2,
  )
})

describe('a twin', () => {
  test('groups states alike: one group for a single server, one per batch size for a batch server', async () => {
    expect(
      buildQueueModel(
        extractServiceLog(await played({ serviceMs: (_, u) => 10 * sampleGamma(u, 4) }, 70, 30), 1),
      ).bins.length,
    ).toBeLessThanOrEqual(3)
    expect(
      buildQueueModel(
        extractServiceLog(
          await played({ maxBatch: 4, serviceMs: (batch) => 10 + 5 * batch }, 110, 30),
          1,
        ),
      ).bins,
    ).toHaveLength(4)
  })

  test('saturates where its server does', async () => {
    const model = buildQueueModel(
      extractServiceLog(
        await played({ maxBatch: 8, serviceMs: (batch) => 10 + 2 * batch }, 290, 10),
        1,
      ),
    )
    expect(computeSaturation(model)).toBeCloseTo(8000 / 26, 6)
  })

  test('shows the latencies of its server at another rate', async () => {
    const server = {
      maxBatch: 8,
      serviceMs: (batch: number, u: () => number) => (10 + 2 * batch) * sampleGamma(u, 100),
    }
    const model = buildQueueModel(extractServiceLog(await played(server, 200, 20), 1))
    const truth = (await played(server, 260, 120)).latencyMs.slice().sort()
    const arrivals = schedule({
      kind: 'open',
      rateRps: 260,
      durationS: 120,
      arrivals: { kind: 'poisson' },
      seed: 5,
    })
    const latency = new Float64Array(arrivals.length)
    simulate(model, arrivals, 1, createUniform(1), latency)
    latency.sort()
    for (const p of [0.5, 0.9, 0.99]) {
      const i = Math.floor(p * latency.length)
      expect(Math.abs(latency[i]! / truth[i]! - 1)).toBeLessThan(0.12)
    }
  })

  test('drawn anew has steps for every state, and saturates near the same rate', async () => {
    const model = buildQueueModel(
      extractServiceLog(
        await played(
          { maxBatch: 4, serviceMs: (batch, u) => (10 + 5 * batch) * sampleGamma(u, 20) },
          110,
          10,
        ),
        1,
      ),
    )
    const rates = [1, 2, 3, 4, 5]
      .map((seed) => bootstrap(model, createUniform(seed)))
      .map((one) => {
        expect(one.bins.every((bin) => bin.length > 0)).toBe(true)
        expect(
          one.bins.every((bin, b) => bin.every((i) => one.binOf[one.log.present[i]!] === b)),
        ).toBe(true)
        return computeSaturation(one) / computeSaturation(model)
      })
    expect(new Set(rates).size).toBe(5)
    expect(rates.every((ratio) => Math.abs(ratio - 1) < 0.1)).toBe(true)
  })
})

test('no step, no queue model', () => {
  expect(() =>
    buildQueueModel({ present: [], tookMs: [], departed: [], rank: [], endedMs: [], spreadMs: [] }),
  ).toThrow(RangeError)
})
