import { expect, test } from 'vitest'
import { regretOf, sureWithin } from './rounds.ts'

test('what rounds agree on is sure, what they do not is a matter of chance', () => {
  const steady = [100, 101, 99]
  expect(sureWithin([steady, [110, 111, 109]], 0, 0.05)).toBe(1)
  expect(sureWithin([steady, [110, 111, 109]], 1, 0.05)).toBe(0)
  const even = [80, 90, 100, 110, 120]
  const sure = sureWithin([even, even], 0, 0.05)
  expect(sure).toBeGreaterThan(0.4)
  expect(sure).toBeLessThan(0.9)
  expect(sureWithin([[80, 90, 100, 110, 120]], 0, 0.05)).toBe(1)
})

test('of gains the larger is the better', () => {
  const larger = [-100, -101]
  const smaller = [-90, -91]
  expect(sureWithin([larger, smaller], 0, 0.05)).toBe(1)
  expect(sureWithin([larger, smaller], 1, 0.05)).toBe(0)
  expect(regretOf(-90, -100)).toBeCloseTo(0.1, 12)
})
