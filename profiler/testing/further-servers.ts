/**
 * Servers in virtual time by the policies that real ones have beside their queue: what they refuse,
 * whom they let wait, how they come by a worker, what they remember. Held out: no constant of the
 * search was chosen with them.
 */

import type { Slo } from '../model/slo.ts'
import type { VirtualServer } from '../model/virtual-server.ts'
import { sampleGamma, type Uniform } from '../seeded-random.ts'
import { DisciplineServer } from './discipline-server.ts'
import { bucket } from './held-out-servers.ts'
import { IterationServer } from './iteration-server.ts'
import { QueueServer } from './queue-server.ts'
import { QuotaServer } from './quota-server.ts'
import type { VirtualCase } from './virtual-servers.ts'

const slo = (limitMs: number): Slo => ({ percentile: 0.99, limitMs, maxErrorRate: 0.001 })
const jitter = (uniform: Uniform, cv: number) => sampleGamma(uniform, 1 / cv ** 2)
const oldest = () => 0

const of = (
  name: string,
  limitMs: number,
  server: (seed: number) => VirtualServer,
  batching = false,
): VirtualCase => ({
  name: `further: ${name}`,
  slo: slo(limitMs),
  batching,
  server,
})

/**
 * Lets in so many at a time: more by one for as many answers in time, less by a tenth for each that
 * comes late (additive increase, multiplicative decrease).
 */
function adaptiveLimit(lateMs: number) {
  let limit = 20
  return {
    admits: (_: number, there: number) => there < limit,
    answered: (ms: number) => {
      limit = ms > lateMs ? Math.max(4, 0.9 * limit) : limit + 1 / limit
    },
  }
}

/**
 * Workers that end after so many requests each, between `fewest` and a quarter more, and are away
 * for a while as others start in their place.
 */
function recycled(workers: number, fewest: number, awayMs: number) {
  const left = new Map<number, number>()
  const lifeOf = (uniform: Uniform) => Math.ceil(fewest * (1 + uniform() / 4))
  return (worker: number, uniform: Uniform): number => {
    // The first ones began at different times.
    const now = (left.get(worker) ?? Math.ceil((lifeOf(uniform) * (worker + 1)) / workers)) - 1
    left.set(worker, now > 0 ? now : lifeOf(uniform))
    return now > 0 ? 0 : awayMs
  }
}

/**
 * Keeps the inputs that were asked for last, of many that are asked for the less often the later
 * they stand (Zipf): what it has is served in `hitMs`.
 */
function leastRecentlyUsed(hitMs: number, missMs: number, kept: number, inputs: number) {
  const cumulated: number[] = []
  for (let i = 1; i <= inputs; i++) cumulated.push((cumulated.at(-1) ?? 0) + 1 / i)
  const known = new Set<number>()
  return (_: number, uniform: Uniform): number => {
    const at = uniform() * cumulated.at(-1)!
    const input = cumulated.findIndex((upTo) => upTo > at)
    const hit = known.delete(input)
    known.add(input)
    if (known.size > kept) known.delete(known.values().next().value!)
    return hit ? hitMs : missMs
  }
}

/**
 * One worker that collects its garbage after so many requests: the longer, the more of them came in
 * the last second.
 */
function collecting(ms: number, each: number, baseMs: number, perRequestMs: number) {
  const startedMs: number[] = []
  let served = 0
  return (_: number, uniform: Uniform, atMs: number): number => {
    startedMs.push(atMs)
    while (startedMs[0]! < atMs - 1000) startedMs.shift()
    served++
    return (
      ms * jitter(uniform, 0.1) +
      (served % each === 0 ? baseMs + perRequestMs * startedMs.length : 0)
    )
  }
}

/**
 * One worker that is slow for the first request after a rest: its caches are cold, its clock is
 * low.
 */
function wakingUp(ms: number, cold: number, restMs: number) {
  let endedMs = Number.NEGATIVE_INFINITY
  return (_: number, uniform: Uniform, atMs: number): number => {
    const took = ms * jitter(uniform, 0.1) * (atMs - endedMs > restMs ? cold : 1)
    endedMs = atMs + took
    return took
  }
}

/**
 * Times as long that requests are served which a server has not had many of yet: so many at first,
 * and e times less of what is too much with every `requests` (a compiler, caches).
 */
function warming(times: number, requests: number) {
  let served = 0
  return (batch = 1): number => {
    const factor = 1 + (times - 1) * Math.exp(-served / requests)
    served += batch
    return factor
  }
}

