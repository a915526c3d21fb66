import { describe, expect, test } from 'vitest'
import type { Slo } from '../profiler/model/slo.ts'
import {
  computeCertaintyPercent,
  rateInterval,
  sloAxis,
  sloFigure,
  sloName,
  sloText,
  sloValue,
} from './format.ts'

test('an interval without an upper end is a lower bound, and never infinite', () => {
  expect(rateInterval([95, 1050])).toBe('95 to 1,050')
  expect(rateInterval([95, Number.POSITIVE_INFINITY])).toBe('at least 95')
})

describe('SLOs', () => {
  const single: Slo = { percentile: 0.99, limitMs: 200, maxErrorRate: 0.001, metric: 'ttft' }
  const { metric: _, ...rest } = single
  const joint: Slo = {
    ...rest,
    percentile: 0.999,
    limits: [
      { metric: 'ttft', limitMs: 200 },
      { metric: 'tpot', limitMs: 30 },
    ],
  }

  test('say which percentile of what', () => {
    expect(sloName(rest)).toBe('p99')
    expect([sloName(single), sloText(single), sloFigure(single, 181.4)]).toEqual([
      'TTFT p99',
      'TTFT p99 <= 200 ms',
      'TTFT p99 181 ms',
    ])
    expect(sloName({ ...single, metric: 'tpot' })).toBe('TPOT p99')
  })

  test('a joint one shows parts of its limits, which scale together', () => {
    expect(sloText(joint)).toBe('TTFT <= 200 ms and TPOT <= 30 ms for 99.9 % of requests')
    expect(sloText({ ...joint, limitMs: 100 })).toBe(
      'TTFT <= 100 ms and TPOT <= 15 ms for 99.9 % of requests',
    )
    expect(sloFigure(joint, 164)).toBe('p99.9 of TTFT and TPOT at 82 % of the limits')
    expect(sloValue(joint, Number.POSITIVE_INFINITY)).toBe('no answer')
    expect(sloAxis(joint).name).toContain('% of the limits')
  })
})

test.each([
  [0.9599, 95],
  [0.57, 57],
  // As a computer has it.
  [1 - 0.43, 57],
  [1, 100],
  [0, 0],
])('certainty of %d: %d %', (probability, percent) => {
  expect(computeCertaintyPercent(probability)).toBe(percent)
})
