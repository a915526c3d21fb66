import { expect, test } from 'vitest'
import { trueCapacities } from '../../../bench/truth.bench.ts'
import { schedule } from '../../../load/arrivals.ts'
import { VirtualLoadGenerator } from '../../../load/virtual-generator.ts'
import type { Load } from '../../../model/load.ts'
import type { LoadRun } from '../../../model/load-run.ts'
import type { VirtualServer } from '../../../model/virtual-server.ts'
import { gamma, normal, seeded, type Uniform } from '../../../seeded-random.ts'
import { DisciplineServer } from '../../../testing/discipline-server.ts'
import { QueueServer, type QueueServerOptions } from '../../../testing/queue-server.ts'
import { developmentCases, simpleCases } from '../../../testing/simple-servers.ts'
import { virtualCases } from '../../../testing/virtual-servers.ts'
import { measureCapacity } from '../../measure.ts'
import { buildQueueModel, simulate } from '../queue-model.ts'
import { extractServiceTimes, identifyWorkers } from './workers.ts'

const { signal } = new AbortController()
const play = (server: VirtualServer, load: Load): Promise<LoadRun> =>
  new VirtualLoadGenerator().play({ kind: 'virtual', server }, load, signal)
const queue = (
  servers: number,
  serviceMs: QueueServerOptions['serviceMs'],
  rest: Partial<QueueServerOptions> = {},
) => new QueueServer({ seed: 5, servers, maxBatch: 1, ...rest, serviceMs })
const open = (rateRps: number, durationS = 3, seed = 3): Load => ({
  kind: 'open',
  rateRps,
  durationS,
  arrivals: { kind: 'poisson' },
  seed,
})
const loop = (connections: number, durationS = 1): Load => ({
  kind: 'closed',
  connections,
  durationS,
})
const seen = async (
  server: VirtualServer,
  rateRps: number,
  before: (server: VirtualServer) => Promise<unknown> = async () => {},
) => {
  await before(server)
  const loops = [await play(server, loop(1)), await play(server, loop(30))]
  return identifyWorkers([{ run: await play(server, open(rateRps)), disturbed: [] }], loops)
}

const twoKinds = (_: number, uniform: Uniform) => (uniform() < 0.05 ? 40 : 4)
const ofTwoKinds = (ms: number) => Math.abs(ms - 4) < 1e-6 || Math.abs(ms - 40) < 1e-6

test('with their number known, every service time is, under open load and in closed loops', async () => {
  for (const load of [open(220), loop(8)]) {
    const run = await play(queue(2, twoKinds), load)
    const { log, found } = extractServiceTimes(run, 2)
    expect(log.tookMs).toHaveLength(run.sentMs.length)
    expect(log.tookMs.every(ofTwoKinds)).toBe(true)
    expect(Math.max(...found)).toBeGreaterThan(2)
    expect(extractServiceTimes(run, 1).log.tookMs.every(ofTwoKinds)).toBe(false)
  }
})

test('what failed, was cut short or met a disturbance is no service time', async () => {
  const run = await play(
    queue(1, () => 10),
    open(60, 1),
  )
  const latencyMs = run.latencyMs.map((ms, i) => (i === 4 ? Number.NaN : ms))
  const disturbed = [[run.sentMs[20]!, run.sentMs[20]! + 1]] as const
  const { log } = extractServiceTimes({ ...run, latencyMs, cutMs: 800 }, 1, disturbed)
  expect(log.tookMs.length).toBeLessThan(run.sentMs.filter((at) => at < 800).length - 1)
  expect(Math.max(...log.endedMs)).toBeLessThan(800)
  expect(log.endedMs.some((at) => at > disturbed[0][0] && at - 10 < disturbed[0][1])).toBe(false)
})

