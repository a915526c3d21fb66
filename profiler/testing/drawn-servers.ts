/**
 * Servers in virtual time drawn at random, of many kinds: their times, sizes and SLOs come from a
 * seed. Some ("drawn") are there to develop with, the others ("drawn apart") for figures to report:
 * `npm run bench:profiler -- 8 '^drawn apart' '^quick$'`.
 */

import type { DeclaredDiscipline } from '../model/declared-discipline.ts'
import type { VirtualServer } from '../model/virtual-server.ts'
import { createUniform, sampleGamma, sampleNormal, type Uniform } from '../seeded-random.ts'
import { DisciplineServer } from './discipline-server.ts'
import { QueueServer, type QueueServerOptions } from './queue-server.ts'
import { SharingServer } from './sharing-server.ts'
import { StagedServer } from './staged-server.ts'
import type { VirtualCase } from './virtual-servers.ts'

/** Numbers of a server, drawn one after the other. */
export class Draws {
  private readonly uniform: Uniform
  constructor(seed: number) {
    this.uniform = createUniform(seed)
  }

  /** Evenly in the logarithm, to two digits. */
  between(low: number, high: number): number {
    return Number((low * (high / low) ** this.uniform()).toPrecision(2))
  }

  whole(low: number, high: number): number {
    return low + Math.floor(this.uniform() * (high - low + 1))
  }

  of<T>(...values: readonly T[]): T {
    return values[Math.floor(this.uniform() * values.length)]!
  }
}

/** A server of a kind: what it is, a time to hold its SLO against (ms), and itself. */
export interface Drawn {
  readonly what: string
  readonly busyMs: number
  readonly batching?: boolean
  /** What its configuration would declare. */
  readonly declared?: DeclaredDiscipline
  readonly server: (seed: number) => VirtualServer
}

/** Declares workers that take single requests, or batches. */
export const declare = (workers: number, maxBatch = 1, maxDelayMs = 0): DeclaredDiscipline => ({
  workers,
  maxBatch,
  maxDelayMs,
})

export const percent = (share: number) => `${(100 * share).toPrecision(2)} %`
export const jitter = (uniform: Uniform, cv: number) =>
  cv === 0 ? 1 : sampleGamma(uniform, 1 / cv ** 2)
const queue = (options: Omit<QueueServerOptions, 'seed'>) => (seed: number) =>
  new QueueServer({ ...options, seed })

/** Batches of `most` in a + b n ms, varying by `cv`. */
export function batchTimes(draws: Draws) {
  const most = draws.of(4, 8, 16, 32, 64)
  const [baseMs, eachMs, cv] = [
    draws.between(3, 30),
    draws.between(0.2, 3),
    draws.of(0, 0.03, 0.08),
  ]
  const fullMs = baseMs + eachMs * most
  const serviceMs = (n: number, uniform: Uniform) => (baseMs + eachMs * n) * jitter(uniform, cv)
  return { most, fullMs, serviceMs, what: `batches of ${most} in ${baseMs} + ${eachMs} n ms` }
}

function waitingBatches(draws: Draws, waitsSince: 'arrival' | 'free', servers: number): Drawn {
  const { most, fullMs, serviceMs, what } = batchTimes(draws)
  const maxDelayMs = draws.of(2, 5, 10, 20, 50)
  const several = servers > 1 ? `${servers} x ` : ''
  return {
    what: `${several}${what}, ${maxDelayMs} ms for one another${waitsSince === 'free' ? ' once free' : ''}`,
    busyMs: fullMs + maxDelayMs,
    batching: true,
    ...(waitsSince === 'arrival' && { declared: declare(servers, most, maxDelayMs) }),
    server: queue({ servers, maxBatch: most, maxDelayMs, waitsSince, serviceMs }),
  }
}

/** Times by the clock that come after gaps at random, or regular, and last a while. */
function spells(
  seed: number,
  gapMs: number,
  regular: boolean,
  lastMs: (uniform: Uniform) => number,
) {
  const clock = createUniform(seed + 4000)
  const gap = () => (regular ? gapMs : -gapMs * Math.log(clock()))
  let fromMs = gap()
  let untilMs = fromMs + lastMs(clock)
  return (atMs: number) => {
    while (atMs > untilMs) {
      fromMs = untilMs + gap()
      untilMs = fromMs + lastMs(clock)
    }
    return { fromMs, untilMs }
  }
}

