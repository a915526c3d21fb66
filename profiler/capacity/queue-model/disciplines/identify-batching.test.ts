import { describe, expect, test } from 'vitest'
import { VirtualLoadGenerator } from '../../../load/virtual-generator.ts'
import type { Load } from '../../../model/load.ts'
import type { LoadRun } from '../../../model/load-run.ts'
import type { Slo } from '../../../model/slo.ts'
import type { VirtualServer } from '../../../model/virtual-server.ts'
import { gamma, seeded } from '../../../seeded-random.ts'
import { QueueServer, type QueueServerOptions } from '../../../testing/queue-server.ts'
import { virtualCases } from '../../../testing/virtual-servers.ts'
import type { RunWithInterference } from '../../host-interference.ts'
import { measureCapacity } from '../../measure.ts'
import { type Batching, evaluateLine, fitLine, simulateBatches } from '../batching.ts'
import { buildQueueModel, computeSaturation } from '../queue-model.ts'
import { identifyBatching } from './identify-batching.ts'

const { signal } = new AbortController()
const play = (server: VirtualServer, load: Load): Promise<LoadRun> =>
  new VirtualLoadGenerator().play({ kind: 'virtual', server }, load, signal)
const open = (rateRps: number, durationS: number, seed = 3): Load => ({
  kind: 'open',
  rateRps,
  durationS,
  arrivals: { kind: 'poisson' },
  seed,
})

async function seenOf(
  server: VirtualServer,
  rateRps: number,
  coalescingMs: number,
  unloadedMs: number,
) {
  const windows: RunWithInterference[] = []
  for (const share of [0.6, 0.9, 1])
    windows.push({ run: await play(server, open(share * rateRps, 1, 10 * share)), disturbed: [] })
  const loops = [await play(server, { kind: 'closed', connections: 40, durationS: 0.4 })]
  return identifyBatching(windows, loops, 0, coalescingMs, unloadedMs)
}

describe('how a server puts batches together shows in who left together', () => {
  test.each<[number, number, number, QueueServerOptions['waitsSince'], number]>([
    [1, 8, 0, 'arrival', 300],
    [1, 8, 20, 'arrival', 250],
    [1, 8, 5, 'free', 250],
    [1, 16, 50, 'arrival', 350],
    [1, 16, 2, 'arrival', 400],
    [2, 8, 10, 'arrival', 500],
    [3, 4, 0, 'arrival', 450],
  ])(
    '%i at once, of %i, that wait %i ms since %s',
    async (servers, maxBatch, maxDelayMs, waitsSince, rateRps) => {
      const server = new QueueServer({
        seed: 1,
        servers,
        maxBatch,
        maxDelayMs,
        waitsSince,
        serviceMs: (n, uniform) => (10 + 1.5 * n) * (0.96 + 0.08 * uniform()),
      })
      const unloadedMs = 11.5 + maxDelayMs
      const found = (await seenOf(server, rateRps, 0.15 * unloadedMs, unloadedMs))!
      expect([found.workers, found.maxBatch]).toEqual([servers, maxBatch])
      expect(Math.abs(found.delayMs - maxDelayMs)).toBeLessThan(0.5 + 0.05 * maxDelayMs)
      if (maxDelayMs > 2) expect(found.since).toBe(waitsSince)
      // Served as long as they were, whatever they waited for: full batches from closed loops too.
      const log = [...found.windows, ...found.loops]
      expect(found.loops).toHaveLength(1)
      const errors = log.flatMap(({ tookMs, departed }) =>
        tookMs.map((ms, i) => Math.abs(ms / (10 + 1.5 * departed[i]!) - 1)),
      )
      // Two that left at once by chance are not always told apart.
      expect(errors.filter((error) => error > 0.12).length).toBeLessThanOrEqual(
        servers === 1 ? 0 : 0.05 * errors.length,
      )
    },
  )

  test('one that serves its requests one by one, or in several stages, is none', async () => {
    const single = new QueueServer({
      seed: 1,
      servers: 2,
      maxBatch: 1,
      serviceMs: (_, uniform) => 8 + 4 * uniform(),
    })
    expect(await seenOf(single, 180, 1.5, 10)).toBeUndefined()
    const staged = virtualCases.find(({ name }) => name === 'CPU, then GPU batch 32')!
    expect(await seenOf(staged.server(1), 2200, 1, 6.5)).toBeUndefined()
  })
})

