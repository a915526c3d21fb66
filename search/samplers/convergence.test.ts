/**
 * The default sampler against random search and a grid on small problems, one for each way to score
 * a configuration (as Vizier's SimpleRegretComparisonTester).
 */
import { describe, expect, test } from 'vitest'
import { createSampler } from '../index.ts'
import { computeObservedLogCost } from '../observed-cost.ts'
import { createRng } from '../rng.ts'
import { configurationKey, enumerateConfigurations } from '../space/space.ts'
import type {
  Configuration,
  Observation,
  OrdinalParameter,
  Problem,
  Sampler,
  SearchSpace,
} from '../types.ts'

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
const space: SearchSpace = {
  parameters: [
    ordinal('cores', [1, 2, 3, 4, 6, 8]),
    ordinal('batch', [1, 2, 4, 8, 16, 32, 64], { concurrency: true }),
    { name: 'gpu', category: 'resource', kind: 'categorical', values: ['T4', 'L4', 'A10', 'V100'] },
  ],
  constraints: [],
}
const speeds: Readonly<Record<string, number>> = { T4: 1, L4: 1.7, A10: 2.2, V100: 3.1 }
const prices: Readonly<Record<string, number>> = { T4: 0.35, L4: 0.6, A10: 0.9, V100: 2.2 }
const pricePerHour = (c: Configuration) => prices[String(c.gpu)]! + 0.05 * Number(c.cores)

/** A made-up server: texts prepared by cores, batches on a GPU. */
function served(c: Configuration): { rps: number; ms: number } {
  const batch = Number(c.batch)
  const gpuMs = (6 + 1.6 * batch) / speeds[String(c.gpu)]!
  const cpuMs = (3 * batch) / Number(c.cores)
  return { rps: (1000 * batch) / Math.max(gpuMs, cpuMs), ms: gpuMs + cpuMs }
}
const measured = (c: Configuration): Observation => {
  const { rps, ms } = served(c)
  return { configuration: c, state: 'complete', rate: { value: rps }, constraint: { value: ms } }
}
const server: Problem = {
  space,
  objective: { kind: 'price-per-request' },
  pricePerHour,
  constraintLimit: 40,
}

/** Pools of three kinds of instance: missed by far below the load, hardly at all above. */
const pools: SearchSpace = {
  parameters: ['small', 'large', 'medium'].map((name) =>
    ordinal(name, [0, 1, 2, 3, 4, 5, 6], { scale: 'linear' }),
  ),
  constraints: [
    { text: 'some', holds: (c) => Number(c.small) + Number(c.medium) + Number(c.large) > 0 },
  ],
}
const pooled = (c: Configuration): Observation => {
  const load = 10 / (Number(c.small) + 2.3 * Number(c.medium) + 4.1 * Number(c.large))
  const violations = Math.min(100, load > 1 ? 100 * (1 - 1 / load) + 30 : 0.6 * load ** 4)
  return { configuration: c, state: 'complete', constraint: { value: violations } }
}

