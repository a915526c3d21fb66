import fc from 'fast-check'
import { expect, test } from 'vitest'
import { computeMidmean, computeMoments } from './moments.ts'

test('moments are those of all values, or of those at the given indices', () => {
  expect(computeMoments([1, 3, 5])).toEqual({ mean: 3, variance: expect.closeTo(8 / 3, 12) })
  expect(computeMoments([1, 100, 3, 5], [0, 2, 3])).toEqual({
    mean: 3,
    variance: expect.closeTo(8 / 3, 12),
  })
  expect(computeMoments(Float64Array.of(1e9 + 1, 1e9 + 3)).variance).toBeCloseTo(1, 6)
})

test('the interquartile mean leaves out a quarter at each end, in part where n is no multiple of 4', () => {
  expect(computeMidmean([100, 2, 3, -50])).toBe(2.5)
  expect(computeMidmean([7])).toBe(7)
  // Of five, a quarter of the second and of the fourth are left out.
  expect(computeMidmean([1, 2, 3, 4, 1000])).toBeCloseTo((0.75 * 2 + 3 + 0.75 * 4) / 2.5, 12)
  expect(computeMidmean([])).toBeNaN()
})

test('it lies between the quartiles, and follows shift and scale', () => {
  const values = fc.array(fc.double({ min: -1e3, max: 1e3, noNaN: true }), { minLength: 1 })
  fc.assert(
    fc.property(values, fc.double({ min: 0.1, max: 10, noNaN: true }), (of, factor) => {
      expect(computeMidmean(of.map((value) => 5 + factor * value))).toBeCloseTo(
        5 + factor * computeMidmean(of),
        6,
      )
      expect(computeMidmean(of)).toBeGreaterThanOrEqual(Math.min(...of) - 1e-9)
      expect(computeMidmean(of)).toBeLessThanOrEqual(Math.max(...of) + 1e-9)
    }),
  )
})
