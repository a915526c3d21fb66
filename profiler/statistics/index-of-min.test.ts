import { expect, test } from 'vitest'
import { findIndexOfMin } from './index-of-min.ts'

test('the least of several is the first of the least', () => {
  expect([
    findIndexOfMin(Float64Array.of(3, 1, 2)),
    findIndexOfMin(Float64Array.of(1, 1)),
    findIndexOfMin(Float64Array.of(5)),
  ]).toEqual([1, 0, 0])
  expect(findIndexOfMin(Float64Array.of(4, 3, 2))).toBe(2)
})