/** Lengths of requests, as factors, and how often each comes. */
const lengths = [
  [1, 0.5],
  [1.5, 0.3],
  [2.5, 0.15],
  [4, 0.05],
] as const

/** A batch padded to its longest request. */
function padded(baseMs: number, eachMs: number) {
  const lengthOf = (uniform: Uniform): number => {
    let at = uniform()
    for (const [length, share] of lengths) {
      if (at < share) return length
      at -= share
    }
    return lengths.at(-1)![0]
  }
  return (batch: number, uniform: Uniform): number => {
    let longest = 0
    for (let i = 0; i < batch; i++) longest = Math.max(longest, lengthOf(uniform))
    return (baseMs + eachMs * batch) * longest
  }
}

/** Workers that share so many ms of computing time in each period, Linux' own unless said. */
const throttled =
  (
    quotaMs: number,
    workers: number,
    maxBatch: number,
    workMs: (batch: number, uniform: Uniform) => number,
    periodMs = 100,
  ) =>
  (seed: number) =>
    new QuotaServer({ seed, workers, maxBatch, quotaMs, periodMs, workMs })

export const furtherCases: readonly VirtualCase[] = [
  of(
    'one worker 4 ms, 60 of each 100 ms of computing time',
    60,
    throttled(60, 1, 1, (_, uniform) => 4 * jitter(uniform, 0.2)),
  ),
  of(
    'one worker 7 ms, 50 of each 100 ms of computing time',
    200,
    throttled(50, 1, 1, (_, uniform) => 7 * jitter(uniform, 0.4)),
  ),
  of(
    'batches of 16 in 5 + 0.5 n ms, 50 of each 100 ms of computing time',
    200,
    throttled(50, 1, 16, (batch, uniform) => (5 + 0.5 * batch) * jitter(uniform, 0.1)),
    true,
  ),
  of(
    'four workers 12 ms, 100 of each 100 ms of computing time',
    300,
    throttled(100, 4, 1, (_, uniform) => 12 * jitter(uniform, 0.3)),
  ),
  of(
    'four workers 20 ms, 200 of each 100 ms of computing time',
    200,
    throttled(200, 4, 1, (_, uniform) => 20 * jitter(uniform, 0.5)),
  ),
  of(
    'one worker 5 ms, 90 of each 100 ms of computing time',
    80,
    throttled(90, 1, 1, (_, uniform) => 5 * jitter(uniform, 0.3)),
  ),
  of(
    'one worker 6 ms, 125 of each 250 ms of computing time',
    400,
    throttled(125, 1, 1, (_, uniform) => 6 * jitter(uniform, 0.3), 250),
  ),
  of(
    'two workers, batches of 8 in 10 + 2 n ms, 120 of each 100 ms of computing time',
    250,
    throttled(120, 2, 8, (batch, uniform) => (10 + 2 * batch) * jitter(uniform, 0.1)),
    true,
  ),
  of(
    'two workers 15 ms, 160 of each 100 ms of computing time',
    150,
    throttled(160, 2, 1, (_, uniform) => 15 * jitter(uniform, 0.4)),
  ),
  of(
    'one worker 8 ms, 75 of each 100 ms of computing time',
    120,
    throttled(75, 1, 1, (_, uniform) => 8 * jitter(uniform, 0.6)),
  ),
  of(
    'eight workers 30 ms, 100 of each 100 ms of computing time',
    500,
    throttled(100, 8, 1, (_, uniform) => 30 * jitter(uniform, 0.3)),
  ),
  of(
    'three workers, 80 % 4 ms, 20 % 25 ms, 150 of each 100 ms of computing time',
    150,
    throttled(150, 3, 1, (_, uniform) => (uniform() < 0.8 ? 4 : 25) * jitter(uniform, 0.1)),
  ),
  of(
    'one worker 6 ms, requests that waited 80 ms are refused',
    150,
    (seed) =>
      new DisciplineServer({
        seed,
        servers: 1,
        workMs: (uniform) => 6 * jitter(uniform, 0.3),
        takes: oldest,
        patienceMs: 80,
      }),
  ),
  of(
    'two workers 9 ms, last come first from ten on',
    120,
    (seed) =>
      new DisciplineServer({
        seed,
        servers: 2,
        workMs: (uniform) => 9 * jitter(uniform, 0.4),
        takes: (waiting) => (waiting.length > 10 ? waiting.length - 1 : 0),
      }),
  ),
  of(
    'four workers 14 ms, 429 beyond 12 in flight',
    200,
    (seed) =>
      new DisciplineServer({
        seed,
        servers: 4,
        workMs: (uniform) => 14 * jitter(uniform, 0.7),
        takes: oldest,
        admits: (_, there) => there < 12,
      }),
  ),
  of(
    'two workers 10 ms, 429 by a limit that adapts',
    150,
    (seed) =>
      new DisciplineServer({
        seed,
        servers: 2,
        workMs: (uniform) => 10 * jitter(uniform, 0.5),
        takes: oldest,
        ...adaptiveLimit(60),
      }),
  ),
  of(
    'two workers 8 ms, a tenth of the requests last',
    100,
    (seed) =>
      new DisciplineServer({
        seed,
        servers: 2,
        workMs: (uniform) => 8 * jitter(uniform, 0.3),
        marked: true,
        takes: (waiting) =>
          Math.max(
            0,
            waiting.findIndex(({ mark }) => mark >= 0.1),
          ),
      }),
  ),
  of(
    'four workers 12 ms, each with a queue of its own',
    120,
    (seed) =>
      new DisciplineServer({
        seed,
        servers: 4,
        workMs: (uniform) => 12 * jitter(uniform, 0.2),
        marked: true,
        takes: (waiting, worker) =>
          waiting.findIndex(({ mark }) => Math.floor(4 * mark) === worker),
      }),
  ),
  of(
    'batches of 16 in 6 + 0.6 n ms, padded to the longest of four lengths',
    250,
    (seed) => new QueueServer({ seed, servers: 1, maxBatch: 16, serviceMs: padded(6, 0.6) }),
    true,
  ),
  of(
    'continuous batches of 16, 4 to 12 iterations of 2 + 0.15 n ms',
    120,
    (seed) =>
      new IterationServer({
        seed,
        places: 16,
        iterations: (uniform) => 4 + Math.floor(9 * uniform()),
        iterationMs: (together) => 2 + 0.15 * together,
      }),
    true,
  ),
  of(
    'four workers 10 ms, started anew after 100 requests',
    100,
    (seed) =>
      new DisciplineServer({
        seed,
        servers: 4,
        workMs: (uniform) => 10 * jitter(uniform, 0.2),
        takes: oldest,
        restsMs: recycled(4, 100, 300),
      }),
  ),
  of(
    'a cache of the last 300 of 1500 inputs, 4 and 20 ms',
    120,
    (seed) =>
      new QueueServer({
        seed,
        servers: 1,
        maxBatch: 1,
        serviceMs: leastRecentlyUsed(4, 20, 300, 1500),
      }),
  ),
  of(
    'token bucket, 60/s and 300 more',
    50,
    (seed) =>
      new DisciplineServer({
        seed,
        servers: 4,
        workMs: () => 5,
        takes: oldest,
        admits: bucket(60, 300),
      }),
  ),
  of(
    'one worker 4 ms, garbage the longer the more came',
    120,
    (seed) =>
      new QueueServer({ seed, servers: 1, maxBatch: 1, serviceMs: collecting(4, 120, 8, 0.2) }),
  ),
  of(
    'two workers 10 ms, 24 connections, others come again after 1 s',
    300,
    (seed) =>
      new DisciplineServer({
        seed,
        servers: 2,
        workMs: (uniform) => 10 * jitter(uniform, 0.3),
        takes: oldest,
        admits: (_, there) => there < 24,
        comesAgainMs: 1000,
      }),
  ),
  of(
    'one worker 6 ms, up to half as long again the more wait',
    90,
    (seed) =>
      new QueueServer({
        seed,
        servers: 1,
        maxBatch: 1,
        serviceMs: (_, uniform, __, waiting) =>
          6 * jitter(uniform, 0.1) * (1 + Math.min(0.5, 0.04 * waiting)),
      }),
  ),
  of(
    'one worker 6 ms, 12 ms after a rest of 10 ms',
    60,
    (seed) => new QueueServer({ seed, servers: 1, maxBatch: 1, serviceMs: wakingUp(6, 2, 10) }),
  ),
  of('two workers 14 ms, four times that at first', 120, (seed) => {
    const slower = warming(4, 500)
    return new QueueServer({
      seed,
      servers: 2,
      maxBatch: 1,
      serviceMs: (_, uniform) => 14 * jitter(uniform, 0.2) * slower(),
    })
  }),
  of(
    'batches of 8 in 15 + 4 n ms, four times that at first',
    200,
    (seed) => {
      const slower = warming(4, 300)
      return new QueueServer({
        seed,
        servers: 1,
        maxBatch: 8,
        serviceMs: (n, uniform) => (15 + 4 * n) * jitter(uniform, 0.05) * slower(n),
      })
    },
    true,
  ),
]
