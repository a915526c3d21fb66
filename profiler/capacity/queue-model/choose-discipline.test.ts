import { describe, expect, test } from 'vitest'
import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import type { DeclaredDiscipline } from '../../model/declared-discipline.ts'
import type { Load } from '../../model/load.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { VirtualServer } from '../../model/virtual-server.ts'
import { sampleGamma, sampleNormal, type Uniform } from '../../seeded-random.ts'
import { DisciplineServer } from '../../testing/discipline-server.ts'
import { QueueServer, type QueueServerOptions } from '../../testing/queue-server.ts'
import { SharingServer } from '../../testing/sharing-server.ts'
import { computeCoalescingMs, extractServiceLog } from '../service-log/service-log.ts'
import { chooseDiscipline } from './choose-discipline.ts'

const { signal } = new AbortController()
const play = (server: VirtualServer, load: Load): Promise<LoadRun> =>
  new VirtualLoadGenerator().play({ kind: 'virtual', server }, load, signal)
const queue = (
  servers: number,
  serviceMs: QueueServerOptions['serviceMs'],
  rest: Partial<QueueServerOptions> = {},
) => new QueueServer({ seed: 5, servers, maxBatch: 1, ...rest, serviceMs })

/** Chooses by one window of three seconds, after one request and sixty at a time. */
async function choose(server: VirtualServer, rateRps: number, declared?: DeclaredDiscipline) {
  const closed = { kind: 'closed', durationS: 1 } as const
  const alone = await play(server, { ...closed, connections: 1 })
  const loops = [alone, await play(server, { ...closed, connections: 60 })]
  const load = { kind: 'open', rateRps, durationS: 3, seed: 3 } as const
  const run = await play(server, { ...load, arrivals: { kind: 'poisson' } })
  const unloadedMs = alone.latencyMs.toSorted()[alone.latencyMs.length >> 1]!
  const coalescingMs = computeCoalescingMs(unloadedMs)
  const log = extractServiceLog(run, coalescingMs)
  const windows = [{ run, disturbed: [], log }]
  return chooseDiscipline({ windows, loops, areLoopsDisturbed: false, declared, unloadedMs })
}

const twoTypes = (_: number, uniform: Uniform) => (uniform() < 0.05 ? 40 : 4)

