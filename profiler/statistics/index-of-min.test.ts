import { expect, test } from 'vitest'
import { indexOfMin } from './index-of-min.ts'

test('the least of several is the first of the least', () => {
  expect([
    indexOfMin(Float64Array.of(3, 1, 2)),
    indexOfMin(Float64Array.of(1, 1)),
    indexOfMin(Float64Array.of(5)),
  ]).toEqual([1, 0, 0])
  expect(indexOfMin(Float64Array.of(4, 3, 2))).toBe(2)
})
