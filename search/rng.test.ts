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
  test('a fork depends on seed and name alone, not on earlier draws', () => {
    const rng = createRng(7)
    const before = rng.fork('a').next()
    rng.next()
    expect(rng.fork('a').next()).toBe(before)
    expect(rng.fork('b').next()).not.toBe(before)
  })
  test('the stream of a seed never changes, so that a resumed experiment repeats its draws', () => {
    // sfc32 seeded by cyrb128, computed apart in Python.
    expect(take(7, 3)).toEqual([0.8367698538349941, 0.4005063254153356, 0.21182701142970473])
    expect(take('experiment 12', 3)).toEqual([
      0.8249875890323892, 0.15463249117601663, 0.822113769245334,
    ])
    expect(createRng(7).fork('a').next()).toBe(0.6432374409632757)
    expect(createRng(7).normal()).toBeCloseTo(-0.48409938053472845, 14)
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

describe('shuffle', () => {
  test('contains every item, and leaves its argument unchanged', () => {
    const items = [1, 2, 3, 4, 5]
    expect(shuffle(items, createRng(2)).sort()).toEqual([1, 2, 3, 4, 5])
    expect(items).toEqual([1, 2, 3, 4, 5])
  })
  test('is Fisher-Yates from the end, each order as likely as another', () => {
    expect(shuffle([1, 2, 3, 4, 5], createRng(2))).toEqual([2, 4, 5, 1, 3])
    const rng = createRng(3)
    const counts = new Map<string, number>()
    for (let i = 0; i < 6000; i++) {
      const order = shuffle(['a', 'b', 'c'], rng).join('')
      counts.set(order, (counts.get(order) ?? 0) + 1)
    }
    expect(counts.size).toBe(6)
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(150)
  })
})