interface Case {
  readonly problem: Problem
  readonly measure: (c: Configuration) => Observation
}
const cases: Readonly<Record<string, Case>> = {
  'price per request under a limit': { problem: server, measure: measured },
  'price per request without a limit': {
    problem: { ...server, constraintLimit: undefined },
    measure: measured,
  },
  'least price under a limit': {
    problem: { ...server, objective: { kind: 'price' }, constraintLimit: 5.4 },
    measure: measured,
  },
  'least price at a cliff': {
    problem: {
      space: pools,
      objective: { kind: 'price' },
      pricePerHour: (c) => 0.1 * Number(c.small) + 0.2 * Number(c.medium) + 0.37 * Number(c.large),
      constraintLimit: 1,
    },
    measure: pooled,
  },
  'a demand of few replicas': {
    problem: { ...server, objective: { kind: 'price-for-demand', demandRps: 1500, headroom: 0.2 } },
    measure: measured,
  },
  'a demand of very many replicas': {
    problem: {
      ...server,
      objective: { kind: 'price-for-demand', demandRps: 300_000, headroom: 0.2 },
    },
    measure: measured,
  },
  'most rate within a price': {
    problem: { ...server, objective: { kind: 'max-rate', maxPricePerHour: 1 } },
    measure: measured,
  },
  'least latency within a price': {
    problem: {
      ...server,
      objective: { kind: 'min-latency', maxPricePerHour: 1 },
      constraintLimit: undefined,
    },
    measure: measured,
  },
  'what runs out of memory': {
    problem: { ...server, constraintLimit: 100 },
    measure: (c) =>
      Number(c.batch) > 8 * speeds[String(c.gpu)]!
        ? { configuration: c, state: 'infeasible', reason: 'out of memory' }
        : measured(c),
  },
  'hardly anything feasible': { problem: { ...server, constraintLimit: 3.2 }, measure: measured },
  'a device-model prior that is nearly right': {
    problem: {
      ...server,
      priorLogRate: (c) =>
        Math.log(served(c).rps) + 0.15 * Math.sin(3 * Number(c.cores) + Number(c.batch)) + 0.2,
      priorLogConstraint: (c) => Math.log(served(c).ms) - 0.1,
    },
    measure: measured,
  },
}

const CAP = 40
const SEEDS = 6

/** Mean number of trials to within 5 % of the optimum. */
function trials({ problem, measure }: Case, sampler: Sampler, optimum: number): number {
  let sum = 0
  for (let seed = 0; seed < SEEDS; seed++) {
    const rng = createRng(`convergence ${seed}`)
    const observations: Observation[] = []
    do observations.push(measure(sampler.suggest(problem, observations, [], rng)!.configuration))
    while (
      observations.length < CAP &&
      computeObservedLogCost(problem, observations.at(-1)!) > optimum + Math.log(1.05)
    )
    sum += observations.length
  }
  return sum / SEEDS
}

describe.each(Object.entries(cases))('%s', (_, given) => {
  const all = enumerateConfigurations(given.problem.space)
  const truth = new Map(
    all.map((c) => [configurationKey(c), computeObservedLogCost(given.problem, given.measure(c))]),
  )
  const optimum = Math.min(...truth.values())
  test('takes less than half the trials of random search, and less than a grid', () => {
    const gp = trials(given, createSampler('gp'), optimum)
    const random = trials(given, createSampler('random'), optimum)
    const grid = trials(given, createSampler('grid'), optimum)
    expect(gp).toBeLessThan(0.5 * random)
    expect(gp).toBeLessThan(grid)
  })
})

describe('a device-model prior that is nearly right', () => {
  const given = cases['a device-model prior that is nearly right']!
  const costs = enumerateConfigurations(given.problem.space).map((c) =>
    computeObservedLogCost(given.problem, given.measure(c)),
  )
  const optimum = Math.min(...costs)
  test('finds the best in less than half the trials of a search without it', () => {
    expect(trials(given, createSampler('gp'), optimum)).toBeLessThan(
      0.5 * trials({ problem: server, measure: measured }, createSampler('gp'), optimum),
    )
  })
  test('its first trial costs at most 1.5 times the best', () => {
    const { configuration } = createSampler('gp').suggest(given.problem, [], [], createRng(1))!
    expect(computeObservedLogCost(given.problem, measured(configuration))).toBeLessThan(
      optimum + Math.log(1.5),
    )
  })
  test('where its latencies are wrong, the limit is learned all the same', () => {
    const { priorLogConstraint } = given.problem
    const slow: Case = {
      ...given,
      problem: { ...given.problem, priorLogConstraint: (c) => priorLogConstraint!(c)! + 0.6 },
    }
    expect(trials(slow, createSampler('gp'), optimum)).toBeLessThan(12)
  })
})
