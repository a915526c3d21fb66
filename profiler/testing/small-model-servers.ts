/**
 * Small models on cores in virtual time: a batch takes nearly as long as its requests do one by
 * one, so that a full one takes more than the limit and servers keep it with a few. Their
 * figures are in docs/research/capacity.md; the way in which batches are put together was
 * repaired with these in sight.
 */
import { createUniform, sampleGamma, type Uniform } from '../seeded-random.ts'
import { QueueServer } from './queue-server.ts'
import type { VirtualCase } from './virtual-servers.ts'

/**
 * Of a machine that others use too: how much its speed varies, a coefficient of variation, and for
 * how long it stays as it is, ms, on the mean.
 */
interface Unsteady {
  readonly cv: number
  readonly forMs: number
}

const batchMs = (batch: number) => 2.2 + 6.2 * batch

const smallModel = (workers: number, maxBatch: number, unsteady?: Unsteady): VirtualCase => ({
  name: `small model: ${workers === 1 ? '' : `${workers} x `}batches of ${maxBatch} in 2.2 + 6.2 n ms${unsteady ? `, speed by ${100 * unsteady.cv} % for ${unsteady.forMs} ms` : ''}`,
  slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
  batching: true,
  server: (seed) => {
    const speed = unsteady && speedOf(unsteady, seed)
    return new QueueServer({
      seed,
      servers: workers,
      maxBatch,
      maxDelayMs: 2,
      overheadMs: 0.7,
      serviceMs: (batch, uniform, atMs) =>
        batchMs(batch) * sampleGamma(uniform, 1 / 0.05 ** 2) * (speed?.(atMs) ?? 1),
    })
  },
})

/**
 * Of a machine that is slow now and then: everything takes so many times as long, for so long and
 * so often on the mean.
 */
interface SlowTimes {
  readonly times: number
  readonly forMs: number
  readonly everyMs: number
}

const slowNowAndThen = (
  workers: number,
  maxBatch: number,
  slow: SlowTimes,
  apart = false,
): VirtualCase => ({
  name: `slow times${apart ? ' apart' : ''}: ${workers} x batches of ${maxBatch}, ${slow.times} times as long for ${slow.forMs} ms every ${slow.everyMs} ms`,
  slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
  batching: true,
  server: (seed) => {
    const speed = slowAtTimes(slow, seed)
    return new QueueServer({
      seed,
      servers: workers,
      maxBatch,
      maxDelayMs: maxBatch > 1 ? 2 : 0,
      overheadMs: 0.7,
      serviceMs: (batch, uniform, atMs) =>
        batchMs(batch) * sampleGamma(uniform, 1 / 0.15 ** 2) * speed(atMs),
    })
  },
})

const slowAtTimes = ({ times, forMs, everyMs }: SlowTimes, seed: number) => {
  let isSlow = true
  return changing(seed, (uniform) => {
    isSlow = !isSlow
    return { forMs: -(isSlow ? forMs : everyMs) * Math.log(uniform()), factor: isSlow ? times : 1 }
  })
}

const speedOf = ({ cv, forMs }: Unsteady, seed: number) =>
  changing(seed, (uniform) => ({
    forMs: -forMs * Math.log(uniform()),
    factor: sampleGamma(uniform, 1 / cv ** 2),
  }))

/**
 * Times as long as usual at a time, asked for in order. @param next how much longer everything
 * takes, and for how long
 */
function changing(
  seed: number,
  next: (uniform: Uniform) => { readonly forMs: number; readonly factor: number },
) {
  const uniform = createUniform(seed + 9000)
  let [untilMs, factor] = [0, 1]
  return (atMs: number): number => {
    while (atMs >= untilMs) {
      const change = next(uniform)
      untilMs += change.forMs
      factor = change.factor
    }
    return factor
  }
}

const shared: Unsteady = { cv: 0.12, forMs: 300 }

export const smallModelCases: readonly VirtualCase[] = [
  smallModel(1, 16),
  smallModel(2, 4),
  smallModel(2, 16),
  smallModel(1, 16, shared),
  smallModel(2, 4, shared),
  smallModel(2, 16, shared),
]

export const slowTimesCases: readonly VirtualCase[] = [
  slowNowAndThen(2, 1, { times: 1.6, forMs: 80, everyMs: 500 }),
  slowNowAndThen(2, 1, { times: 2.2, forMs: 120, everyMs: 900 }),
  slowNowAndThen(2, 4, { times: 2.2, forMs: 120, everyMs: 900 }),
  slowNowAndThen(3, 1, { times: 1.8, forMs: 250, everyMs: 1800 }, true),
  slowNowAndThen(4, 4, { times: 2, forMs: 160, everyMs: 1000 }, true),
  slowNowAndThen(1, 8, { times: 1.7, forMs: 300, everyMs: 1500 }, true),
]
