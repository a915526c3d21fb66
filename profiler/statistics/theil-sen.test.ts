import { expect, test } from 'vitest'
import { computeTheilSenSlope } from './theil-sen.ts'

test('is the line’s, whatever one point in five does, in any order', () => {
  const points = [1, 9, 3, 7, 5, 2, 8, 4, 6, 10].map((x) => ({
    x,
    y: x === 3 || x === 8 ? 500 : 4 + 2.5 * x,
  }))
  expect(computeTheilSenSlope(points)).toBeCloseTo(2.5, 12)
})

test('is 0 where no two lie apart', () => {
  expect(computeTheilSenSlope([])).toBe(0)
  expect(computeTheilSenSlope(Array.from({ length: 50_000 }, (_, y) => ({ x: 3, y })))).toBe(0)
})
