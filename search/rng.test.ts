import { describe, expect, test } from 'vitest'
import { createRng, shuffle } from './rng.ts'

const take = (seed: number | string, count = 5) => {
  const rng = createRng(seed)
  return Array.from({ length: count }, () => rng.next())
}

describe('createRng', () => {
  test('the same seed gives the same stream, another seed another', () => {
    expect(take(7)).toEqual(take(7))
    expect(take(7)).not.toEqual(take(8))
  })
  test('a fork depends on seed and name alone, not on what was drawn before', () => {
    const rng = createRng(7)
    const before = rng.fork('a').next()
    rng.next()
    expect(rng.fork('a').next()).toBe(before)
    expect(rng.fork('b').next()).not.toBe(before)
  })
  test('is uniform and normal to within sampling error', () => {
    const rng = createRng(1)
    const n = 20_000
    const mean = (draw: () => number) => Array.from({ length: n }, draw).reduce((a, b) => a + b) / n
    expect(mean(() => rng.next())).toBeCloseTo(0.5, 1.9)
    expect(mean(() => rng.normal())).toBeCloseTo(0, 1)
    expect(mean(() => rng.normal() ** 2)).toBeCloseTo(1, 1)
    const counts = new Array<number>(6).fill(0)
    for (let i = 0; i < n; i++) counts[rng.int(6)]!++
    for (const count of counts) expect(Math.abs(count - n / 6)).toBeLessThan(5 * Math.sqrt(n / 6))
  })
})

test('shuffle keeps every item', () => expect(shuffle([1, 2, 3, 4, 5], createRng(2)).sort()).toEqual([1, 2, 3, 4, 5]))