function stalling(draws: Draws): Drawn {
  const { most, fullMs, serviceMs, what } = batchTimes(draws)
  const [gapMs, stallMs, regular] = [
    draws.between(500, 3000),
    draws.between(20, 120),
    draws.of(true, false),
  ]
  return {
    what: `${what}, ${stallMs} ms stalls each ${gapMs} ms${regular ? '' : ' at random'}`,
    busyMs: fullMs + stallMs,
    batching: true,
    declared: declare(1, most),
    server: (seed) => {
      const stall = spells(seed, gapMs, regular, () => stallMs)
      return new QueueServer({
        seed,
        servers: 1,
        maxBatch: most,
        serviceMs: (n, uniform, atMs) => {
          const { fromMs, untilMs } = stall(atMs)
          const rest = atMs > fromMs ? untilMs - atMs : 0
          const ms = serviceMs(n, uniform)
          return rest + ms + (rest === 0 && atMs + ms > fromMs ? stallMs : 0)
        },
      })
    },
  }
}

function slowTimes(draws: Draws): Drawn {
  const { most, fullMs, serviceMs, what } = batchTimes(draws)
  const [gapMs, lastMs, factor] = [
    draws.between(1000, 4000),
    draws.between(100, 300),
    draws.of(1.5, 2, 2.5),
  ]
  return {
    what: `${what}, ${factor} times as long for ${lastMs} of ${gapMs} ms`,
    busyMs: fullMs * factor,
    batching: true,
    declared: declare(1, most),
    server: (seed) => {
      const slow = spells(seed, gapMs, false, (uniform) => 2 * lastMs * uniform())
      return new QueueServer({
        seed,
        servers: 1,
        maxBatch: most,
        serviceMs: (n, uniform, atMs) =>
          serviceMs(n, uniform) * (atMs > slow(atMs).fromMs ? factor : 1),
      })
    },
  }
}

/** Lets in so many in each second, or part of it, of the clock. */
function windowLimit(most: number, windowMs: number): (atMs: number) => boolean {
  let [window, count] = [0, 0]
  return (atMs) => {
    const now = Math.floor(atMs / windowMs)
    if (now !== window) [window, count] = [now, 0]
    return count++ < most
  }
}

export type DrawServer = (draws: Draws) => Drawn

