import { describe, expect, test } from 'vitest'
import { cdf } from '../gp/normal.ts'
import { fitSurrogate } from '../model/surrogate.ts'
import { createRng } from '../rng.ts'
import { enumerateConfigurations } from '../space/space.ts'
import type { Configuration, Observation, Problem, SearchSpace } from '../types.ts'
import { assessStop } from './stop-rule.ts'

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
const all = enumerateConfigurations(space).map(measure)

describe('assessStop', () => {
  test('states probability 1 without an incumbent', () => {
    const slow = all.filter((o) => o.state === 'complete' && o.constraint!.value > 17)
    expect(assessStop({ ...problem, constraintLimit: 5 }, slow, createRng(1))).toEqual({
      probabilityBetterExists: 1,
      tolerance: 0.05,
      stop: false,
    })
  })
  test('states probability 0 when all is tried', () => {
    expect(assessStop(problem, all, createRng(1))).toEqual({
      probabilityBetterExists: 0,
      tolerance: 0.05,
      stop: true,
    })
  })
  test('continues after few poor trials, and stops once the best and its neighbours are measured', () => {
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
    expect(assessStop(problem, all.slice(4, 9), createRng(5))).toEqual(
      assessStop(problem, all.slice(4, 9), createRng(5)),
    )
  })
})

