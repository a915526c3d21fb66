import { describe, expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import type { Rng } from '../types.ts'
import { createHalton } from './halton.ts'

/** Every digit stays what it is: the plain sequence. */
const unpermuted: Rng = {
  next: () => 0,
  normal: () => 0,
  int: (n) => n - 1,
  fork: () => unpermuted,
}
const primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71]

/** The digits of the index in the base, mirrored at the point. */
const mirrored = (index: number, base: number): number =>
  [...index.toString(base)]
    .reverse()
    .reduce((value, digit, i) => value + Number.parseInt(digit, base) / base ** (i + 1), 0)

test('without permutations it mirrors the digits of the index, in prime bases', () => {
  const point = createHalton(20, unpermuted)
  for (const index of [0, 1, 2, 6, 35, 1000, 123_456]) {
    const wanted = primes.map((base) => (base > 36 ? Number.NaN : mirrored(index, base)))
    point(index).forEach((value, j) => {
      if (!Number.isNaN(wanted[j])) expect(value).toBeCloseTo(wanted[j]!, 12)
    })
  }
  // An index beyond what 32 bits of digits hold in a base that is no power of 2 keeps its greatest
  // digit.
  expect(point(3 ** 20)[1]).toBeCloseTo(3 ** -21, 14)
  // Bases beyond what a text has digits for: 75 is (1, 4) in base 71.
  expect(point(75)[19]).toBeCloseTo(4 / 71 + 1 / 71 ** 2, 12)
})

describe.each([1, 7])('permuted by seed %d', (seed) => {
  test('in every base b the first b² points fall once into each of b² intervals', () => {
    const point = createHalton(20, createRng(seed))
    const points = Array.from({ length: primes.at(-1)! ** 2 }, (_, i) => point(i))
    for (const [j, base] of primes.entries()) {
      const cells = points
        .slice(0, base ** 2)
        .map((coordinates) => Math.floor(coordinates[j]! * base ** 2 + 1e-9))
      expect(cells.toSorted((a, b) => a - b)).toEqual(
        Array.from({ length: base ** 2 }, (_, i) => i),
      )
    }
  })
})

test('equal seeds permute alike, other seeds differently, each digit on its own', () => {
  const at = (seed: number) => [...createHalton(3, createRng(seed))(5)]
  expect(at(1)).toEqual(at(1))
  expect(at(1)).not.toEqual(at(2))
  // The first digit of dimension 3 (base 5): over many seeds each permutation image is as frequent
  // as another.
  const images = new Array<number>(5).fill(0)
  for (let seed = 0; seed < 500; seed++)
    images[Math.floor(createHalton(3, createRng(seed))(0)[2]! * 5)]!++
  for (const count of images) expect(Math.abs(count - 100)).toBeLessThan(45)
})

test('points lie below 1 even where every digit is the greatest', () => {
  const greatest: Rng = { next: () => 0, normal: () => 0, int: () => 0, fork: () => greatest }
  for (let index = 0; index < 40; index++)
    for (const value of createHalton(20, greatest)(index)) {
      expect(value).toBeGreaterThanOrEqual(0)
      expect(value).toBeLessThan(1)
    }
})

test('more than 20 dimensions are refused', () => {
  expect(createHalton(20, createRng(1))(0)).toHaveLength(20)
  expect(() => createHalton(21, createRng(1))).toThrow(/21 dimensions/)
})