test.each<[string, number, number, QueueServerOptions['serviceMs']]>([
  ['always as long', 1, 90, () => 8],
  ['always as long', 2, 130, () => 12],
  ['of two kinds', 2, 230, twoKinds],
  ['exponential', 4, 340, (_, uniform) => -10 * Math.log(uniform())],
  ['lognormal', 1, 65, (_, uniform) => 8 * Math.exp(0.8 * normal(uniform))],
  ['gamma', 3, 250, (_, uniform) => 9 * gamma(uniform, 4)],
  // So fast that most numbers are told to be wrong by the first requests alone.
  ['always as long, fast', 6, 4600, () => 1.2],
])('services %s: %i workers', async (_, workers, rateRps, serviceMs) => {
  const found = await seen(queue(workers, serviceMs), rateRps)
  expect(found?.workers).toBe(workers)
  expect(found?.sharesCores).toBe(false)
  expect(found?.loops).toHaveLength(2)
})

test.each<[string, number, number, QueueServerOptions['serviceMs'], number]>([
  ['always as long', 1, 90, () => 8, 1.2],
  ['always as long', 2, 130, () => 12, 2],
  ['of two kinds', 2, 230, twoKinds, 1],
  ['gamma', 2, 180, (_, uniform) => 10 * gamma(uniform, 25), 2],
])(
  'services %s: %i workers, and the way to them and back',
  async (_, workers, rateRps, serviceMs, overheadMs) => {
    const found = await seen(queue(workers, serviceMs, { overheadMs }), rateRps)
    expect(found?.workers).toBe(workers)
    expect(found?.sharesCores).toBe(false)
    expect(found?.overheadMs).toBeGreaterThan(0.5 * overheadMs)
    expect(found?.overheadMs).toBeLessThan(1.5 * overheadMs)
  },
)

test('too few workers with much beside them are not taken for the right ones', async () => {
  const found = await seen(
    queue(4, (_, uniform) => 10 * gamma(uniform, 25)),
    380,
  )
  expect(found).toMatchObject({ workers: 4, overheadMs: 0 })
})

test.each(['the last', 'the shortest'])(
  '%s first is no order that workers are told by',
  async (order) => {
    const takes = (waiting: readonly { workMs: number }[]) =>
      order === 'the last'
        ? waiting.length - 1
        : waiting.reduce((least, { workMs }, i) => (workMs < waiting[least]!.workMs ? i : least), 0)
    const server = new DisciplineServer({
      seed: 5,
      servers: 1,
      workMs: (uniform) => 10 * gamma(uniform, 2),
      takes,
    })
    expect((await seen(server, 85))?.sharesCores).not.toBe(false)
  },
)

test('a few slow requests of open load are enough where the closed loops agree', async () => {
  const found = await seen(
    queue(1, (_, uniform) => 77 * gamma(uniform, 100)),
    8,
  )
  expect(found?.workers).toBe(1)
})

test.each<[string, VirtualServer, number]>([
  ['batches', queue(1, (batch) => 5 + 0.5 * batch, { maxBatch: 16 }), 1100],
  ['nearly flat batches', queue(1, (batch) => 20 + batch, { maxBatch: 8 }), 250],
  [
    'a core before a batching GPU',
    virtualCases.find(({ name }) => name === 'CPU, then GPU batch 32')!.server(3),
    2200,
  ],
])('no number fits %s', async (_, server, rateRps) => {
  expect(await seen(server, rateRps)).toBeUndefined()
})

test('loops that were served otherwise, as those of a cold server, and those before them tell of another server', async () => {
  let served = 0
  const serviceMs = () => 6 * (served++ < 150 ? 3 : 1)
  const server = queue(1, serviceMs)
  const cold = [
    await play(server, loop(2)),
    await play(server, loop(2)),
    await play(server, loop(2)),
  ]
  const warm = [await play(server, loop(8)), await play(server, loop(8))]
  const found = identifyWorkers(
    [{ run: await play(server, open(130)), disturbed: [] }],
    [...cold, ...warm],
  )
  expect(found?.loops).toHaveLength(2)
  expect(found?.loops.every(({ tookMs }) => tookMs.every((ms) => Math.abs(ms - 6) < 1e-6))).toBe(
    true,
  )
  // Where even the last loop tells of another one, closed loops and open load are not served alike.
  expect(
    identifyWorkers([{ run: await play(server, open(130)), disturbed: [] }], cold),
  ).toBeUndefined()
})