describe('the probability that a better configuration is untried', () => {
  const line = (values: readonly number[]): SearchSpace => ({
    parameters: [{ name: 'n', category: 'server', kind: 'ordinal', values, scale: 'linear' }],
    constraints: [],
  })
  const seed = createRng('stop')
  /** 258ths are as fine as it gets, and draws are draws: three deviations of 256. */
  const about = (p: number) => 3 * Math.sqrt((p * (1 - p)) / 256) + 1 / 258
  /** Of a Student t with two degrees of freedom. */
  const tailedCdf = (t: number) => 0.5 + t / (2 * Math.sqrt(2 + t * t))
  const assess = (given: Problem, observations: readonly Observation[], options = {}) =>
    assessStop(given, observations, seed, options)

  const keeps = (given: Problem, observations: readonly Observation[], n: number) => {
    const { constraint } = fitSurrogate(given, observations, []).predict([{ n }])
    return tailedCdf(-constraint!.mean[0]! / Math.sqrt(constraint!.variance[0]!))
  }

  describe('of one candidate', () => {
    const given: Problem = {
      space: line([1, 2, 3, 4, 5, 6]),
      objective: { kind: 'price-per-request' },
      pricePerHour: () => 1,
    }
    const rates = [100, 104, 101, 110, 107]
    const observations = rates.map(
      (value, i): Observation => ({
        configuration: { n: i + 1 },
        state: 'complete',
        rate: { value, logSd: 0.05 },
      }),
    )
    const untriedOne = { n: 6 }
    const beats = (
      problem: Problem,
      candidate: Configuration,
      tolerance: number,
      trials = observations,
      distribution = tailedCdf,
    ) => {
      const surrogate = fitSurrogate(problem, trials, [])
      const { rate: tried } = surrogate.predict(observations.map((o) => o.configuration))
      const toBeat = Math.max(...tried!.mean) - Math.log(1 - tolerance)
      const { rate } = surrogate.predict([candidate])
      return 1 - distribution((toBeat - rate!.mean[0]!) / Math.sqrt(rate!.variance[0]!))
    }

    test.each([
      ['the tolerance that is usual', {}, 0.05],
      ['another', { tolerance: 0.02 }, 0.02],
    ])('is that its rate beats the incumbent by %s', (_, options, tolerance) => {
      const expected = beats(given, untriedOne, tolerance)
      expect(expected).toBeGreaterThan(0.05)
      expect(expected).toBeLessThan(0.95)
      const found = assess(given, observations, options)
      expect(Math.abs(found.probabilityBetterExists - expected)).toBeLessThan(about(expected))
      expect(found.tolerance).toBe(tolerance)
    })

    test('decreases with P(serves)', () => {
      const failing: Problem = { ...given, space: line([1, 2, 3, 4, 5, 6, 7, 8]) }
      const failed = [6, 8].map(
        (n): Observation => ({
          configuration: { n },
          state: 'infeasible',
          reason: 'out of memory',
        }),
      )
      const all = [...observations, ...failed]
      const serves = Math.exp(fitSurrogate(failing, all, []).predict([{ n: 7 }]).logServes[0]!)
      expect(serves).toBeLessThan(0.5)
      const found = assess(failing, all).probabilityBetterExists
      const expected = beats(failing, { n: 7 }, 0.05, all) * serves
      expect(Math.abs(found - expected)).toBeLessThan(about(expected))
    })

    test('is that of a normal 1.5 times as wide with an accepted device-model prior', () => {
      const led: Problem = { ...given, priorLogRate: (c) => Math.log(100 + 2 * Number(c.n)) }
      const expected = beats(led, untriedOne, 0.15, observations, (z) => cdf(z / 1.5))
      expect(
        Math.abs(assess(led, observations, { tolerance: 0.15 }).probabilityBetterExists - expected),
      ).toBeLessThan(about(expected))
    })
  })

  describe('of a price that is known', () => {
    // Prices 1 to 8; the limit is met from 4 on.
    const given: Problem = {
      space: line([1, 2, 3, 4, 5, 6, 7, 8]),
      objective: { kind: 'price' },
      constraintLimit: 10,
      pricePerHour: (c) => Number(c.n),
    }
    const read = (n: number): Observation => ({
      configuration: { n },
      state: 'complete',
      constraint: { value: 36 / n, logSd: 0.02 },
    })

    test('is P(limit met)', () => {
      const observations = [8, 7, 6, 5, 1].map(read)
      const met = (n: number) => keeps(given, observations, n)
      const found = assess(given, observations).probabilityBetterExists
      expect(found).toBeGreaterThanOrEqual(met(4) - about(met(4)))
      expect(found).toBeLessThanOrEqual(met(4) + met(3) + met(2) + about(met(4)))
      expect(met(4)).toBeGreaterThan(0.2)
    })

    test('is never 1, because draws show no certainty', () => {
      const roomy = { ...given, constraintLimit: undefined }
      expect(assess(roomy, [8, 7, 6, 5, 4].map(read)).probabilityBetterExists).toBe(257 / 258)
    })

    test('is the smallest probability that draws can show where no candidate is cheaper', () => {
      const least = 1 / 258
      expect(assess(given, [3, 2, 4, 1, 8].map(read)).probabilityBetterExists).toBe(least)
    })

    test('is 1 before five trials, with a device-model prior before two', () => {
      expect(assess(given, [4, 3, 2, 1].map(read)).probabilityBetterExists).toBe(1)
      const informed = { ...given, priorLogRate: () => 0 }
      expect(assess(informed, [read(4)]).probabilityBetterExists).toBe(1)
      expect(assess(informed, [4, 3].map(read)).probabilityBetterExists).toBeLessThan(1)
    })

    test('ends a search once six trials have brought nothing better, two with a device-model prior', () => {
      const order = [4, 3, 2, 1, 8, 7, 6].map(read)
      const stops = (problem: Problem) =>
        order.map((_, i) => assess(problem, order.slice(0, i + 1)).stop)
      const roomy = { ...given, space: line(Array.from({ length: 16 }, (_, i) => i + 1)) }
      expect(stops(roomy)).toEqual([false, false, false, false, false, false, true])
      expect(stops({ ...given, priorLogRate: () => 0 }).slice(0, 3)).toEqual([false, false, true])
    })

    test('stops sooner with few candidates left: after as many trials without gain as candidates', () => {
      const order = [4, 3, 2, 1, 8].map(read)
      expect(order.map((_, i) => assess(given, order.slice(0, i + 1)).stop)).toEqual([
        false,
        false,
        false,
        false,
        true,
      ])
      // Four without gain, five left.
      const more = { ...given, space: line([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) }
      expect(assess(more, order).stop).toBe(false)
    })

    test('stops at the given risk, and not above', () => {
      const order = [4, 3, 2, 1, 8, 7, 6].map(read)
      expect([0.001, 1 / 258, 0.2].map((risk) => assess(given, order, { risk }).stop)).toEqual([
        false,
        true,
        true,
      ])
      // Usually one in twenty.
      const doubtful: Problem = { ...given, constraintLimit: 10.1 }
      const noisy = [4, 1, 2, 8, 7, 6, 5].map(
        (n) => ({ ...read(n), constraint: { value: 36 / n, logSd: 0.15 } }) as Observation,
      )
      expect(assess(doubtful, noisy).probabilityBetterExists).toBeGreaterThan(0.055)
      expect(assess(doubtful, noisy).probabilityBetterExists).toBeLessThan(0.1)
      expect([{}, { risk: 0.1 }].map((options) => assess(doubtful, noisy, options).stop)).toEqual([
        false,
        true,
      ])
      // A price within the tolerance is not better.
      const near: Problem = { ...given, space: line([1, 2, 3, 3.9, 4, 6, 7, 8]) }
      expect(assess(near, order).stop).toBe(true)
      expect(assess(near, order, { tolerance: 0.01 }).probabilityBetterExists).toBeGreaterThan(0.2)
    })
  })

  test('is that of the best candidates, however many others there are', () => {
    const given: Problem = {
      space: line(Array.from({ length: 3_000 }, (_, i) => i + 1)),
      objective: { kind: 'price' },
      constraintLimit: 10,
      pricePerHour: (c) => Number(c.n),
    }
    // Met from 2,500 on, as far as the measurements tell.
    const observations = [3000, 2800, 2600, 1250, 500, 150].map(
      (n): Observation => ({
        configuration: { n },
        state: 'complete',
        constraint: { value: 10 * (2500 / n) ** 1.5, logSd: 0.02 },
      }),
    )
    // 5 % cheaper than 2,600, and every 3 % of the range below: those between have nothing of their
    // own.
    const [met, ...beside] = [2469, 2379, 2289, 2199, 2109].map((n) =>
      keeps(given, observations, n),
    )
    const found = assess(given, observations).probabilityBetterExists
    expect(met).toBeGreaterThan(0.1)
    expect(found).toBeGreaterThan(met! - about(met!))
    const together = 1 - beside.reduce((none, p) => none * (1 - p), 1 - met!)
    expect(found).toBeLessThan(together)
    expect(together).toBeLessThan(0.55)
  })
})
