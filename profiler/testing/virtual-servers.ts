/**
 * Servers in virtual time that stand for kinds of real ones, with the SLO each is tested under. The
 * benchmark's cases.
 */

import type { DeclaredDiscipline } from '../model/declared-discipline.ts'
import type { Slo } from '../model/slo.ts'
import type { VirtualServer } from '../model/virtual-server.ts'
import { createUniform, sampleGamma, sampleNormal, type Uniform } from '../seeded-random.ts'
import { QueueServer, type QueueServerOptions } from './queue-server.ts'
import { SharingServer } from './sharing-server.ts'
import { StagedServer } from './staged-server.ts'

export interface VirtualCase {
  readonly name: string
  readonly slo: Slo
  readonly batching: boolean
  /** What its configuration would declare. */
  readonly declared?: DeclaredDiscipline
  server(seed: number): VirtualServer
}

const slo = (limitMs: number): Slo => ({ percentile: 0.99, limitMs, maxErrorRate: 0.001 })
const jitter = (uniform: Uniform, cv: number) => sampleGamma(uniform, 1 / cv ** 2)

type Service = QueueServerOptions['serviceMs']
const queue = (
  servers: number,
  maxBatch: number,
  serviceMs: Service,
  maxDelayMs = 0,
  overheadMs = 0,
) => {
  return (seed: number) =>
    new QueueServer({ seed, servers, maxBatch, maxDelayMs, overheadMs, serviceMs })
}
const gpuBatchMs = (batch: number, uniform: Uniform) => (5 + 0.55 * batch) * jitter(uniform, 0.04)
const gpuWithStalls = (stallMs: number) =>
  queue(1, 32, (batch, uniform) => gpuBatchMs(batch, uniform) + (uniform() < 0.01 ? stallMs : 0))

/**
 * Stalls that come by the clock, a few seconds apart at random, whatever is served: a batch that
 * meets one ends later.
 */
const stalledByTheClock = (seed: number) => {
  const clock = createUniform(seed + 5000)
  let stallAtMs = -2500 * Math.log(clock())
  const serviceMs = (batch: number, uniform: Uniform, atMs: number) => {
    const usualMs = (8 + 1.1 * batch) * jitter(uniform, 0.05)
    if (atMs + usualMs < stallAtMs) return usualMs
    while (stallAtMs <= atMs + usualMs) stallAtMs -= 2500 * Math.log(clock())
    return usualMs + 60
  }
  return new QueueServer({ seed, servers: 1, maxBatch: 16, serviceMs })
}

/**
 * Two workers whose garbage is collected after about 300 requests, 40 to 120 ms in which neither
 * works.
 */
const collectingGarbage = (seed: number) => {
  const collector = createUniform(seed + 6000)
  let untilCollection = 300
  let pausedUntilMs = 0
  const serviceMs = (_: number, uniform: Uniform, atMs: number) => {
    if (--untilCollection <= 0) {
      untilCollection = 200 + 200 * collector()
      pausedUntilMs = atMs + 40 + 80 * collector()
    }
    return 9 * jitter(uniform, 0.25) + Math.max(0, pausedUntilMs - atMs)
  }
  return new QueueServer({ seed, servers: 2, maxBatch: 1, serviceMs })
}

/**
 * A neighbour on the same device, every few seconds at random for 150 to 350 ms, in which batches
 * take twice as long.
 */
const besideANeighbour = (seed: number) => {
  const clock = createUniform(seed + 7000)
  let fromMs = -4000 * Math.log(clock())
  let untilMs = fromMs + 150 + 200 * clock()
  const serviceMs = (batch: number, uniform: Uniform, atMs: number) => {
    while (atMs > untilMs) {
      fromMs = untilMs - 4000 * Math.log(clock())
      untilMs = fromMs + 150 + 200 * clock()
    }
    return (8 + 1.1 * batch) * jitter(uniform, 0.05) * (atMs > fromMs ? 2 : 1)
  }
  return new QueueServer({ seed, servers: 1, maxBatch: 16, serviceMs })
}

