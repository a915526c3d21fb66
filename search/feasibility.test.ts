import { describe, expect, test } from 'vitest'
import { logFeasible, monotoneDoubt } from './feasibility.ts'
import { cdf } from './normal.ts'
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

describe('logFeasible', () => {
  const logServes = Float64Array.of(0, Math.log(0.5))
  const constraint = { mean: Float64Array.of(-0.5, 1), variance: Float64Array.of(0.25, 4) }
  test('is that it serves and that it keeps the limit', () => {
    expect([...logFeasible(problem, { constraint, logServes })]).toEqual([
      expect.closeTo(Math.log(cdf(1)), 12),
      expect.closeTo(Math.log(0.5 * cdf(-0.5)), 12),
    ])
  })
  test('is that it serves, where nothing limits or nothing was measured', () => {
    expect(logFeasible({ ...problem, constraintLimit: undefined }, { constraint, logServes })).toBe(logServes)
    expect(logFeasible(problem, { logServes })).toBe(logServes)
  })
})

describe('the doubt, in figures', () => {
  const doubted = (bound: number) => 0.05 + 0.95 * (bound / 0.5)
  const missed = (c: Configuration, ms = 90) => read(c, ms)

  test('is 95 % of what the failed one is believed to have, and 5 % its own', () => {
    expect(factor([failed(at(4))], at(2))).toBeCloseTo(doubted(0.01), 12)
    expect(factor([failed(at(4))], at(4))).toBeCloseTo(doubted(0.01), 12)
  })
  test('is that of the least likely of several', () => {
    const believed = (tried: readonly Configuration[]) => Float64Array.from(tried, (c) => Math.log(c.memory === 8 ? 0.02 : 0.2))
    for (const observations of [
      [missed(at(8)), missed(at(4))],
      [missed(at(4)), missed(at(8))],
    ]) {
      const doubt = monotoneDoubt(problem, observations, believed)
      expect(Math.exp(doubt([at(2)], Float64Array.of(Math.log(0.5)))[0]!)).toBeCloseTo(doubted(0.02), 12)
    }
    const doubt = monotoneDoubt(problem, [missed(at(8)), missed(at(2))], believed)
    expect(Math.exp(doubt([at(4)], Float64Array.of(Math.log(0.5)))[0]!)).toBeCloseTo(doubted(0.02), 12)
  })
  test('there is none where no resource raises the price', () => {
    const flat = { ...problem, pricePerHour: () => 1 }
    const doubt = monotoneDoubt(flat, [failed(at(4))], () => Float64Array.of(Math.log(0.01)))
    expect([...doubt([at(4), at(2)], Float64Array.of(-1, -1))]).toEqual([0, 0])
  })
  test.each([
    ['a limit missed by a quarter is not clear', missed(at(8, 8), 62.5), false],
    ['missed by more is', missed(at(8, 8), 62.6), true],
    ['a launch that failed is', failed(at(8, 8)), true],
    ['no rate at all is', { ...missed(at(8, 8), 1), rate: { value: 0 } } as Observation, true],
    ['what was not measured is not', { ...missed(at(8, 8)), constraint: undefined } as Observation, false],
    ['with less of it than what serves it contradicts nothing', failed(at(1, 8)), false],
    ['elsewhere neither', failed(at(8, 8, 'L4')), false],
  ])('a trial that serves ends it where more clearly failed: %s', (_, bad, contradicts) => {
    const good = read(at(2, 8), 20)
    expect(factor([failed(at(4)), good, bad], at(2))).toBeCloseTo(contradicts ? 1 : doubted(0.01), 12)
  })
  test('equal resources contradict too: a pair of readings of one configuration', () => {
    expect(factor([failed(at(4)), read(at(8, 8), 20), failed(at(8, 8))], at(2))).toBe(1)
  })
  test('without a limit a failed launch is all that can fail', () => {
    const free = { ...problem, constraintLimit: undefined }
    const doubt = monotoneDoubt(free, [missed(at(4), 1e9)], () => Float64Array.of(Math.log(0.01)))
    expect(doubt([at(2)], Float64Array.of(Math.log(0.5)))[0]).toBe(0)
  })
})