test('closed loops are of the same server where they are slower by no more than it is from one time to another', async () => {
  const server = (slower: number, unsteady: number) =>
    new QueueServer({
      seed: 1,
      servers: 2,
      maxBatch: 4,
      maxDelayMs: 2,
      serviceMs: (n, uniform, atMs) =>
        slower *
        (1 + unsteady * Math.sin(Math.floor(atMs / 300))) *
        (2 + 6 * n) *
        (0.96 + 0.08 * uniform()),
    })
  const beside = async (slower: number, unsteady: number) => {
    const served = server(1, unsteady)
    const windows: RunWithInterference[] = []
    for (const rateRps of [120, 190, 210])
      windows.push({ run: await play(served, open(rateRps, 1.5, rateRps)), disturbed: [] })
    const loop = await play(server(slower, unsteady), {
      kind: 'closed',
      connections: 14,
      durationS: 0.5,
    })
    return identifyBatching(windows, [loop], 0, 1.5, 10)
  }
  const same = { workers: 2, maxBatch: 4, loops: [{}] }
  expect(await beside(1, 0)).toMatchObject(same)
  expect(await beside(1.12, 0)).toBeUndefined()
  expect(await beside(1.12, 0.15)).toMatchObject(same)
  expect(await beside(2, 0.15)).toBeUndefined()
})

test('what few batches of open load contradict is no way, where more leave at once in closed loops than it has', async () => {
  const of = (seed: number) =>
    new QueueServer({
      seed,
      servers: 2,
      maxBatch: 16,
      maxDelayMs: 2,
      serviceMs: (n, uniform) => (2 + 6 * n) * (0.96 + 0.08 * uniform()),
    })
  const found = []
  for (let seed = 1; seed <= 12; seed++) {
    const server = of(seed)
    const loops = [await play(server, { kind: 'closed', connections: 8, durationS: 0.4 })]
    const windows = [{ run: await play(server, open(115, 1, seed)), disturbed: [] }]
    found.push(identifyBatching(windows, loops, 8, 1.5, 10))
  }
  // Two at once of four each leave as eight do.
  expect(
    found.map((way) => (way ? way.workers * way.maxBatch : 8)).every((maxBatch) => maxBatch >= 8),
  ).toBe(true)
  expect(found.filter((way) => way?.workers === 2).length).toBeGreaterThan(3)
})

test('windows of small batches are told beside loops of which all leave at once, more than so many workers could have', async () => {
  const server = new QueueServer({
    seed: 1,
    servers: 1,
    maxBatch: 64,
    serviceMs: (n) => 4 + 2 * Math.min(n, 3),
  })
  const windows = [{ run: await play(server, open(220, 1)), disturbed: [] }]
  const loops = [await play(server, { kind: 'closed', connections: 60, durationS: 0.4 })]
  // Of what left together in the loops nothing is known: steps of unequal sizes tell no largest
  // batch.
  expect(() => identifyBatching(windows, loops, 0, 1, 8)).not.toThrow()
  expect(identifyBatching(windows, loops, 60, 1, 8)).toMatchObject({ workers: 1, maxBatch: 60 })
})

test.each<[number, 'arrival' | 'free', number]>([
  [1, 'arrival', 0],
  [1, 'arrival', 15],
  [1, 'free', 15],
  [2, 'arrival', 6],
])(
  '%i workers, waiting since %s, %i ms: the queue model serves the very arrivals as the server does',
  async (workers, since, delayMs) => {
    const serviceMs = (n: number) => 9 + 1.1 * n
    const server = new QueueServer({
      seed: 1,
      servers: workers,
      maxBatch: 8,
      maxDelayMs: delayMs,
      waitsSince: since,
      serviceMs,
    })
    const { sentMs, latencyMs } = await play(server, open(300 * workers, 2))
    const batching: Batching = { workers, maxBatch: 8, delayMs, since, overheadMs: 0 }
    const models = new Float64Array(sentMs.length)
    simulateBatches(batching, serviceMs, 1, sentMs, models)
    for (const [i, ms] of latencyMs.entries()) expect(models[i]!).toBeCloseTo(ms, 6)
  },
)

describe('what a batch of another size takes', () => {
  const uniform = seeded(1)
  const sizes = Array.from({ length: 200 }, (_, i) => 1 + (i % 5))
  const tookMs = sizes.map((n) => (20 + 3 * n) * (0.98 + 0.04 * uniform()))
  const each = (value: number) => sizes.map(() => value)
  const log = {
    present: sizes,
    departed: sizes,
    tookMs,
    rank: each(0),
    endedMs: each(0),
    spreadMs: each(0),
  }

  test('lies on a straight line through all of them', () => {
    const line = fitLine(log)
    expect(Math.abs(evaluateLine(line, 16) / 68 - 1)).toBeLessThan(0.03)
    expect(fitLine({ ...log, tookMs: each(7) })).toEqual({
      baseMs: expect.closeTo(7, 9),
      msEach: expect.closeTo(0, 9),
    })
  })

  test('is what the queue model serves at saturation, though it saw none so large', () => {
    const batching: Batching = {
      workers: 2,
      maxBatch: 16,
      delayMs: 3,
      since: 'arrival',
      overheadMs: 0,
    }
    expect(
      Math.abs(
        computeSaturation(buildQueueModel(log, { workers: 2, batching })) / ((2 * 16_000) / 68) - 1,
      ),
    ).toBeLessThan(0.03)
  })
})

