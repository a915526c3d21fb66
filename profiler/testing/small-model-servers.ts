/**
 * Small models on cores in virtual time: a batch takes nearly as long as its requests do one by one, so that a full one takes more than the limit and servers keep it with a few.
 * What is known of them is in docs/profiler.md; the way in which batches are put together was repaired with these in sight.
 */
import { gamma, seeded } from '../seeded-random.ts'
import { QueueServer } from './queue-server.ts'
import type { VirtualCase } from './virtual-servers.ts'

/** Of a machine that others use too: how much its speed varies, a coefficient of variation, and for how long it stays as it is, ms, on the mean. */
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
      besideMs: 0.7,
      serviceMs: (batch, uniform, atMs) => batchMs(batch) * gamma(uniform, 1 / 0.05 ** 2) * (speed?.(atMs) ?? 1),
    })
  },
})

/** Times as long as usual at a time, asked for in order. */
function speedOf({ cv, forMs }: Unsteady, seed: number) {
  const uniform = seeded(seed + 9000)
  let [untilMs, factor] = [0, 1]
  return (atMs: number): number => {
    while (atMs >= untilMs) {
      untilMs += -forMs * Math.log(uniform())
      factor = gamma(uniform, 1 / cv ** 2)
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
