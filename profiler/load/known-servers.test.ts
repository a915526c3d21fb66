/**
 * Known servers as processes, over real HTTP, beside their truth: the same queue in virtual time
 * under the very sends that the server got. Everything that generator, connections and clocks add
 * or lose shows. A window that the machine disturbed, as the window itself tells, says so and is
 * skipped.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { OpenLoad } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import { createUniform } from '../seeded-random.ts'
import { QueueServer, type QueueServerOptions } from '../testing/queue-server.ts'
import { startTestServer, type TestServer, targetAt } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'
import { skipIfDisturbed, unseenMs } from '../testing/undisturbed.ts'
import { schedule } from './arrivals.ts'
import { HttpLoadGenerator } from './http-generator.ts'
import { summarise } from './load-point.ts'

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

/**
 * How far a figure may be from the truth, as a share of it. The truth is of the very same sends, so
 * that neither has a sampling error. Timers are up to a millisecond late and an answer takes its
 * way: of truths from 90 ms on less than a fiftieth. What the machine did unseen moves the slowest
 * answers by `unseenMs`: of p99 from 390 ms on less than a nineteenth. A tenth is out of reach of
 * both.
 */
const most = 0.06
const onTheWayMs = 1.5
/** Arrivals that close to an answer are refused or not as the timers have it. */
const mostFailuresOff = 2

interface Known {
  readonly name: string
  readonly rateRps: number
  readonly service: Partial<TestService>
  /** Its service times in virtual time. @param atMs times of the arrivals */
  serviceMs(atMs: readonly number[]): QueueServerOptions['serviceMs']
}

const servers: readonly Known[] = [
  {
    name: 'one at a time, 40 ms',
    rateRps: 27,
    service: { time: { kind: 'fixed', ms: 40 }, servers: 1 },
    serviceMs: () => () => 40,
  },
  {
    name: 'batches of up to 16 in 100 + 6 n ms',
    rateRps: 78,
    service: { time: { kind: 'batch', baseMs: 100, perItemMs: 6 }, servers: 1, maxBatch: 16 },
    serviceMs: () => (n) => 100 + 6 * n,
  },
  {
    name: 'two workers, 95 % 60 ms and 5 % 450 ms',
    rateRps: 22,
    service: {
      time: { kind: 'bimodal', fastMs: 60, slowMs: 450, slowShare: 0.05 },
      servers: 2,
      seed: 1,
    },
    // The server draws in the same order from the same seed.
    serviceMs: () => {
      const uniform = createUniform(1)
      return () => (uniform() < 0.05 ? 450 : 60)
    },
  },
  {
    name: 'one at a time, 30 ms, that stalls for 400 ms',
    rateRps: 24,
    service: {
      time: { kind: 'fixed', ms: 30 },
      servers: 1,
      fault: { kind: 'stall', ms: 400, afterRequests: 24 },
    },
    serviceMs: (atMs) => (_n, _uniform, now) =>
      30 + (now >= atMs[23]! && now < atMs[23]! + 400 ? atMs[23]! + 400 - now : 0),
  },
  {
    name: 'one at a time, 40 ms, 503 beyond 10 that wait',
    rateRps: 32,
    service: { time: { kind: 'fixed', ms: 40 }, servers: 1, queueLimit: 10 },
    serviceMs: () => () => 40,
  },
  {
    name: 'one at a time, 60 ms, five times as fast after 30 requests',
    rateRps: 20,
    service: {
      time: { kind: 'fixed', ms: 60 },
      servers: 1,
      fault: { kind: 'slow-down', factor: 0.2, afterRequests: 30 },
    },
    serviceMs: (atMs) => (_n, _uniform, now) =>
      atMs[30] !== undefined && now >= atMs[30] ? 12 : 60,
  },
  {
    name: 'one of those in virtual time, as a process: one at a time, 20 ms',
    rateRps: 54,
    service: { time: { kind: 'known', name: 'FIFO 20 ms, within 500 ms' }, servers: 1 },
    serviceMs: () => () => 20,
  },
]
const loadOf = ({ rateRps }: Known): OpenLoad => ({
  kind: 'open',
  rateRps,
  arrivals: { kind: 'poisson' },
  durationS: 2.5,
  seed: 3,
})

describe('open load', () => {
  test.for(servers)('$name', async (known, { skip }) => {
    server = await startTestServer({ ...known.service, seed: 1 })
    const run = await generator.play(server.target, loadOf(known), signal)
    skipIfDisturbed(run, skip)
    expect(complaints(run, known)).toEqual([])
  })
})