export const kinds: readonly DrawServer[] = [
  (draws) => {
    const [ms, cv] = [draws.between(2, 40), draws.of(0, 0.1, 0.3, 0.6)]
    return {
      what: `FIFO ${ms} ms, cv ${cv}`,
      busyMs: ms * (1 + 3 * cv),
      declared: declare(1),
      server: queue({ servers: 1, maxBatch: 1, serviceMs: (_, u) => ms * jitter(u, cv) }),
    }
  },
  (draws) => {
    const [servers, ms, cv] = [draws.whole(2, 8), draws.between(5, 60), draws.of(0.1, 0.3, 0.6)]
    return {
      what: `${servers} workers ${ms} ms, cv ${cv}`,
      busyMs: ms * (1 + 3 * cv),
      declared: declare(servers),
      server: queue({ servers, maxBatch: 1, serviceMs: (_, u) => ms * jitter(u, cv) }),
    }
  },
  (draws) => {
    const [servers, ms, times, share] = [
      draws.whole(1, 4),
      draws.between(3, 15),
      draws.between(3, 10),
      draws.between(0.02, 0.15),
    ]
    return {
      what: `${servers} workers ${ms} ms, ${percent(share)} ${times} times as long`,
      busyMs: ms * times,
      declared: declare(servers),
      server: queue({ servers, maxBatch: 1, serviceMs: (_, u) => ms * (u() < share ? times : 1) }),
    }
  },
  (draws) => {
    const [servers, ms, sigma] = [draws.whole(1, 4), draws.between(4, 30), draws.between(0.4, 0.9)]
    return {
      what: `${servers} workers, lognormal ${ms} ms, sigma ${sigma}`,
      busyMs: ms * Math.exp(2 * sigma),
      declared: declare(servers),
      server: queue({
        servers,
        maxBatch: 1,
        serviceMs: (_, u) => ms * Math.exp(sigma * sampleNormal(u)),
      }),
    }
  },
  (draws) => {
    const { most, fullMs, serviceMs, what } = batchTimes(draws)
    return {
      what,
      busyMs: fullMs,
      batching: true,
      declared: declare(1, most),
      server: queue({ servers: 1, maxBatch: most, serviceMs }),
    }
  },
  (draws) => waitingBatches(draws, 'arrival', 1),
  (draws) => waitingBatches(draws, 'free', 1),
  (draws) => waitingBatches(draws, 'arrival', draws.whole(2, 4)),
  (draws) => {
    const { most, fullMs, serviceMs, what } = batchTimes(draws)
    const servers = draws.whole(2, 4)
    return {
      what: `${servers} x ${what}`,
      busyMs: fullMs,
      batching: true,
      declared: declare(servers, most),
      server: queue({ servers, maxBatch: most, serviceMs }),
    }
  },
  (draws) => {
    const { most, fullMs, serviceMs, what } = batchTimes(draws)
    const maxDelayMs = draws.of(0, 5)
    const padded = (n: number) => 2 ** Math.ceil(Math.log2(n))
    return {
      what: `${what}, padded to powers of two, ${maxDelayMs} ms for one another`,
      busyMs: fullMs + maxDelayMs,
      batching: true,
      declared: declare(1, most, maxDelayMs),
      server: queue({
        servers: 1,
        maxBatch: most,
        maxDelayMs,
        serviceMs: (n, u) => serviceMs(padded(n), u),
      }),
    }
  },
  (draws) => {
    const { most, fullMs, what } = batchTimes(draws)
    const sigma = draws.between(0.2, 0.6)
    return {
      what: `${what.replace(/in .*/, '')}as long as the longest of them, lognormal ${fullMs.toPrecision(2)} ms, sigma ${sigma}`,
      busyMs: fullMs * Math.exp(2 * sigma),
      batching: true,
      declared: declare(1, most),
      server: queue({
        servers: 1,
        maxBatch: most,
        serviceMs: (n, u) => {
          let longest = 0
          for (let i = 0; i < n; i++)
            longest = Math.max(longest, fullMs * Math.exp(sigma * sampleNormal(u)))
          return longest
        },
      }),
    }
  },
  (draws) => {
    const { most, fullMs, serviceMs, what } = batchTimes(draws)
    const [cores, maxDelayMs, decodeMs, writeMs] = [
      draws.whole(1, 4),
      draws.of(0, 2, 5),
      draws.between(0.1, 2),
      draws.of(0, 0.05),
    ]
    return {
      what: `${cores} cores ${decodeMs} ms, then ${what}, ${maxDelayMs} ms for one another`,
      busyMs: fullMs + maxDelayMs + decodeMs,
      batching: true,
      declared: declare(1, most, maxDelayMs),
      server: (seed) =>
        new StagedServer({
          seed,
          cores,
          maxBatch: most,
          maxDelayMs,
          decodeMs: (u) => decodeMs * jitter(u, 0.3),
          batchMs: serviceMs,
          writeMs: (u) => writeMs * jitter(u, 0.3),
        }),
    }
  },
  (draws) => {
    const [most, windowMs, ms] = [draws.whole(30, 200), draws.of(500, 1000), draws.between(2, 10)]
    return {
      what: `${ms} ms, ${most} requests in each ${windowMs} ms of the clock`,
      busyMs: 6 * ms,
      declared: declare(8),
      server: (seed) =>
        new DisciplineServer({
          seed,
          servers: 8,
          workMs: () => ms,
          takes: () => 0,
          admits: windowLimit(most, windowMs),
        }),
    }
  },
  stalling,
  slowTimes,
  (draws) => {
    const [cores, ms, cv] = [draws.whole(1, 4), draws.between(5, 30), draws.of(0.2, 0.5, 0.8)]
    return {
      what: `${cores} cores shared, ${ms} ms, cv ${cv}`,
      busyMs: ms * (1 + 3 * cv),
      server: (seed) => new SharingServer({ seed, cores, workMs: (u) => ms * jitter(u, cv) }),
    }
  },
]

const perKind = 3

/** Three servers of each kind. */
export function casesOf(
  name: string,
  firstSeed: number,
  of: readonly DrawServer[] = kinds,
): VirtualCase[] {
  return of.flatMap((kind, k) =>
    Array.from({ length: perKind }, (_, i) => {
      const draws = new Draws(firstSeed + 100 * k + i)
      const { what, busyMs, batching = false, declared, server } = kind(draws)
      const limitMs = Number((busyMs * draws.between(2, 6)).toPrecision(2))
      return {
        name: `${name}: ${what} (${limitMs} ms)`,
        slo: { percentile: 0.99, limitMs, maxErrorRate: 0.001 },
        batching,
        declared,
        server,
      }
    }),
  )
}

export const drawnCases: readonly VirtualCase[] = [
  ...casesOf('drawn', 10_000),
  ...casesOf('drawn apart', 20_000),
]
