/** How a measurement begins, window by window, and what ends it there; whole measurements are in evidence.test.ts and virtual-capacity.test.ts. */
import { describe, expect, test } from 'vitest'
import { runOf, scriptedGenerator } from '../testing/scripted-generator.ts'
import { targetAt } from '../testing/servers.ts'
import type { Load, LoadRun, Slo } from '../types.ts'
import { type CapacityOptions, measureCapacity } from './measure.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const refused = (load: Load) => runOf(load, [Number.NaN, Number.NaN], { errorKinds: { refused: 2 } })
/** So many answers of so many ms; `failing` of them fail with 503. */
const answers = (load: Load, n: number, ms = 5, failing = 0, more: Partial<LoadRun> = {}) =>
  runOf(
    load,
    Array.from({ length: n }, (_, i) => (i < failing ? Number.NaN : ms)),
    { sentMs: new Float64Array(n), errorKinds: failing > 0 ? { 'status 503': failing } : {}, ...more },
  )

async function measured(answer: (load: Load, window: number) => LoadRun, options: Partial<CapacityOptions> = {}) {
  const generator = scriptedGenerator(answer)
  const signal = new AbortController().signal
  const phases: string[] = []
  const target = targetAt('http://127.0.0.1:1')
  const found = await measureCapacity({
    target,
    slo,
    signal,
    effort: 'quick',
    generator,
    onStep: (_, phase) => phases.push(phase),
    ...options,
  })
  return { found, asked: generator.asked, phases }
}
const connectionsOf = (load: Load) => (load.kind === 'closed' ? load.connections : Number.NaN)

describe('a warm-up', () => {
  /** So many requests in each window of 0.3 s; the idle server is then too slow, which ends it. */
  const warmed = async (requests: number, options: Partial<CapacityOptions> = {}) =>
    (await measured((load) => answers(load, requests, connectionsOf(load) === 1 ? 80 : 5), options)).asked.filter(
      (load) => connectionsOf(load) > 1,
    )

  test('goes on over more connections for 512 requests, or sixteen seconds', async () => {
    expect((await warmed(255)).map(connectionsOf)).toEqual([2, 2, 8])
    expect((await warmed(256)).map(connectionsOf)).toEqual([2, 2])
    // 520 requests; 16.2 s.
    expect([(await warmed(26)).length, (await warmed(2)).length]).toEqual([20, 54])
    expect(new Set((await warmed(2)).map(({ durationS }) => durationS))).toEqual(new Set([0.3]))
  })

  test('of a server that streams, each answer of which is many steps, counts no requests', async () => {
    const target = { ...targetAt('http://127.0.0.1:1'), transport: 'sse' } as const
    expect((await warmed(255, { target })).map(connectionsOf)).toEqual([2, 2])
  })

  test('is as long for a server that is known about: what it can do warm says nothing of how cold it is', async () => {
    expect(await warmed(255, { expectedRps: 100 })).toEqual(await warmed(255))
  })

  test('lasts twenty windows of a server that gets faster and faster', async () => {
    const faster = (load: Load, window: number) => answers(load, 500, connectionsOf(load) === 1 ? 80 : 1000 * 0.9 ** window)
    const two = ({ asked }: { asked: readonly Load[] }) => asked.filter((load) => connectionsOf(load) === 2)
    expect(two(await measured(faster))).toHaveLength(20)
  })

  test('is told, and no part of the curve', async () => {
    const { found, phases } = await measured((load) => answers(load, 500, connectionsOf(load) === 1 ? 80 : 5))
    expect(phases).toEqual(['warm-up', 'warm-up', 'idle', 'idle'])
    expect(found.points).toHaveLength(2)
    const longer = await measured((load) => answers(load, 255, connectionsOf(load) === 1 ? 80 : 5))
    expect(longer.phases).toEqual(['warm-up', 'warm-up', 'warm-up', 'idle', 'idle'])
    expect(longer.found.points).toHaveLength(2)
    expect([found.requests, found.seconds]).toEqual([2000, expect.closeTo(0.3 + 0.3 + 0.25 + 0.5, 9)])
  })
})

describe('a server that is too slow alone', () => {
  test('is out of reach, once it was seen twice', async () => {
    const { found, asked } = await measured((load, window) => answers(load, 500, connectionsOf(load) > 1 ? 5 : window === 2 ? 90 : 80))
    expect(asked.slice(2).map(({ durationS }) => durationS)).toEqual([0.25, 0.5])
    expect(found).toMatchObject({ outcome: 'slo-unattainable', capacityRps: 0, capacityCi90Rps: [0, 0], known: 'held', saturationRps: 0 })
    // The better of the two counts.
    expect(found.idle).toMatchObject({ p99Ms: 80, requests: 500 })
    expect(found.detail).toBe('one request at a time already takes 80 ms at p99, over 50 ms')
  })

  test('by its median, though its percentile leaves room', async () => {
    const half = (load: Load) => runOf(load, [80, 80, 5], { sentMs: new Float64Array(3) })
    const { found } = await measured((load) => (connectionsOf(load) > 1 ? answers(load, 500) : half(load)))
    expect(found.outcome).toBe('slo-unattainable')
  })

  test('by its percentile, though its median leaves room', async () => {
    const tail = (load: Load) =>
      runOf(
        load,
        Array.from({ length: 500 }, (_, i) => (i % 5 === 0 ? 80 : 5)),
        { sentMs: new Float64Array(500) },
      )
    const { found } = await measured((load) => (connectionsOf(load) > 1 ? answers(load, 500) : tail(load)))
    expect(found).toMatchObject({ outcome: 'slo-unattainable', detail: 'one request at a time already takes 80 ms at p99, over 50 ms' })
  })
})

