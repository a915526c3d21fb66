/**
 * Servers in virtual time that the gate measures (docs/research/gate.md): the kinds of
 * drawn-servers.ts, and five more with a CPU quota, a token bucket or another order of service.
 * Another seed gives other servers.
 */
import { DisciplineServer } from './discipline-server.ts'
import {
  batchTimes,
  casesOf,
  type DrawServer,
  declare,
  jitter,
  kinds,
  percent,
} from './drawn-servers.ts'
import { bucket } from './held-out-servers.ts'
import { IterationServer } from './iteration-server.ts'
import { QuotaServer } from './quota-server.ts'
import type { VirtualCase } from './virtual-servers.ts'

/** Period of a CPU quota, ms: the default of Linux. */
const periodMs = 100

const furtherKinds: readonly DrawServer[] = [
  (draws) => {
    const [workers, ms, cv] = [draws.whole(1, 4), draws.between(4, 20), draws.of(0.1, 0.3, 0.6)]
    const quotaMs = Math.round(workers * periodMs * draws.between(0.4, 0.9))
    return {
      what: `${workers} workers ${ms} ms, cv ${cv}, ${quotaMs} of each ${periodMs} ms of CPU`,
      busyMs: periodMs / 2 + ms * (1 + 3 * cv),
      declared: declare(workers),
      server: (seed) =>
        new QuotaServer({
          seed,
          workers,
          maxBatch: 1,
          quotaMs,
          periodMs,
          workMs: (_, u) => ms * jitter(u, cv),
        }),
    }
  },
  (draws) => {
    const { most, fullMs, serviceMs, what } = batchTimes(draws)
    const quotaMs = Math.round(periodMs * draws.between(0.4, 0.9))
    return {
      what: `${what}, ${quotaMs} of each ${periodMs} ms of CPU`,
      busyMs: fullMs + periodMs,
      batching: true,
      declared: declare(1, most),
      server: (seed) =>
        new QuotaServer({ seed, workers: 1, maxBatch: most, quotaMs, periodMs, workMs: serviceMs }),
    }
  },
  (draws) => {
    const [perSecond, burst, ms] = [
      draws.between(40, 300),
      draws.whole(10, 100),
      draws.between(2, 10),
    ]
    return {
      what: `${ms} ms, token bucket of ${burst}, ${perSecond} a second`,
      busyMs: 6 * ms,
      declared: declare(8),
      server: (seed) =>
        new DisciplineServer({
          seed,
          servers: 8,
          workMs: () => ms,
          takes: () => 0,
          admits: bucket(perSecond, burst),
        }),
    }
  },
  (draws) => {
    const [servers, ms, times, share] = [
      draws.whole(1, 3),
      draws.between(4, 15),
      draws.between(2, 5),
      draws.between(0.05, 0.3),
    ]
    const isLast = draws.of(true, false)
    return {
      what: `${servers} workers ${ms} ms, ${percent(share)} ${times} times as long, ${isLast ? 'last come' : 'short ones'} first`,
      busyMs: ms * times * 3,
      server: (seed) =>
        new DisciplineServer({
          seed,
          servers,
          workMs: (u) => ms * jitter(u, 0.2) * (u() < share ? times : 1),
          takes: (waiting) =>
            isLast
              ? waiting.length - 1
              : Math.max(
                  0,
                  waiting.findIndex(({ workMs }) => workMs < (ms * (1 + times)) / 2),
                ),
        }),
    }
  },
  (draws) => {
    const [places, fewest, more, baseMs, eachMs] = [
      draws.of(4, 8, 16, 32),
      draws.whole(2, 6),
      draws.whole(2, 12),
      draws.between(1, 6),
      draws.between(0.05, 0.4),
    ]
    return {
      what: `continuous batches of ${places}, ${fewest} to ${fewest + more} iterations of ${baseMs} + ${eachMs} n ms`,
      busyMs: (fewest + more) * (baseMs + eachMs * places),
      batching: true,
      server: (seed) =>
        new IterationServer({
          seed,
          places,
          iterations: (u) => fewest + Math.floor((more + 1) * u()),
          iterationMs: (n) => baseMs + eachMs * n,
        }),
    }
  },
]

/** Three servers of each of 21 kinds. @param seed whole, of which all of them come */
export const gateServers = (seed: number): VirtualCase[] =>
  casesOf('gate', seed, [...kinds, ...furtherKinds])
