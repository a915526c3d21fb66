import { expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import type { Observation, Problem } from '../types.ts'
import { randomSampler } from './random.ts'

const problem: Problem = {
  space: {
    parameters: [{ name: 'n', category: 'server', kind: 'int', min: 1, max: 4, scale: 'linear' }],
    constraints: [],
  },
  objective: { kind: 'price' },
  pricePerHour: () => 1,
}
const tried = (n: number): Observation => ({
  configuration: { n },
  state: 'infeasible',
  reason: '',
})
const suggest = (observations: readonly number[], pending: readonly number[], seed = 1) =>
  randomSampler.suggest(
    problem,
    observations.map(tried),
    pending.map((n) => ({ n })),
    createRng(seed),
  )?.configuration.n

test('draws from what is neither tried nor pending, to the last', () => {
  expect([suggest([1, 2], [3]), suggest([1], [4, 3]), suggest([4], [1, 2])]).toEqual([4, 2, 3])
  expect(suggest([1, 2], [3, 4])).toBeUndefined()
})

test('each candidate with equal probability, drawn anew after every trial', () => {
  const counts = [0, 0, 0, 0]
  for (let seed = 0; seed < 400; seed++) counts[Number(suggest([], [], seed)) - 1]!++
  for (const count of counts) expect(Math.abs(count - 100)).toBeLessThan(35)
  const after = Array.from({ length: 60 }, (_, seed) => [
    suggest([], [], seed),
    suggest([1], [], seed),
  ])
  expect(after.some(([a, b]) => a !== b && a !== 1)).toBe(true)
  expect(suggest([2], [], 5)).toBe(suggest([2], [], 5))
})