describe('without a declaration', () => {
  test.each<[string, number, number, QueueServerOptions['serviceMs']]>([
    ['constant', 1, 90, () => 8],
    ['constant', 2, 130, () => 12],
    ['of two types', 2, 230, twoTypes],
    ['exponential', 4, 340, (_, uniform) => -10 * Math.log(uniform())],
    ['lognormal', 1, 65, (_, uniform) => 8 * Math.exp(0.8 * sampleNormal(uniform))],
    ['gamma', 3, 250, (_, uniform) => 9 * sampleGamma(uniform, 4)],
    ['constant, fast', 6, 4600, () => 1.2],
  ])('services %s: %i workers are identified', async (_, workers, rateRps, serviceMs) => {
    const { discipline, isMisfit } = await choose(queue(workers, serviceMs), rateRps)
    expect(discipline).toMatchObject({ workers, maxBatch: 1 })
    expect(isMisfit).toBe(false)
  })

  test.each<[string, number, number, QueueServerOptions['serviceMs'], number]>([
    ['constant', 1, 90, () => 8, 1.2],
    ['constant', 2, 130, () => 12, 2],
    ['gamma', 2, 180, (_, uniform) => 10 * sampleGamma(uniform, 25), 2],
  ])(
    'services %s: %i workers, and the network overhead',
    async (_, workers, rateRps, serviceMs, overheadMs) => {
      const { discipline } = await choose(queue(workers, serviceMs, { overheadMs }), rateRps)
      expect(discipline?.workers).toBe(workers)
      expect(discipline?.overheadMs).toBeGreaterThan(0.5 * overheadMs)
      expect(discipline?.overheadMs).toBeLessThan(1.5 * overheadMs)
    },
  )

  test('too few workers with a large overhead are not mistaken for the right number', async () => {
    const { discipline } = await choose(
      queue(4, (_, uniform) => 10 * sampleGamma(uniform, 25)),
      380,
    )
    expect(discipline).toMatchObject({ workers: 4, overheadMs: 0 })
  })

  test('one worker with batches is identified, with the loops that it explains', async () => {
    const server = queue(1, (batch) => 5 + 0.5 * batch, { maxBatch: 16 })
    const { discipline, isMisfit } = await choose(server, 1100)
    expect(discipline).toMatchObject({ workers: 1, maxBatch: 16, maxDelayMs: 0 })
    expect(discipline?.loops).toHaveLength(2)
    expect(isMisfit).toBe(false)
  })

  test.each([
    ['arrival', 'arrival', 1, 420],
    ['free', 'free worker', 1, 420],
    ['free', 'free worker', 2, 800],
  ] as const)(
    'batches that wait since %s are identified, with their delay from %s: %i workers',
    async (waitsSince, delayFrom, workers, rateRps) => {
      const server = queue(workers, (batch) => 6 + batch, {
        maxBatch: 8,
        maxDelayMs: 10,
        waitsSince,
      })
      const { discipline, isMisfit } = await choose(server, rateRps)
      expect(discipline).toMatchObject({ workers, maxBatch: 8, delayFrom })
      expect(discipline?.maxDelayMs).toBeGreaterThan(9)
      expect(discipline?.maxDelayMs).toBeLessThan(11)
      expect(isMisfit).toBe(false)
    },
  )

  test('the steps of a single server describe it, whatever its order', async () => {
    const lastFirst = new DisciplineServer({
      seed: 5,
      servers: 1,
      workMs: (uniform) => 10 * sampleGamma(uniform, 25),
      takes: (waiting) => waiting.length - 1,
    })
    expect(await choose(lastFirst, 85)).toEqual({ discipline: undefined, isMisfit: false })
  })

  test('shared cores are no known discipline', async () => {
    const server = new SharingServer({ seed: 5, cores: 2, workMs: (u) => 15 * sampleGamma(u, 4) })
    expect(await choose(server, 110)).toEqual({ discipline: undefined, isMisfit: true })
  })
})

describe('a declaration', () => {
  const serviceMs = (batch: number, uniform: Uniform) => (10 + batch) * sampleGamma(uniform, 400)

  test.each([
    [1, 1, 0, 70],
    [3, 1, 0, 230],
    [1, 8, 0, 350],
    [1, 8, 10, 300],
    [2, 8, 5, 600],
  ])(
    'of %i workers, batches of %i and %d ms fits their server',
    async (workers, maxBatch, maxDelayMs, rateRps) => {
      const server = queue(workers, serviceMs, { maxBatch, maxDelayMs })
      const declared = { workers, maxBatch, maxDelayMs }
      const { discipline, isMisfit } = await choose(server, rateRps, declared)
      expect(discipline).toMatchObject(declared)
      expect(isMisfit).toBe(false)
    },
  )

  test.each([
    ['too few workers', { workers: 1, maxBatch: 1, maxDelayMs: 0 }],
    ['too many workers', { workers: 6, maxBatch: 1, maxDelayMs: 0 }],
    ['batches', { workers: 1, maxBatch: 8, maxDelayMs: 20 }],
  ])('of %s does not fit three workers: no discipline is assumed', async (_, declared) => {
    expect(await choose(queue(3, serviceMs), 230, declared)).toEqual({
      discipline: undefined,
      isMisfit: false,
    })
  })

  test('that too few requests could contradict is believed', async () => {
    const declared = { workers: 2, maxBatch: 1, maxDelayMs: 0 }
    expect(await choose(queue(1, serviceMs), 6, declared)).toMatchObject({ discipline: declared })
  })
})
