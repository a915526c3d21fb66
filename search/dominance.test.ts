import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hopeless } from './dominance.ts'
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
const outOfMemory: Observation = { configuration: { memory: 2, batch: 4, gpu: 'T4' }, state: 'infeasible', reason: 'out of memory' }
const slow = (excess: number): Observation => ({
  configuration: { memory: 2, batch: 4, gpu: 'T4' },
  state: 'complete',
  rate: { value: 10 },
  constraint: { value: 50 * excess },
})
const value = fc.constantFrom(1, 2, 4, 8)
const anyConfiguration: fc.Arbitrary<Configuration> = fc.record({ memory: value, batch: value, gpu: fc.constantFrom('T4', 'L4') })

describe('hopeless', () => {
  test('with no more memory and no smaller batch on the same GPU, and only there', () => {
    const excluded = hopeless(problem, [outOfMemory])
    fc.assert(
      fc.property(anyConfiguration, (c) => {
        expect(excluded(c)).toBe(c.gpu === 'T4' && Number(c.memory) <= 2 && Number(c.batch) >= 4)
      }),
    )
  })
  test('a constraint missed by far excludes as well; one missed by a little does not', () => {
    const worse = { memory: 1, batch: 8, gpu: 'T4' }
    expect(hopeless(problem, [slow(5)])(worse)).toBe(true)
    expect(hopeless(problem, [slow(1.2)])(worse)).toBe(false)
  })
  test('nothing tried excludes nothing', () => {
    expect(hopeless(problem, [])({ memory: 1, batch: 1, gpu: 'L4' })).toBe(false)
  })
})
