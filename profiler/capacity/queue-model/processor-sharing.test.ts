import { describe, expect, test } from 'vitest'
import { schedule } from '../../load/arrivals.ts'
import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import type { Load } from '../../model/load.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { VirtualServer } from '../../model/virtual-server.ts'
import { gamma, seeded, type Uniform } from '../../seeded-random.ts'
import { SharingServer } from '../../testing/sharing-server.ts'
import { identifyWorkers } from './disciplines/workers.ts'
import { extractWork, simulateSharing } from './processor-sharing.ts'
import { buildQueueModel, simulate } from './queue-model.ts'

const { signal } = new AbortController()
const play = (server: VirtualServer, load: Load): Promise<LoadRun> =>
  new VirtualLoadGenerator().play({ kind: 'virtual', server }, load, signal)
const sharing = (cores: number, workMs: (uniform: Uniform) => number, seed = 1) =>
  new SharingServer({ seed, cores, workMs })
const open = (rateRps: number, durationS = 3): Load => ({
  kind: 'open',
  rateRps,
  durationS,
  arrivals: { kind: 'poisson' },
  seed: 3,
})
const loop = (connections: number, durationS = 1): Load => ({
  kind: 'closed',
  connections,
  durationS,
})

test('two requests on one core: what each was given', () => {
  // The first has the core for 10 ms, both share it for 20, the second has it for 5.
  const run = { sentMs: Float64Array.of(0, 10), latencyMs: Float64Array.of(30, 25) } as LoadRun
  const { log, found } = extractWork(run, 1)
  expect(log.tookMs).toEqual([20, 15])
  expect(found).toEqual([0, 1])
  expect(extractWork(run, 2).log.tookMs).toEqual([30, 25])
  const latencyMs = new Float64Array(2)
  const works = [20, 15]
  simulateSharing(1, Number.POSITIVE_INFINITY, run.sentMs, () => works.shift()!, latencyMs)
  expect([...latencyMs]).toEqual([30, 25])
})

describe('works by hand', () => {
  const works = (sentMs: number[], latencyMs: number[], more: Partial<LoadRun> = {}, cores = 1) =>
    extractWork(
      {
        sentMs: Float64Array.from(sentMs),
        latencyMs: Float64Array.from(latencyMs),
        ...more,
      } as LoadRun,
      cores,
    )

  test('each is one service that nobody else is in', () => {
    expect(works([0, 10], [30, 25]).log).toEqual({
      present: [1, 1],
      tookMs: [20, 15],
      departed: [1, 1],
      rank: [0, 0],
      endedMs: [20, 25],
      spreadMs: [0, 0],
    })
  })

  test('one that failed had no part of the cores', () => {
    const { log, found } = works([0, 10, 10], [30, Number.NaN, 25])
    expect([log.tookMs, found]).toEqual([
      [20, 15],
      [0, 1],
    ])
  })

  test('those sent late stand in the order in which they came', () => {
    // The second was meant to be the first.
    const { log, found } = works([10, 0, 60], [25, 30, 5])
    expect([log.tookMs, found]).toEqual([
      [20, 15, 5],
      [0, 1, 0],
    ])
  })

  test('one that was still there when its window was cut counts as present, and is no work', () => {
    const { log, found } = works([0, 10], [30, 30], { cutMs: 40 })
    expect([log.tookMs, found]).toEqual([[20], [0]])
  })

  test('one that leaves as another comes is not met', () => {
    expect(works([0, 20, 40], [20, 20, 20]).found).toEqual([0, 0, 0])
    expect(works([0, 20, 40], [20, 20, 20]).log.tookMs).toEqual([20, 20, 20])
  })

  test('three on two cores get two thirds each', () => {
    // Until 30 ms three share two cores, then two have one each.
    const { log } = works([0, 0, 0], [30, 45, 60], {}, 2)
    expect(log.tookMs).toEqual([20, 35, 50].map((ms) => expect.closeTo(ms, 9)))
    const latencyMs = new Float64Array(3)
    const needed = [50, 20, 35]
    simulateSharing(2, 3, new Float64Array(3), () => needed.shift()!, latencyMs)
    expect([...latencyMs]).toEqual([60, 30, 45].map((ms) => expect.closeTo(ms, 9)))
  })

  test('one that finds all places taken is refused, and slows nobody down', () => {
    const latencyMs = new Float64Array(4)
    const needed = [20, 15, 7]
    // The third comes while two are there; the fourth after both have left.
    simulateSharing(1, 2, Float64Array.of(0, 10, 12, 36), () => needed.shift()!, latencyMs)
    expect([...latencyMs]).toEqual([30, 25, Number.POSITIVE_INFINITY, 7])
  })
})

