/**
 * Known servers as processes, over real HTTP, beside their truth: the same queue in virtual time under the very sends that the server got. Everything that
 * generator, connections and clocks add or lose shows. A window that the machine disturbed, as the window itself tells, says so and is skipped.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { seeded } from '../seeded-random.ts'
import { summarise } from '../statistics/load-point.ts'
import { startTestServer, type TestServer, targetAt } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'
import { skipIfDisturbed, unseenMs } from '../testing/undisturbed.ts'
import type { Load, LoadRun } from '../types.ts'
import { QueueServer, type QueueServerOptions } from '../virtual/queue-server.ts'
import { HttpLoadGenerator } from './http-generator.ts'

const generator = new HttpLoadGenerator()
const { signal } = new AbortController()
let server: TestServer | undefined
// Starts the generator's process.
beforeAll(async () => {
  await generator.play(
    targetAt('http://127.0.0.1:1'),
    { kind: 'open', rateRps: 50, arrivals: { kind: 'constant' }, durationS: 0.1, seed: 1 },
    signal,
  )
})
afterEach(async () => {
  await server?.stop()
  server = undefined
})
afterAll(() => generator.close())

/** Timers are up to a millisecond late, and an answer takes its way: with the truth at 30 ms and more all in all less than a tenth of it. */
const within = (truthMs: number) => 0.04 * truthMs + 1.5
interface Known {
  readonly name: string
  readonly rateRps: number
  readonly service: Partial<TestService>
  /** Its service times in virtual time. @param atMs times of the arrivals */
  serviceMs(atMs: readonly number[]): QueueServerOptions['serviceMs']
}

const servers: readonly Known[] = [
  { name: 'one at a time, 20 ms', rateRps: 42, service: { time: { kind: 'fixed', ms: 20 }, servers: 1 }, serviceMs: () => () => 20 },
  {
    name: 'batches of up to 16 in 20 + 2 n ms',
    rateRps: 260,
    service: { time: { kind: 'batch', baseMs: 20, perItemMs: 2 }, servers: 1, maxBatch: 16 },
    serviceMs: () => (n) => 20 + 2 * n,
  },
  {
    name: 'two workers, 95 % 24 ms and 5 % 160 ms',
    rateRps: 50,
    service: { time: { kind: 'bimodal', fastMs: 24, slowMs: 160, slowShare: 0.05 }, servers: 2, seed: 1 },
    // The server draws in the same order from the same seed.
    serviceMs: () => {
      const uniform = seeded(1)
      return () => (uniform() < 0.05 ? 160 : 24)
    },
  },
  {
    name: 'one at a time, 14 ms, that stalls for 250 ms',
    rateRps: 50,
    service: { time: { kind: 'fixed', ms: 14 }, servers: 1, fault: { kind: 'stall', ms: 250, afterRequests: 60 } },
    serviceMs: (atMs) => (_n, _uniform, now) => 14 + (now >= atMs[59]! && now < atMs[59]! + 250 ? atMs[59]! + 250 - now : 0),
  },
  {
    name: 'one at a time, 12 ms, 503 beyond 16 that wait',
    rateRps: 120,
    service: { time: { kind: 'fixed', ms: 12 }, servers: 1, queueLimit: 16 },
    serviceMs: () => () => 12,
  },
  {
    name: 'one at a time, 40 ms, five times as fast after 30 requests',
    rateRps: 22,
    service: { time: { kind: 'fixed', ms: 40 }, servers: 1, fault: { kind: 'slow-down', factor: 0.2, afterRequests: 30 } },
    serviceMs: (atMs) => (_n, _uniform, now) => (atMs[30] !== undefined && now >= atMs[30] ? 8 : 40),
  },
]

describe('open load', () => {
  test.for(servers)('$name', async ({ rateRps, service, serviceMs }, { skip }) => {
    server = await startTestServer({ ...service, seed: 1 })
    const load: Load = { kind: 'open', rateRps, arrivals: { kind: 'poisson' }, durationS: 2.5, seed: 3 }
    const run = await generator.play(server.target, load, signal)
    skipIfDisturbed(run, skip)
    const truth = truthOf(run, service, serviceMs)
    const failed = (latencies: Float64Array) => latencies.filter(Number.isNaN).length
    expect(Math.abs(failed(run.latencyMs) - failed(truth))).toBeLessThanOrEqual(0.05 * failed(truth))
    const [seen, known] = [summarise(run.latencyMs), summarise(truth)]
    for (const percentile of ['p50Ms', 'p90Ms', 'p99Ms', 'meanMs'] as const) {
      const off = seen[percentile] - known[percentile]
      const most = within(known[percentile]) + (percentile === 'p99Ms' ? unseenMs : 0)
      expect({ percentile, off, ...(Math.abs(off) <= most ? {} : { seen, known }) }).toEqual({ percentile, off })
    }
  })
})

/** The latencies of the same server in virtual time, of the same requests, from their intended sends. */
function truthOf(
  run: LoadRun,
  { servers = 0, maxBatch = 1, queueLimit }: Partial<TestService>,
  serviceMs: Known['serviceMs'],
): Float64Array {
  const atMs = Array.from(run.sentMs, (ms, i) => ms + run.lateMs![i]!)
  const virtual = new QueueServer({ seed: 1, servers, maxBatch, queueLimit, serviceMs: serviceMs(atMs) })
  const load: Load = { ...(run.load as Extract<Load, { kind: 'open' }>), arrivals: { kind: 'trace', atMs }, durationS: 1e6 }
  return virtual.play(load).latencyMs.map((ms, i) => ms + run.lateMs![i]!)
}

describe('closed load', () => {
  test.for([1, 12])('four requests for each place at a server of 30 ms: %i places', async (places, { skip }) => {
    server = await startTestServer({ time: { kind: 'fixed', ms: 30 }, servers: places })
    const run = await generator.play(server.target, { kind: 'closed', connections: 4 * places, durationS: 1.5 }, signal)
    skipIfDisturbed(run, skip)
    const { p50Ms } = summarise(run.latencyMs)
    expect(Math.abs(p50Ms - 120)).toBeLessThan(within(120))
    // Little's law.
    expect(Math.abs(run.latencyMs.length / run.elapsedS / (places / 0.03) - 1)).toBeLessThan(0.08)
  })
})