test.each<[string, Omit<QueueServerOptions, 'seed'>, number, number]>([
  // By six runs of 100,000 arrivals at each rate of a bisection.
  [
    'waits 10 ms since its oldest',
    {
      servers: 1,
      maxBatch: 8,
      maxDelayMs: 10,
      serviceMs: (n, u) => (5 + 2 * n) * (0.95 + 0.1 * u()),
    },
    60,
    320,
  ],
  [
    'waits 5 ms once free',
    {
      servers: 1,
      maxBatch: 16,
      maxDelayMs: 5,
      waitsSince: 'free',
      serviceMs: (n) => 3.2 + 0.97 * n,
    },
    57,
    785,
  ],
  [
    'two at once, waits 10 ms',
    { servers: 2, maxBatch: 32, maxDelayMs: 10, serviceMs: (n) => 6 + 0.8 * n },
    90,
    1987,
  ],
])(
  'the capacity of one that %s has what batches wait for one another',
  async (_, options, limitMs, truth) => {
    const slo: Slo = { percentile: 0.99, limitMs, maxErrorRate: 0.001 }
    const found = await Promise.all(
      [1, 2, 3, 4, 5].map((seed) =>
        measureCapacity({
          target: { kind: 'virtual', server: new QueueServer({ ...options, seed }) },
          slo,
          signal,
          seed: 1000 * seed,
          effort: 'quick',
        }),
      ),
    )
    expect(
      found.filter(({ capacityCi90Rps: [low, high] }) => low <= truth && truth <= high).length,
    ).toBeGreaterThanOrEqual(4)
    expect(
      found.map(({ capacityRps }) => Math.abs(capacityRps / truth - 1)).sort((a, b) => a - b)[2],
    ).toBeLessThan(0.015)
    expect(found.every(({ outcome }) => outcome === 'converged')).toBe(true)
  },
)

test.each<[string, Omit<QueueServerOptions, 'seed'>, number, number]>([
  // By three runs of 60,000 arrivals at each rate of a bisection.
  [
    'four batches at once that are nearly always full: three would do, but for the closed loops',
    {
      servers: 4,
      maxBatch: 16,
      maxDelayMs: 50,
      serviceMs: (n, u) => (5 + 0.5 * n) * gamma(u, 1 / 0.03 ** 2),
    },
    180,
    // It can serve 4,923: runs of less than minutes end before the queue is long.
    4912,
  ],
  [
    'three at once, no faster than they seem',
    {
      servers: 3,
      maxBatch: 16,
      maxDelayMs: 20,
      serviceMs: (n, u) => (4 + 0.4 * n) * gamma(u, 1 / 0.08 ** 2),
    },
    120,
    4644,
  ],
])('%s: the interval holds', async (_, options, limitMs, truth) => {
  const found = await Promise.all(
    [1, 2, 3, 4, 5].map((seed) =>
      measureCapacity({
        target: { kind: 'virtual', server: new QueueServer({ ...options, seed: 7 * seed }) },
        slo: { percentile: 0.99, limitMs, maxErrorRate: 0.001 },
        signal,
        seed: 5000 + seed,
        effort: 'quick',
      }),
    ),
  )
  expect(
    found.filter(({ capacityCi90Rps: [low, high] }) => low <= truth && truth <= high).length,
  ).toBeGreaterThanOrEqual(4)
  expect(
    found.map(({ capacityRps }) => Math.abs(capacityRps / truth - 1)).sort((a, b) => a - b)[2],
  ).toBeLessThan(0.02)
})

test.each([
  [1, 80.2],
  [2, 183],
])(
  'a small model on cores, whose full batch takes twice the limit, %i at once: none is far off',
  async (servers, truth) => {
    // By four runs of 300,000 arrivals at each rate of a bisection.
    const serviceMs: QueueServerOptions['serviceMs'] = (n, u) =>
      (2.2 + 6.2 * n) * gamma(u, 1 / 0.05 ** 2)
    const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
    for (let seed = 1; seed <= 8; seed++) {
      const server = new QueueServer({
        seed: 7 * seed,
        servers,
        maxBatch: 16,
        maxDelayMs: 2,
        overheadMs: 0.7,
        serviceMs,
      })
      const found = await measureCapacity({
        target: { kind: 'virtual', server },
        slo,
        signal,
        seed: 1000 * seed,
        effort: 'quick',
      })
      expect(Math.abs(found.capacityRps / truth - 1)).toBeLessThan(0.08)
    }
  },
)
