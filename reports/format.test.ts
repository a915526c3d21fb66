import { expect, test } from 'vitest'
import { rateInterval } from './format.ts'

test('an interval without an upper end is a lower bound, and never infinite', () => {
  expect(rateInterval([95, 1050])).toBe('95 to 1,050')
  expect(rateInterval([95, Number.POSITIVE_INFINITY])).toBe('at least 95')
})
