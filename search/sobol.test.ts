import { describe, expect, test } from 'vitest'
import { createRng } from './rng.ts'
import { createSobol } from './sobol.ts'
import type { Rng } from './types.ts'

/** Draws nothing but zeros: the plain sequence without a shift. */
const noShift: Rng = { next: () => 0, normal: () => 0, int: () => 0, fork: () => noShift }

test('the first points are the published ones', () => {
  // Bratley and Fox, Algorithm 659 (1988), and scipy.stats.qmc.Sobol(3, scramble=False).
  const point = createSobol(3, noShift)
  expect([0, 1, 2, 3, 4, 5, 6, 7].map((i) => [...point(i)])).toEqual([
    [0, 0, 0],
    [0.5, 0.5, 0.5],
    [0.75, 0.25, 0.25],
    [0.25, 0.75, 0.75],
    [0.375, 0.375, 0.625],
    [0.875, 0.875, 0.125],
    [0.625, 0.125, 0.875],
    [0.125, 0.625, 0.375],
  ])
})

describe.each([1, 7])('shifted by seed %d', (seed) => {
  test('every coordinate of the first 2^k points falls once into each of 2^k intervals', () => {
    const dimensions = 20
    const point = createSobol(dimensions, createRng(seed))
    for (const k of [1, 4, 8]) {
      const n = 2 ** k
      for (let j = 0; j < dimensions; j++) {
        const cells = new Set(Array.from({ length: n }, (_, i) => Math.floor(point(i)[j]! * n)))
        expect(cells.size).toBe(n)
      }
    }
  })
})

test('more than 20 dimensions are refused', () => {
  expect(() => createSobol(21, createRng(1))).toThrow(/21 dimensions/)
})