test('a queue model with workers makes requests wait as the server does, and refuses as it does', async () => {
  const serviceMs = (_: number, uniform: Uniform) => 10 * gamma(uniform, 4)
  const teacher = await play(queue(3, serviceMs), open(250, 60))
  const load = {
    kind: 'open',
    rateRps: 270,
    durationS: 60,
    arrivals: { kind: 'poisson' },
    seed: 9,
  } as const
  const share = (latencyMs: Float64Array, of: (ms: number) => boolean) =>
    latencyMs.filter(of).length / latencyMs.length
  for (const queueLimit of [undefined, 12]) {
    const real = await play(queue(3, serviceMs, { queueLimit }), load)
    const arrivalsMs = schedule(load)
    const latencyMs = new Float64Array(arrivalsMs.length)
    const systemCapacity = queueLimit === undefined ? undefined : 3 + queueLimit
    simulate(
      buildQueueModel(extractServiceTimes(teacher, 3).log, { systemCapacity, workers: 3 }),
      arrivalsMs,
      1,
      seeded(2),
      latencyMs,
    )
    const apart = (ms: number) =>
      share(latencyMs, (x) => x > ms && x < 1e9) - share(real.latencyMs, (x) => x > ms)
    for (const ms of [12, 25, 40]) expect(Math.abs(apart(ms))).toBeLessThan(0.03)
    const [refused, refusedByServer] = [
      share(latencyMs, (x) => x === Number.POSITIVE_INFINITY),
      share(real.latencyMs, Number.isNaN),
    ]
    expect(refused > 0).toBe(queueLimit !== undefined)
    expect(Math.abs(refused - refusedByServer)).toBeLessThan(0.4 * refusedByServer + 1e-9)
  }
})

/** Median error of quick measurements, and how many intervals hold the truth. */
async function quick(
  name: string,
  seeds: readonly number[],
): Promise<{ error: number; held: number }> {
  const { server, slo } = [...simpleCases, ...developmentCases, ...virtualCases].find(
    (known) => known.name === name,
  )!
  const truth = trueCapacities()[name]!
  const found = []
  for (const seed of seeds)
    found.push(
      await measureCapacity({
        target: { kind: 'virtual', server: server(7 * seed) },
        slo,
        signal,
        seed: 1000 * seed,
        effort: 'quick',
      }),
    )
  const errors = found
    .map(({ capacityRps }) => Math.abs(capacityRps / truth - 1))
    .sort((a, b) => a - b)
  const held = found.filter(
    ({ capacityCi90Rps: [low, high] }) => low <= truth && truth <= high,
  ).length
  return { error: errors[Math.floor(errors.length / 2)]!, held }
}

test.each([
  ['two workers, 95 % 4 ms, 5 % 40 ms', 0.08],
  ['dev: three workers, 90 % 6 ms, 10 % 45 ms', 0.08],
  ['dev: FIFO 5 ms, 40 ms stall each 1.5 s', 0.03],
])('%s: what the closed loops saw of rare slow requests counts', async (name, most) => {
  const { error, held } = await quick(name, [41, 42, 43])
  expect(error).toBeLessThan(most)
  expect(held).toBeGreaterThanOrEqual(2)
})

test('loops in which slow requests were more frequent, as of a cache that fills, tell of another server', async () => {
  // One in 33 is slow at first, one in 170 later: too few for their means to differ by three
  // standard errors.
  let served = 0
  const serviceMs = () => (served % (served++ < 250 ? 33 : 170) === 7 ? 40 : 8)
  const server = queue(1, serviceMs)
  const early = [await play(server, loop(8)), await play(server, loop(8))]
  const later = [await play(server, loop(8)), await play(server, loop(8))]
  const found = identifyWorkers(
    [{ run: await play(server, open(80)), disturbed: [] }],
    [...early, ...later],
  )
  expect(found?.workers).toBe(1)
  expect(found?.loops).toHaveLength(2)
})
