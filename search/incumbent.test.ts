import { expect, test } from 'vitest'
import { believedBest, recommended } from './incumbent.ts'
import { bestObservation } from './observed-cost.ts'
import { fitSurrogate } from './surrogate.ts'
import type { Observation, Problem } from './types.ts'

const problem: Problem = {
  space: {
    parameters: [{ name: 'batch', category: 'server', kind: 'ordinal', values: [1, 2, 4, 8, 16, 32, 64], scale: 'log' }],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  constraintLimit: 20,
  pricePerHour: () => 1,
}
const reading = (batch: number, latencyMs: number): Observation => ({
  configuration: { batch },
  state: 'complete',
  rate: { value: 40 * batch ** 0.5, logSd: 0.03 },
  constraint: { value: latencyMs, logSd: 0.15 },
})
// Latency doubles with every second step, from 18.4 ms at 16 to 26 ms at 32; the reading at 32 is lucky.
const observations = [
  reading(1, 4.6),
  reading(2, 6.5),
  reading(4, 9.2),
  reading(8, 13),
  reading(16, 18.4),
  reading(32, 19.8),
  reading(64, 36.8),
]

test('a lucky reading of what likely misses the limit is not the best', () => {
  const surrogate = fitSurrogate(problem, observations, [])
  expect(bestObservation(problem, observations)?.configuration).toEqual({ batch: 32 })
  expect(believedBest(problem, observations, surrogate)?.configuration).toEqual({ batch: 16 })
})

test('of trials that cost about the same, the one surest to meet the limit is recommended', () => {
  const flat = observations.map((o) =>
    o.state === 'complete' ? { ...o, rate: { value: 100 + Number(o.configuration.batch) / 50, logSd: 0.01 } } : o,
  )
  expect(recommended(problem, flat, fitSurrogate(problem, flat, []))!.configuration.batch).toBeLessThanOrEqual(2)
})

test('there is none while nothing is believed to meet the limit', () => {
  const slow = observations.map((o) => (o.state === 'complete' ? { ...o, constraint: { value: 90 } } : o))
  const surrogate = fitSurrogate(problem, slow, [])
  expect(believedBest(problem, slow, surrogate)).toBeUndefined()
  expect(recommended(problem, slow, surrogate)).toBeUndefined()
})
