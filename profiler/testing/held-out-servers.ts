/**
 * Servers in virtual time of kinds that no constant of the search was chosen with: results are
 * reported for them.
 */

import type { Slo } from '../model/slo.ts'
import { sampleGamma, sampleNormal, type Uniform } from '../seeded-random.ts'
import { DisciplineServer } from './discipline-server.ts'
import { QueueServer } from './queue-server.ts'
import type { VirtualCase } from './virtual-servers.ts'

const slo = (limitMs: number): Slo => ({ percentile: 0.99, limitMs, maxErrorRate: 0.001 })
const oldest = () => 0

/** Lets in so many a second, and so many more after a rest. */
export function bucket(perSecond: number, most: number): (atMs: number) => boolean {
  let [tokens, lastMs] = [most, 0]
  return (atMs) => {
    tokens = Math.min(most, tokens + ((atMs - lastMs) * perSecond) / 1000)
    lastMs = atMs
    if (tokens < 1) return false
    tokens--
    return true
  }
}

/** Each of so many inputs takes longer the first time. */
function cached(
  ms: number,
  firstMs: number,
  inputs: number,
): (batch: number, uniform: Uniform) => number {
  const known = new Set<number>()
  return (_, uniform) => {
    const input = Math.floor(uniform() * inputs)
    if (known.has(input)) return ms
    known.add(input)
    return firstMs
  }
}

export const heldOutCases: readonly VirtualCase[] = [
  {
    name: 'held out: M/G/3, lognormal 12 ms',
    slo: slo(90),
    batching: false,
    server: (seed) =>
      new QueueServer({
        seed,
        servers: 3,
        maxBatch: 1,
        serviceMs: (_, uniform) => 12 * Math.exp(0.5 * sampleNormal(uniform)),
      }),
  },
  {
    name: 'held out: batches of 8, waits 20 ms for them',
    slo: slo(100),
    batching: true,
    server: (seed) =>
      new QueueServer({
        seed,
        servers: 1,
        maxBatch: 8,
        maxDelayMs: 20,
        serviceMs: (n, uniform) => (10 + 2 * n) * sampleGamma(uniform, 400),
      }),
  },
  {
    name: 'held out: token bucket, 60/s and 25 more',
    slo: slo(50),
    batching: false,
    server: (seed) =>
      new DisciplineServer({
        seed,
        servers: 4,
        workMs: () => 5,
        takes: oldest,
        admits: bucket(60, 25),
      }),
  },
  {
    name: 'held out: last come first served, two workers',
    slo: slo(120),
    batching: false,
    server: (seed) =>
      new DisciplineServer({
        seed,
        servers: 2,
        workMs: (uniform) => 12 * sampleGamma(uniform, 8),
        takes: (waiting) => waiting.length - 1,
      }),
  },
  {
    name: 'held out: short ones first, 80 % 6 ms, 20 % 25 ms',
    slo: slo(200),
    batching: false,
    server: (seed) =>
      new DisciplineServer({
        seed,
        servers: 1,
        workMs: (uniform) => (uniform() < 0.2 ? 25 : 6),
        takes: (waiting) =>
          Math.max(
            0,
            waiting.findIndex(({ workMs }) => workMs < 10),
          ),
      }),
  },
  {
    name: 'held out: 8 ms, 40 ms for the first of each of 120 inputs',
    slo: slo(60),
    batching: false,
    server: (seed) =>
      new QueueServer({ seed, servers: 1, maxBatch: 1, serviceMs: cached(8, 40, 120) }),
  },
]