test('with the cores known, every work is, under open load and in closed loops', async () => {
  const kinds = [4, 40]
  for (const load of [open(150), loop(8)]) {
    const run = await play(
      sharing(2, (uniform) => kinds[Number(uniform() < 0.2)]!),
      load,
    )
    const { log, found } = extractWork(run, 2)
    expect(log.tookMs).toHaveLength(run.sentMs.length)
    expect(log.tookMs.every((ms) => kinds.some((kind) => Math.abs(ms - kind) < 1e-6))).toBe(true)
    expect(Math.max(...found)).toBeGreaterThan(2)
  }
})

test('failed requests, those of a cut window and those that met a disturbance are no work', async () => {
  const run = await play(
    sharing(1, () => 10),
    open(60, 1),
  )
  const latencyMs = run.latencyMs.map((ms, i) => (i === 4 ? Number.NaN : ms))
  const disturbed = [[run.sentMs[20]!, run.sentMs[20]! + 1]] as const
  const { log } = extractWork({ ...run, latencyMs, cutMs: 800 }, 1, disturbed)
  expect(log.tookMs.length).toBeLessThan(run.sentMs.filter((at) => at < 800).length - 1)
  expect(log.tookMs.length).toBeGreaterThan(30)
})

test.each([1, 2, 4])('a server that shares %i cores is told by its works', async (cores) => {
  const server = sharing(cores, (uniform) => 15 * gamma(uniform, 4))
  const loops = [await play(server, loop(1)), await play(server, loop(20))]
  const found = identifyWorkers(
    [{ run: await play(server, open(48 * cores, 12)), disturbed: [] }],
    loops,
  )
  expect(found?.workers).toBe(cores)
  expect(found?.sharesCores).toBe(true)
})

test('its queue model makes requests wait as the server does, and refuses beyond its places', async () => {
  const workMs = (uniform: Uniform) => 12 * gamma(uniform, 4)
  const teacher = await play(sharing(3, workMs), open(180, 60))
  const load = {
    kind: 'open',
    rateRps: 215,
    durationS: 60,
    arrivals: { kind: 'poisson' },
    seed: 9,
  } as const
  const real = await play(sharing(3, workMs, 7), load)
  const arrivalsMs = schedule(load)
  const latencyMs = new Float64Array(arrivalsMs.length)
  const over = (all: Float64Array, ms: number) => all.filter((x) => x > ms).length / all.length
  simulate(
    buildQueueModel(extractWork(teacher, 3).log, { workers: 3, sharesCores: true }),
    arrivalsMs,
    1,
    seeded(2),
    latencyMs,
  )
  for (const ms of [15, 30, 60])
    expect(Math.abs(over(latencyMs, ms) - over(real.latencyMs, ms))).toBeLessThan(0.04)
  simulate(
    buildQueueModel(extractWork(teacher, 3).log, {
      systemCapacity: 4,
      workers: 3,
      sharesCores: true,
    }),
    arrivalsMs,
    1,
    seeded(2),
    latencyMs,
  )
  const refused = latencyMs.filter((ms) => ms === Number.POSITIVE_INFINITY).length
  expect(refused / latencyMs.length).toBeGreaterThan(0.05)
  expect(Math.max(...latencyMs.filter(Number.isFinite))).toBeLessThan(
    real.latencyMs.reduce((a, b) => Math.max(a, b)),
  )
})
