/**
 * Servers in virtual time that are simple enough for their capacity to be known beyond doubt, by
 * closed form or by millions of arrivals.
 */

import type { Slo } from '../model/slo.ts'
import type { Uniform } from '../seeded-random.ts'
import { QueueServer, type QueueServerOptions } from './queue-server.ts'
import type { VirtualCase } from './virtual-servers.ts'

const slo = (limitMs: number): Slo => ({ percentile: 0.99, limitMs, maxErrorRate: 0.001 })

type Service = QueueServerOptions['serviceMs']
const server = (serviceMs: () => Service, rest: Partial<QueueServerOptions> = {}) => {
  return (seed: number) =>
    new QueueServer({ seed, servers: 1, maxBatch: 1, ...rest, serviceMs: serviceMs() })
}

/** A queue in virtual time, which a process can serve as well (server-child.ts). */
interface SimpleCase extends VirtualCase {
  server(seed: number): QueueServer
}
const fixed =
  (ms: number): (() => Service) =>
  () =>
  () =>
    ms
const batches =
  (baseMs: number, eachMs: number): (() => Service) =>
  () =>
  (batch) =>
    baseMs + eachMs * batch
const twoKinds =
  (oftenMs: number, rareMs: number, rareShare: number): (() => Service) =>
  () =>
  (_, uniform: Uniform) =>
    uniform() < rareShare ? rareMs : oftenMs

/** Stands still for `stallMs` every `everyMs`, whatever it is doing. */
const stalling =
  (ms: number, stallMs: number, everyMs: number): (() => Service) =>
  () =>
  (_batch, _uniform, atMs) => {
    const into = atMs % everyMs
    // Stalls begin at whole periods, the first after one.
    const rest = atMs >= everyMs && into < stallMs ? stallMs - into : 0
    const untilNext = everyMs - (into + rest)
    return rest + ms + (ms > untilNext ? stallMs : 0)
  }

/**
 * Gets from `slower` times as slow to its own speed over its first requests: at once after them, or
 * evenly.
 */
const warmingUp =
  (ms: number, slower: number, requests: number, how: 'at once' | 'evenly'): (() => Service) =>
  () => {
    let served = 0
    return () => {
      const left = Math.max(0, 1 - served++ / requests)
      return ms * (1 + (slower - 1) * (how === 'at once' ? Math.ceil(left) : left))
    }
  }

const of = (
  name: string,
  limitMs: number,
  make: SimpleCase['server'],
  batching = false,
): SimpleCase => ({
  name,
  slo: slo(limitMs),
  batching,
  server: make,
})

/**
 * With an SLO that is long beside a service, as people's own servers have: their capacity is nearly
 * all of what they can do.
 */
const longSloCases: readonly SimpleCase[] = [
  of('FIFO 3 ms, within 500 ms', 500, server(fixed(3))),
  of('FIFO 20 ms, within 500 ms', 500, server(fixed(20))),
  of('FIFO 1 ms, within 1 s', 1000, server(fixed(1))),
  of(
    'batches of 16 in 5 + 0.5 n ms, within 500 ms',
    500,
    server(batches(5, 0.5), { maxBatch: 16 }),
    true,
  ),
  of('two workers, 10 ms, within 1 s', 1000, server(fixed(10), { servers: 2 })),
  of('four workers, 50 ms, within 2 s', 2000, server(fixed(50), { servers: 4 })),
  of(
    'two workers, 90 % 8 ms, 10 % 30 ms, within 1 s',
    1000,
    server(twoKinds(8, 30, 0.1), { servers: 2 }),
  ),
]

/** Those that results are reported for. */
export const simpleCases: readonly SimpleCase[] = [
  of('FIFO 8 ms', 60, server(fixed(8))),
  of('batches of 16 in 5 + 0.5 n ms', 60, server(batches(5, 0.5), { maxBatch: 16 }), true),
  of('two workers, 95 % 4 ms, 5 % 40 ms', 60, server(twoKinds(4, 40, 0.05), { servers: 2 })),
  of('FIFO 4 ms, 30 ms stall each 2 s', 60, server(stalling(4, 30, 2000))),
  of('FIFO 4 ms, refuses beyond 64', 400, server(fixed(4), { queueLimit: 64 })),
  of('FIFO 8 ms, first 300 5x slower', 60, server(warmingUp(8, 5, 300, 'at once'))),
  of('FIFO 8 ms, from 5x over 300', 60, server(warmingUp(8, 5, 300, 'evenly'))),
  ...longSloCases,
]

/** Those that constants were chosen with. */
export const developmentCases: readonly SimpleCase[] = [
  of('dev: FIFO 11 ms', 90, server(fixed(11))),
  of('dev: batches of 8 in 3 + 1.2 n ms', 50, server(batches(3, 1.2), { maxBatch: 8 }), true),
  of(
    'dev: batches of 64 in 10 + 0.25 n ms',
    100,
    server(batches(10, 0.25), { maxBatch: 64 }),
    true,
  ),
  of('dev: three workers, 90 % 6 ms, 10 % 45 ms', 80, server(twoKinds(6, 45, 0.1), { servers: 3 })),
  of('dev: FIFO 5 ms, 40 ms stall each 1.5 s', 90, server(stalling(5, 40, 1500))),
  of('dev: FIFO 3 ms, refuses beyond 40', 300, server(fixed(3), { queueLimit: 40 })),
  of('dev: FIFO 6 ms, first 500 4x slower', 50, server(warmingUp(6, 4, 500, 'at once'))),
  of('dev: FIFO 5 ms, from 8x over 200', 45, server(warmingUp(5, 8, 200, 'evenly'))),
  of('dev: FIFO 7 ms, within 800 ms', 800, server(fixed(7))),
  of(
    'dev: batches of 8 in 20 + 4 n ms, within 2 s',
    2000,
    server(batches(20, 4), { maxBatch: 8 }),
    true,
  ),
  of(
    'dev: three workers, 80 % 10 ms, 20 % 60 ms, within 3 s',
    3000,
    server(twoKinds(10, 60, 0.2), { servers: 3 }),
  ),
]

export const caseNamed = (name: string): SimpleCase =>
  simpleCases.find((known) => known.name === name)!
