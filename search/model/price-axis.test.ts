import { describe, expect, test } from 'vitest'
import type { OrdinalParameter, Parameter, Problem, SearchSpace } from '../types.ts'
import { affectsPrice, computeLogPriceRange } from './price-axis.ts'

const ordinal = (
  name: string,
  values: readonly number[],
  more: Partial<OrdinalParameter> = {},
): OrdinalParameter => ({
  name,
  category: 'resource',
  kind: 'ordinal',
  values,
  scale: 'log',
  ...more,
})
const cores = ordinal('cores', [1, 2, 4])
const batch = ordinal('batch', [1, 8], { concurrency: true })
const loop: Parameter = {
  name: 'loop',
  category: 'server',
  kind: 'categorical',
  values: ['sync', 'async'],
}
const spaceOf = (...parameters: Parameter[]): SearchSpace => ({ parameters, constraints: [] })
const problemOf = (space: SearchSpace, more: Partial<Problem> = {}): Problem => ({
  space,
  objective: { kind: 'price-per-request' },
  constraintLimit: 50,
  pricePerHour: (c) => 0.2 * Number(c.cores),
  ...more,
})
const problem = problemOf(spaceOf(cores, batch, loop))

describe('prices', () => {
  test('have a range in ln over the space; 0 for one price', () => {
    expect(computeLogPriceRange(problem)).toEqual([
      expect.closeTo(Math.log(0.2), 12),
      expect.closeTo(Math.log(4), 12),
    ])
    expect(computeLogPriceRange(problemOf(problem.space, { pricePerHour: () => 3 }))).toEqual([
      Math.log(3),
      0,
    ])
  })

  test('depend on every parameter that changes them, up or down', () => {
    const given = problemOf(problem.space, {
      pricePerHour: (c) => (c.loop === 'sync' && c.cores === 4 ? 1 : 2),
    })
    expect(['cores', 'batch', 'loop'].map((name) => affectsPrice(given, name))).toEqual([
      true,
      false,
      true,
    ])
    expect(affectsPrice(problem, 'cores')).toBe(true)
  })

  test('are compared within the constraints only', () => {
    // The only pair that differs in cores breaks the constraint.
    const bound = problemOf(
      {
        parameters: [cores, batch],
        constraints: [
          { text: 'cores = 1 or batch = 8', holds: (c) => c.cores === 1 || c.batch === 8 },
        ],
      },
      { pricePerHour: (c) => (c.batch === 8 ? 1 : Number(c.cores)) },
    )
    expect(affectsPrice(bound, 'cores')).toBe(false)
  })
})
