import { expect, test } from 'vitest'
import { weightedTurns } from './weighted-turns.ts'

const turns = (weights: number[], count: number) => {
  const next = weightedTurns(weights)
  return Array.from({ length: count }, next)
}

test('each as often as its weight says, and spread evenly', () => {
  expect(turns([5, 1, 1], 7)).toEqual([0, 0, 1, 0, 2, 0, 0])
  expect(turns([1], 3)).toEqual([0, 0, 0])
})

test.each([[[1, 1]], [[3, 1]], [[0.2, 0.5, 0.3]], [[1, 100]]])(
  '%o: at no time is one a whole turn off its share',
  (weights) => {
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    const given = weights.map(() => 0)
    turns(weights, 1000).forEach((which, i) => {
      given[which]!++
      weights.forEach((weight, j) => {
        expect(Math.abs(given[j]! - ((i + 1) * weight) / total)).toBeLessThan(weights.length)
      })
    })
  },
)
