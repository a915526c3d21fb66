import { describe, expect, test } from 'vitest'
import { monotoneDoubt } from './feasibility.ts'
import type { Configuration, Observation, Problem } from './types.ts'

const problem: Problem = {
  space: {
    parameters: [
      { name: 'memory', category: 'resource', kind: 'ordinal', values: [1, 2, 4, 8], scale: 'log' },
      { name: 'batch', category: 'server', kind: 'ordinal', values: [1, 2, 4, 8], scale: 'log', concurrency: true },
      { name: 'gpu', category: 'resource', kind: 'categorical', values: ['T4', 'L4'] },
    ],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  constraintLimit: 50,
  pricePerHour: (c) => 0.1 * Number(c.memory) + (c.gpu === 'T4' ? 0.3 : 0.5),
}
const at = (memory: number, batch = 4, gpu = 'T4'): Configuration => ({ memory, batch, gpu })
const failed = (c: Configuration): Observation => ({ configuration: c, state: 'infeasible', reason: 'out of memory' })
const read = (c: Configuration, ms: number): Observation => ({
  configuration: c,
  state: 'complete',
  rate: { value: 9 },
  constraint: { value: ms },
})

/** Factor on P(feasible) of a configuration that the model gives 1/2, where it gives what failed 1/100. */
function factor(observations: readonly Observation[], c: Configuration): number {
  const doubt = monotoneDoubt(problem, observations, (tried) => new Float64Array(tried.length).fill(Math.log(0.01)))
  return Math.exp(doubt([c], Float64Array.of(Math.log(0.5)))[0]!)
}

describe('monotoneDoubt', () => {
  test('no more of a resource, all else equal, is about as unlikely as what failed, and never impossible', () => {
    expect(factor([failed(at(4))], at(2))).toBeLessThan(0.2)
    expect(factor([failed(at(4))], at(2))).toBeGreaterThan(0.05)
    expect(factor([read(at(4), 90)], at(1))).toBeLessThan(0.2)
  })
  test('says nothing of more of it, of another server setting or of another GPU', () => {
    for (const c of [at(8), at(2, 2), at(2, 4, 'L4')]) expect(factor([failed(at(4))], c)).toBe(1)
  })
  test('says nothing where nothing failed, and nothing of what the model doubts more itself', () => {
    expect(factor([read(at(4), 40)], at(2))).toBe(1)
    const doubt = monotoneDoubt(problem, [failed(at(4))], () => Float64Array.of(Math.log(0.2)))
    expect(doubt([at(2)], Float64Array.of(Math.log(0.1)))[0]).toBe(0)
  })
  test('ends where less was seen to serve and more clearly not', () => {
    expect(factor([failed(at(4)), read(at(2, 8), 20), failed(at(8, 8))], at(2))).toBe(1)
    expect(factor([failed(at(4)), read(at(2, 8), 49), read(at(8, 8), 51)], at(2))).toBeLessThan(0.2)
  })
})
