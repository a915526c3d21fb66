import { describe, expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import type { Rng } from '../types.ts'
import { createSobol } from './sobol.ts'

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

test('far points in 20 dimensions are those of another implementation', () => {
  // scipy.stats.qmc.Sobol(20, scramble=False, bits=32), 2^16 times the coordinates.
  const point = createSobol(20, noShift)
  const scaled = (index: number) => [...point(index)].map((x) => x * 2 ** 16)
  expect(scaled(40_000)).toEqual([
    1611, 31517, 15891, 51791, 37521, 41445, 13209, 24195, 23015, 31755, 45645, 3473, 49769, 49223,
    10293, 44659, 29881, 51825, 51755, 16825,
  ])
  expect(scaled(65_535)).toEqual([
    1, 65535, 36949, 49925, 16571, 35771, 33895, 47689, 58661, 10741, 11279, 4711, 61239, 21513,
    30175, 31409, 10491, 12211, 8641, 28675,
  ])
})

test('a shift moves each coordinate by bits of its own', () => {
  const shifted = createSobol(2, createRng(1))
  const bits = (x: number) => x * 2 ** 32
  const plain = createSobol(2, noShift)
  const xor = (index: number, j: number) =>
    (bits(shifted(index)[j]!) ^ bits(plain(index)[j]!)) >>> 0
  expect(new Set([0, 1, 2, 77].map((index) => xor(index, 0))).size).toBe(1)
  expect(xor(0, 0)).not.toBe(xor(0, 1))
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
  expect(createSobol(20, createRng(1))(0)).toHaveLength(20)
  expect(() => createSobol(21, createRng(1))).toThrow(/21 dimensions/)
})