describe('a server that refuses a closed loop', () => {
  const failing = (load: Load) => answers(load, 300, 5, 30)

  test('is asked gently: a fifth of what it answered, for twenty requests, then for half of that, three times at most', async () => {
    const { found, asked } = await measured(failing, { seed: 9 })
    // 270 in 0.25 s, as the closed loop of the warm-up had in 0.3: 900 a second.
    expect(asked.map(({ kind }) => kind)).toEqual(['closed', 'closed', 'closed', 'open', 'open', 'open'])
    expect(asked[3]).toEqual({ kind: 'open', rateRps: expect.closeTo(180, 9), durationS: 0.5, seed: 9, arrivals: { kind: 'poisson' } })
    expect(asked.slice(4)).toEqual([90, 45].map((rateRps) => expect.objectContaining({ rateRps: expect.closeTo(rateRps, 9) })))
    expect(found).toMatchObject({ outcome: 'errors', capacityRps: 0, detail: '30 of 300 requests failed (status 503 × 30)' })
    const slowly = await measured((load) => answers(load, 30, 5, 3))
    expect(slowly.asked.at(-3)).toMatchObject({ rateRps: expect.closeTo(18, 9), durationS: expect.closeTo(20 / 18, 9) })
    const hardly = await measured((load) => answers(load, 3, 5, 3))
    expect(hardly.asked.slice(-3)).toMatchObject(Array(3).fill({ rateRps: 1, durationS: 6 }))
  })

  test('and asked gently answers nothing, serves nobody', async () => {
    const { found } = await measured((load) => (load.kind === 'open' ? answers(load, 0) : failing(load)))
    expect(found).toMatchObject({ outcome: 'errors', detail: 'no request was answered' })
  })
})

describe('a server that is gone', () => {
  test.each<[string, (load: Load, window: number) => LoadRun]>([
    ['at once', refused],
    ['while it warms up', (load, window) => (window < 3 ? answers(load, 100) : refused(load))],
    ['asked gently', (load) => (load.kind === 'open' ? refused(load) : answers(load, 300, 5, 30))],
  ])('%s ends it, and nothing is known of it', async (_, answer) => {
    const { found } = await measured(answer)
    expect(found).toMatchObject({ outcome: 'server-died', capacityRps: 0, known: 'nothing' })
    expect(found.detail).toBe('nothing listens any more: 2 of 2 requests failed (refused × 2)')
  })
})

describe('what the reader must know', () => {
  const caveatsOf = async (more: Partial<LoadRun>, url = 'http://127.0.0.1:1') =>
    (await measured((load) => answers(load, 500, connectionsOf(load) === 1 ? 80 : 5, 0, more), { target: targetAt(url) })).found.caveats

  test('is a generator that shared the machine, from a fiftieth of a core on', async () => {
    for (const url of ['http://127.0.0.1:1', 'http://localhost:1', 'http://[::1]:1'])
      expect((await caveatsOf({ generatorCores: 0.5 }, url))[0]).toMatch(
        /^the load generator shared this machine's \d+ cores with the server and used up to 0.50 of one$/,
      )
    expect(await caveatsOf({ generatorCores: 0.5 }, 'http://example.com:1')).toEqual([])
    expect(await caveatsOf({ generatorCores: 0.02 })).toEqual([])
  })

  test('are connections that the server closed, from one in twenty requests on', async () => {
    const closing = (closed: number) => caveatsOf({ connections: { opened: 2, closed, retried: 0 } })
    expect(await closing(25)).toEqual([])
    expect(await closing(26)).toEqual(['the server closed 104 connections in 2000 requests: opening others is part of their latency'])
  })

  test('are loads that the generator could not hold', async () => {
    expect((await caveatsOf({ generatorCores: 0.95 }, 'http://example.com:1')).join()).toMatch(/could not hold some of the load points/)
    const once = await measured(
      (load, window) => answers(load, 500, connectionsOf(load) === 1 ? 80 : 5, 0, { generatorCores: window === 2 ? 0.95 : 0 }),
      {
        target: targetAt('http://example.com:1'),
      },
    )
    expect(once.found.caveats.join()).toMatch(/could not hold some of the load points/)
  })
})