/**
 * A predictor: one core decodes requests and writes answers one by one while the GPU works on a
 * batch.
 */
const decodingAndWriting = (seed: number) =>
  new StagedServer({
    seed,
    maxBatch: 32,
    maxDelayMs: 2,
    decodeMs: (uniform) => 0.12 * jitter(uniform, 0.4),
    batchMs: (batch, uniform) => (4 + 0.3 * batch) * jitter(uniform, 0.03),
    writeMs: (uniform) => 0.1 * jitter(uniform, 0.4),
  })

export const virtualCases: readonly VirtualCase[] = [
  { name: 'GPU batch 32', slo: slo(50), batching: true, server: queue(1, 32, gpuBatchMs, 2) },
  { name: 'GPU batch 32, 30 ms stalls', slo: slo(70), batching: true, server: gpuWithStalls(30) },
  { name: 'GPU batch 32, 90 ms stalls', slo: slo(150), batching: true, server: gpuWithStalls(90) },
  {
    name: 'CPU batch 8',
    slo: slo(250),
    batching: true,
    server: queue(1, 8, (batch, uniform) => (12 + 9 * batch) * jitter(uniform, 0.08)),
  },
  {
    name: 'CPU, 74 rps',
    slo: slo(60),
    batching: false,
    server: queue(1, 1, (_, uniform) => 13.5 * jitter(uniform, 0.1)),
  },
  {
    name: 'CPU, 13 rps',
    slo: slo(400),
    batching: false,
    server: queue(1, 1, (_, uniform) => 77 * jitter(uniform, 0.1)),
  },
  {
    name: 'two workers, 150 rps',
    slo: slo(60),
    batching: false,
    server: queue(2, 1, (_, uniform) => 13.5 * jitter(uniform, 0.2)),
  },
  {
    name: 'high variance',
    slo: slo(150),
    batching: false,
    server: queue(1, 1, (_, uniform) => 8 * Math.exp(0.8 * sampleNormal(uniform))),
  },
  {
    name: 'bimodal 8/58 ms',
    slo: slo(250),
    batching: false,
    server: queue(1, 1, (_, uniform) => (uniform() < 0.1 ? 58 : 8) * jitter(uniform, 0.05)),
  },
  {
    name: 'processor sharing',
    slo: slo(120),
    batching: false,
    server: (seed) =>
      new SharingServer({ seed, cores: 2, workMs: (uniform) => 15 * jitter(uniform, 0.5) }),
  },
  {
    name: 'warm-up drift',
    slo: slo(80),
    batching: true,
    server: queue(
      1,
      8,
      (batch, uniform, atMs) =>
        (6 + 3 * batch) * jitter(uniform, 0.05) * (1 + 2 * Math.exp(-atMs / 800)),
    ),
  },
  // No constant of the search was chosen by the next two; that stalls may go by the clock, and be
  // regular, was learnt from them.
  {
    name: 'batch 16, 60 ms stalls by the clock',
    slo: slo(120),
    batching: true,
    server: stalledByTheClock,
  },
  {
    name: 'two workers, garbage collection',
    slo: slo(150),
    batching: false,
    server: collectingGarbage,
  },
  // Held out: looked at only when the search was done.
  {
    name: 'batch 16, a neighbour now and then',
    slo: slo(120),
    batching: true,
    server: besideANeighbour,
  },
  // Written after real predictors had been found to be measured too low: requests take time on
  // their way; a closed loop idles a stage while it waits for the other.
  {
    name: 'FIFO 8 ms, 1.2 ms beside it',
    slo: slo(60),
    batching: false,
    server: queue(1, 1, () => 8, 0, 1.2),
  },
  {
    name: 'two workers, 95 % 4 ms, 5 % 40 ms, 1 ms beside',
    slo: slo(60),
    batching: false,
    server: queue(2, 1, (_, uniform) => (uniform() < 0.05 ? 40 : 4), 0, 1),
  },
  { name: 'CPU, then GPU batch 32', slo: slo(50), batching: true, server: decodingAndWriting },
]
