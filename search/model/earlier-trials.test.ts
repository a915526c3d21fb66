import { describe, expect, test } from 'vitest'
import { replaySearch } from '../replay/table.ts'
import { createRng } from '../rng.ts'
import { gpSampler } from '../samplers/gp.ts'
import { enumerateConfigurations } from '../space/space.ts'
import type { Configuration, Observation, Problem, SearchSpace } from '../types.ts'
import { createEarlierTrialsPrior } from './earlier-trials.ts'

const line: SearchSpace = {
  parameters: [
    { name: 'n', category: 'server', kind: 'ordinal', values: [1, 2, 3, 4, 5, 6], scale: 'linear' },
  ],
  constraints: [],
}
const rated = (n: number, rate: number): Observation => ({
  configuration: { n },
  state: 'complete',
  rate: { value: rate },
})

describe('earlier trials', () => {
  test('predict rates near their measurements, and between', () => {
    const earlier = [rated(1, 10), rated(2, 20), rated(4, 40), rated(6, 60)]
    const knowledge = createEarlierTrialsPrior(earlier, line)!
    const rates = knowledge
      .computeColumns([{ n: 2 }, { n: 3 }, { n: 5 }])
      .map(([log]) => Math.exp(log!))
    expect(rates[0]).toBeGreaterThan(17)
    expect(rates[0]).toBeLessThan(23)
    expect(rates[1]).toBeGreaterThan(rates[0]!)
    expect(rates[2]).toBeGreaterThan(rates[1]!)
    expect(knowledge.slopes).toEqual([[1, 0.5]])
  })

  test('give no prior with fewer than three rates; failures, bounds and zero rates do not count', () => {
    const none: Observation[] = [
      { configuration: { n: 3 }, state: 'infeasible', reason: '' },
      { configuration: { n: 4 }, state: 'complete' },
      { configuration: { n: 5 }, state: 'complete', rate: { value: 5 }, censored: true },
      rated(6, 0),
    ]
    expect(createEarlierTrialsPrior([rated(1, 1), rated(2, 2), ...none], line)).toBeUndefined()
    expect(createEarlierTrialsPrior([rated(1, 1), rated(2, 2), rated(3, 3)], line)).toBeDefined()
  })
})

describe('a search with earlier trials', () => {
  const values = (...of: number[]) => ({ kind: 'ordinal', values: of, scale: 'log' }) as const
  const space: SearchSpace = {
    parameters: [
      { name: 'cores', category: 'resource', ...values(1, 2, 4, 8, 16) },
      { name: 'batch', category: 'server', ...values(1, 2, 4, 8, 16, 32, 64) },
      { name: 'workers', category: 'server', ...values(1, 2, 3, 4) },
    ],
    constraints: [],
  }
  const problem: Problem = {
    space,
    objective: { kind: 'price-per-request' },
    constraintLimit: 60,
    pricePerHour: (c) => 0.1 + 0.05 * Number(c.cores),
  }
  const all = enumerateConfigurations(space)
  /** Latency has a fixed part, a part that grows with the batch, and contention of workers. */
  const measure = (configuration: Configuration): Observation => {
    const { cores, batch, workers } = configuration as Record<string, number>
    const ms = (8 + (2 * batch! * workers! ** 0.3) / cores! ** 0.8) * 1.5
    return {
      configuration,
      state: 'complete',
      rate: { value: (1000 * batch! * workers!) / ms / workers! ** 0.3, logSd: 0.02 },
      constraint: { value: ms, logSd: 0.02 },
    }
  }
  const costOf = (o: Observation) =>
    o.state === 'complete' && o.constraint!.value <= 60
      ? problem.pricePerHour(o.configuration) / o.rate!.value
      : Number.POSITIVE_INFINITY
  const optimum = Math.min(...all.map((c) => costOf(measure(c))))
  /** Trials to within 5 % of the cheapest feasible configuration, mean of four seeds. */
  const countTrials = (earlier?: readonly Observation[]) => {
    const counts = [1, 2, 3, 4].map(
      (seed) =>
        replaySearch(
          { configurations: all, problem: { ...problem, ...(earlier && { earlier }) }, measure },
          gpSampler,
          createRng(seed),
          {
            maxTrials: 30,
            stop: 'never',
            until: (seen) => costOf(seen.at(-1)!) <= 1.05 * optimum,
          },
        ).observations.length,
    )
    return counts.reduce((a, b) => a + b) / counts.length
  }
  const alone = countTrials()

  test('finds the optimum in fewer trials, also where the machine was half as fast', () => {
    const earlier = all
      .filter((_, i) => i % 3 === 0)
      .map(measure)
      .map((o) => ({ ...o, rate: { value: 0.5 * (o as { rate: { value: number } }).rate.value } }))
    expect(countTrials(earlier as Observation[])).toBeLessThan(alone)
  })

  test('takes at most three trials more with nonsense as earlier rates', () => {
    const rng = createRng('nonsense')
    const nonsense = all
      .filter((_, i) => i % 3 === 0)
      .map(
        (configuration): Observation => ({
          configuration,
          state: 'complete',
          rate: { value: Math.exp(3 * rng.normal()) },
        }),
      )
    expect(countTrials(nonsense)).toBeLessThanOrEqual(alone + 3)
  })
})
