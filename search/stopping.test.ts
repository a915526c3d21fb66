import { describe, expect, test } from 'vitest'
import { createRng } from './rng.ts'
import { enumerate } from './space.ts'
import { assessStop } from './stopping.ts'
import type { Configuration, Observation, Problem, SearchSpace } from './types.ts'

const space: SearchSpace = {
  parameters: [
    { name: 'cores', category: 'resource', kind: 'ordinal', values: [1, 2, 4, 8], scale: 'log' },
    { name: 'batch', category: 'server', kind: 'ordinal', values: [1, 2, 4, 8, 16], scale: 'log' },
  ],
  constraints: [],
}
const problem: Problem = {
  space,
  objective: { kind: 'price-per-request' },
  constraintLimit: 20,
  pricePerHour: (c) => 0.1 + 0.05 * Number(c.cores),
}
const measure = (configuration: Configuration): Observation => {
  const ms = (2 + Number(configuration.batch)) / Number(configuration.cores) ** 0.5 + 1
  return {
    configuration,
    state: 'complete',
    rate: { value: (1000 * Number(configuration.batch)) / ms, logSd: 0.01 },
    constraint: { value: ms, logSd: 0.01 },
  }
}
const all = enumerate(space).map(measure)

describe('assessStop', () => {
  test('is sure that better may exist while nothing feasible is known', () => {
    const slow = all.filter((o) => o.state === 'complete' && o.constraint!.value > 17)
    expect(assessStop({ ...problem, constraintLimit: 5 }, slow, createRng(1))).toEqual({
      probabilityBetterExists: 1,
      tolerance: 0.05,
      stop: false,
    })
  })
  test('is sure that none is left when all is tried', () => {
    expect(assessStop(problem, all, createRng(1))).toEqual({ probabilityBetterExists: 0, tolerance: 0.05, stop: true })
  })
  test('goes on after few poor trials and stops once the best and what surrounds it is known', () => {
    expect(assessStop(problem, [all[0]!, all[1]!, all[6]!], createRng(1)).stop).toBe(false)
    const best = assessStop(
      problem,
      all.filter((_, i) => i % 5 !== 1),
      createRng(1),
    )
    expect(best.probabilityBetterExists).toBeLessThan(0.05)
    expect(best.stop).toBe(true)
  })
  test('is deterministic', () => {
    expect(assessStop(problem, all.slice(4, 9), createRng(5))).toEqual(assessStop(problem, all.slice(4, 9), createRng(5)))
  })
})