describe('what open load is held against', () => {
  const sentBy = (run: LoadRun, change: (ms: number) => number) => ({
    ...run,
    sentMs: run.sentMs.map(change),
  })
  const answeredBy = (run: LoadRun, change: (ms: number) => number) => ({
    ...run,
    latencyMs: run.latencyMs.map(change),
  })
  const figures = ['p50Ms', 'p90Ms', 'p99Ms', 'meanMs']
  const named = (found: readonly string[]) => found.map((one) => one.split(':')[0])

  test.for(servers)(
    '$name: a generator that is right passes, on a machine with its timers and what it does unseen',
    (known) => {
      const run = played(known)
      const p99Ms = summarise(run.latencyMs).p99Ms
      expect(complaints(run, known)).toEqual([])
      expect(
        complaints(
          answeredBy(run, (ms) => ms + onTheWayMs + (ms >= p99Ms ? unseenMs : 0)),
          known,
        ),
      ).toEqual([])
    },
  )

  test.for(servers)(
    '$name: one whose latencies are wrong by a tenth fails at every figure',
    (known) => {
      for (const factor of [0.9, 1.1])
        expect(
          named(
            complaints(
              answeredBy(played(known), (ms) => factor * ms),
              known,
            ),
          ),
        ).toEqual(figures)
    },
  )

  test.for(servers)(
    '$name: one whose rate is wrong by a tenth fails, whether it says so or not',
    (known) => {
      for (const factor of [0.9, 1.1]) {
        expect(
          named(
            complaints(
              sentBy(played(known, factor), (ms) => ms * factor),
              known,
            ),
          ),
        ).not.toEqual([])
        expect(named(complaints(played(known, factor), known))).toContain('sends')
        expect(
          named(complaints(played({ ...known, rateRps: factor * known.rateRps }), known)),
        ).toContain('sends')
      }
    },
  )

  /** A run of the server in virtual time, its sends so many times as fast as they should be. */
  function played(known: Known, factor = 1): LoadRun {
    const load = loadOf(known)
    const sentMs = schedule(load).map((ms) => ms / factor)
    return {
      load,
      sentMs,
      latencyMs: virtually(sentMs, known),
      lateMs: new Float64Array(sentMs.length),
      errorKinds: {},
      planned: sentMs.length,
      latenessP99Ms: 0,
      seconds: load.durationS,
      elapsedS: load.durationS,
      generatorCores: 0,
    }
  }
})

/**
 * What of a run is not as it is with the same server in virtual time: its sends, its failures, its
 * figures.
 */
function complaints(run: LoadRun, known: Known): string[] {
  const found: string[] = []
  const intendedMs = schedule(loadOf(known))
  if (
    run.sentMs.length !== intendedMs.length ||
    intendedMs.some((ms, i) => Math.abs(ms - run.sentMs[i]!) > 1e-6)
  )
    found.push('sends')
  const truth = truthOf(run, known)
  const [failed, failing] = [run.latencyMs, truth].map(
    (latencies) => latencies.filter(Number.isNaN).length,
  )
  if (Math.abs(failed! - failing!) > mostFailuresOff)
    found.push(`failures: ${failed} and not ${failing}`)
  const [seen, right] = [summarise(run.latencyMs), summarise(truth)]
  for (const figure of ['p50Ms', 'p90Ms', 'p99Ms', 'meanMs'] as const)
    if (!(Math.abs(seen[figure] / right[figure] - 1) <= most))
      found.push(`${figure}: ${seen[figure]} and not ${right[figure]}`)
  return found
}

/**
 * The latencies of the same server in virtual time, of the same requests, from their intended
 * sends.
 */
const truthOf = (run: LoadRun, known: Known): Float64Array =>
  virtually(
    run.sentMs.map((ms, i) => ms + run.lateMs![i]!),
    known,
  ).map((ms, i) => ms + run.lateMs![i]!)

function virtually(
  sentMs: Float64Array,
  { service: { servers = 0, maxBatch = 1, queueLimit }, serviceMs }: Known,
): Float64Array {
  const atMs = [...sentMs]
  const virtual = new QueueServer({
    seed: 1,
    servers,
    maxBatch,
    queueLimit,
    serviceMs: serviceMs(atMs),
  })
  return virtual.play({
    kind: 'open',
    rateRps: 1,
    arrivals: { kind: 'trace', atMs },
    durationS: 1e6,
    seed: 1,
  }).latencyMs
}

describe('closed load', () => {
  test.for([1, 12])(
    'four requests for each place at a server of 30 ms: %i places',
    async (places, { skip }) => {
      server = await startTestServer({ time: { kind: 'fixed', ms: 30 }, servers: places })
      const run = await generator.play(
        server.target,
        { kind: 'closed', connections: 4 * places, durationS: 1.5 },
        signal,
      )
      skipIfDisturbed(run, skip)
      const { p50Ms } = summarise(run.latencyMs)
      expect(Math.abs(p50Ms / 120 - 1)).toBeLessThan(most)
      // Little's law.
      expect(Math.abs(run.latencyMs.length / run.elapsedS / (places / 0.03) - 1)).toBeLessThan(0.08)
    },
  )
})
