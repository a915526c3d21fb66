import { describe, expect, test } from 'vitest'
import { cdf } from '../gp/normal.ts'
import type { Problem } from '../types.ts'
import { computeLogFeasible } from './feasibility.ts'

const problem: Problem = {
  space: { parameters: [], constraints: [] },
  objective: { kind: 'price-per-request' },
  constraintLimit: 50,
  pricePerHour: () => 1,
}

describe('computeLogFeasible', () => {
  const logServes = Float64Array.of(0, Math.log(0.5))
  const constraint = { mean: Float64Array.of(-0.5, 1), variance: Float64Array.of(0.25, 4) }
  test('is P(serves) × P(limit met)', () => {
    expect([...computeLogFeasible(problem, { constraint, logServes })]).toEqual([
      expect.closeTo(Math.log(cdf(1)), 12),
      expect.closeTo(Math.log(0.5 * cdf(-0.5)), 12),
    ])
  })
  test('is P(serves) without a limit or a measurement', () => {
    expect(
      computeLogFeasible({ ...problem, constraintLimit: undefined }, { constraint, logServes }),
    ).toBe(logServes)
    expect(computeLogFeasible(problem, { logServes })).toBe(logServes)
  })
})
