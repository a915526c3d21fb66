/** Beside queues that are solved in closed form. */
import { expect, test } from 'vitest'
import { seeded } from '../../seeded-random.ts'
import { constantServicesRps } from '../../testing/constant-services.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { computeHeavyTrafficCapacity } from './heavy-traffic.ts'
import { buildQueueModel, type QueueModel } from './queue-model.ts'

const log = (tookMs: readonly number[], each: Partial<ServiceLog> = {}): ServiceLog => ({
  present: tookMs.map(() => 1),
  tookMs: [...tookMs],
  departed: tookMs.map(() => 1),
  rank: tookMs.map(() => 0),
  endedMs: tookMs.map((_, i) => i),
  spreadMs: tookMs.map(() => 0),
  ...each,
})
const workers = (
  tookMs: readonly number[],
  number: number,
  more: Partial<QueueModel> = {},
): QueueModel => ({
  ...buildQueueModel(log(tookMs), { workers: number }),
  ...more,
})
const same = (ms: number) => Array<number>(100).fill(ms)
/** Quantiles of an exponential distribution, in no order. */
function exponential(meanMs: number): number[] {
  const uniform = seeded(3)
  return Array.from({ length: 4000 }, (_, i) => ({
    ms: -meanMs * Math.log((i + 0.5) / 4000),
    at: uniform(),
  }))
    .sort((a, b) => a.at - b.at)
    .map(({ ms }) => ms)
}

test.each([
  [3, 500],
  [1, 1000],
  [7, 800],
  [10, 800],
])('services of %i ms within %i ms: M/D/1', (ms, limitMs) => {
  expect(
    computeHeavyTrafficCapacity(workers(same(ms), 1), limitMs, 0.01)! /
      constantServicesRps(ms, limitMs),
  ).toBeCloseTo(1, 3)
})

test.each([
  [1, 0.01, 2000],
  [1, 0.1, 900],
  [3, 0.01, 900],
])(
  'exponential services of 10 ms by %i workers, %d over %i ms: M/M/m',
  (number, allowed, limitMs) => {
    // P(W > t) = P(wait) exp(-(m mu - lambda) t), and nearly all wait.
    const rps = 100 * number - (1000 * Math.log(1 / allowed)) / (limitMs - 10)
    expect(
      computeHeavyTrafficCapacity(workers(exponential(10), number), limitMs, allowed)! / rps,
    ).toBeCloseTo(1, 2.5)
  },
)

test('batches come and go as fast as full ones, and vary by their arrivals alone where each takes as long', () => {
  const took = (n: number) => 5 + 0.5 * n
  const sizes = Array.from({ length: 120 }, (_, i) => 1 + (i % 16))
  const batches = buildQueueModel(log(sizes.map(took), { present: sizes, departed: sizes }))
  const perMs = 16 / 13
  const times = (2 * (500 - 13)) / Math.log(100)
  expect(computeHeavyTrafficCapacity(batches, 500, 0.01)).toBeCloseTo(
    (1000 * perMs * times) / (times + 1 / perMs),
    0,
  )
})

test('slow services in a row cost more than the same in turns', () => {
  const inTurns = Array.from({ length: 400 }, (_, i) => (i % 2 === 0 ? 5 : 15))
  const inARow = Array.from({ length: 400 }, (_, i) => (i % 20 < 10 ? 5 : 15))
  const [turns, row] = [inTurns, inARow].map(
    (tookMs) => computeHeavyTrafficCapacity(workers(tookMs, 1), 2000, 0.01)!,
  )
  expect(row).toBeLessThan(0.995 * turns!)
  expect(computeHeavyTrafficCapacity(workers(exponential(10), 1), 2000, 0.01)).toBeLessThan(turns!)
})

test('nothing is said where a full batch takes as long as the limit: it is the batch that decides', () => {
  const took = (n: number) => 2 + 6 * n
  const sizes = Array.from({ length: 160 }, (_, i) => 1 + (i % 16))
  const batches = buildQueueModel(log(sizes.map(took), { present: sizes, departed: sizes }))
  for (const limitMs of [20, 50, 95, 98, 98.5])
    expect(computeHeavyTrafficCapacity(batches, limitMs, 0.01)).toBeUndefined()
  expect(computeHeavyTrafficCapacity(batches, 5000, 0.01)).toBeLessThan(1000 * (16 / 98))
})

test('nothing is said where the queue is not that busy, or is of another kind', () => {
  expect(computeHeavyTrafficCapacity(workers(same(10), 1), 500, 0.01)).toBeUndefined()
  expect(
    computeHeavyTrafficCapacity(workers(same(3), 1, { systemCapacity: 64 }), 500, 0.01),
  ).toBeUndefined()
  expect(
    computeHeavyTrafficCapacity(workers(same(3), 1, { sharesCores: true }), 500, 0.01),
  ).toBeUndefined()
  const overtaking = buildQueueModel(log(same(3), { present: same(4), rank: same(3) }))
  expect(computeHeavyTrafficCapacity(overtaking, 500, 0.01)).toBeUndefined()
  expect(computeHeavyTrafficCapacity(buildQueueModel(log(same(3))), 500, 0.01)).toBeGreaterThan(320)
})
