import { describe, expect, test } from 'vitest'
import { fitSurrogate } from '../model/surrogate.ts'
import { createRng } from '../rng.ts'
import { findCandidates, listConfigurations } from '../space/candidates.ts'
import { findIncumbent } from '../stopping/incumbent.ts'
import type { Configuration, Observation, Problem, SearchSpace } from '../types.ts'
import { computeLogAcquisition } from './expected-improvement.ts'
import { attachPrices, shortlistCandidates } from './shortlist.ts'

const steps = (count: number) => Array.from({ length: count }, (_, i) => i + 1)
const space: SearchSpace = {
  parameters: [
    { name: 'cores', category: 'resource', kind: 'ordinal', values: steps(10), scale: 'log' },
    {
      name: 'batch',
      category: 'server',
      kind: 'ordinal',
      values: steps(12),
      scale: 'log',
      concurrency: true,
    },
    { name: 'memory', category: 'resource', kind: 'ordinal', values: steps(8), scale: 'log' },
    { name: 'gpu', category: 'resource', kind: 'categorical', values: ['T4', 'A10', 'A100'] },
  ],
  constraints: [],
}
const gpuPrices: Readonly<Record<string, number>> = { T4: 0.3, A10: 0.6, A100: 1.8 }
const problem: Problem = {
  space,
  objective: { kind: 'price-per-request' },
  constraintLimit: 20,
  pricePerHour: (c) => 0.05 * Number(c.cores) + 0.01 * Number(c.memory) + gpuPrices[String(c.gpu)]!,
}
function measured(configuration: Configuration, noise: () => number): Observation {
  const ms =
    ((5 + 2 * Number(configuration.batch)) / Math.sqrt(Number(configuration.cores))) *
    Math.exp(0.05 * noise())
  return {
    configuration,
    state: 'complete',
    rate: { value: (1000 * Number(configuration.batch)) / ms },
    constraint: { value: ms },
  }
}

describe('more than a thousand candidates', () => {
  const rng = createRng('hopeful')
  const all = listConfigurations(space)
  const observations = Array.from({ length: 100 }, () =>
    measured(all[rng.int(all.length)]!, () => rng.normal()),
  )
  const taken = observations.map((o) => o.configuration)
  const untried = attachPrices(problem, findCandidates(problem, taken, rng).configurations)

  test.each([20, 100])(
    'approximate preselection gives the exact shortlist: %i trials',
    (trials) => {
      const soFar = observations.slice(0, trials)
      const surrogate = fitSurrogate(problem, soFar, [])
      const target = findIncumbent(problem, soFar, surrogate)!.logCost + Math.log(0.95)
      const exactly = shortlistCandidates(
        problem,
        surrogate,
        untried,
        target,
        untried.prices.length,
      )
      expect(untried.prices.length).toBeGreaterThan(1_000)
      expect(exactly.prices.length).toBeGreaterThan(20)
      expect(shortlistCandidates(problem, surrogate, untried, target)).toEqual(exactly)
    },
  )
})

test('the largest expected improvement comes first; candidates that cannot be better are absent', () => {
  const flat: Problem = {
    space: {
      parameters: [
        { name: 'n', category: 'server', kind: 'ordinal', values: steps(6), scale: 'linear' },
      ],
      constraints: [],
    },
    objective: { kind: 'price-per-request' },
    pricePerHour: () => 1,
  }
  const trials = [100, 104, 120].map(
    (value, i): Observation => ({
      configuration: { n: i + 1 },
      state: 'complete',
      rate: { value, logSd: 0.02 },
    }),
  )
  const surrogate = fitSurrogate(flat, trials, [])
  const untried = attachPrices(
    flat,
    findCandidates(
      flat,
      trials.map((o) => o.configuration),
      createRng(1),
    ).configurations,
  )
  const best = findIncumbent(flat, trials, surrogate)!.logCost
  const rising = shortlistCandidates(
    flat,
    surrogate,
    untried,
    best + Math.log(0.95),
  ).configurations.map((c) => c.n)
  expect([...rising].sort()).toEqual([4, 5, 6])
  const scores = computeLogAcquisition(
    flat,
    rising.map(() => ({ pricePerHour: 1 })),
    surrogate.predict(rising.map((n) => ({ n: n! }))),
    best + Math.log(0.95),
  )
  expect([...scores]).toEqual([...scores].sort((a, b) => b - a))
  expect(shortlistCandidates(flat, surrogate, untried, best - 20).prices).toEqual([])
})
