import { describe, expect, test } from 'vitest'
import { cdf } from '../gp/normal.ts'
import { fitSurrogate } from '../model/surrogate.ts'
import { createRng } from '../rng.ts'
import { listConfigurations } from '../space/candidates.ts'
import { configurationKey } from '../space/space.ts'
import type { Observation, Problem } from '../types.ts'
import { findFirstFeasible, rankTrials } from './incumbent.ts'
import { estimateRegret } from './regret.ts'

const seed = createRng('answer')
/** 258ths are as fine as it gets, and draws are draws: three deviations of 256. */
const about = (p: number) => 3 * Math.sqrt((p * (1 - p)) / 256) + 1 / 258

/** The incumbent with its regret; undefined where there is none. */
function estimate(
  problem: Problem,
  observations: readonly Observation[],
  { tolerance = 0.05 } = {},
) {
  const surrogate = fitSurrogate(problem, observations, [])
  const trials = rankTrials(problem, observations, surrogate)
  const incumbent = findFirstFeasible(trials)
  const tried = new Set(observations.map((o) => configurationKey(o.configuration)))
  const untried = listConfigurations(problem.space).filter((c) => !tried.has(configurationKey(c)))
  return (
    incumbent && {
      configuration: incumbent.configuration,
      ...estimateRegret(problem, surrogate, trials, incumbent, untried, tolerance, seed),
    }
  )
}

describe('of two trials and nothing else', () => {
  const problem: Problem = {
    space: {
      parameters: [
        { name: 'n', category: 'server', kind: 'ordinal', values: [4, 8], scale: 'linear' },
      ],
      constraints: [],
    },
    objective: { kind: 'price' },
    constraintLimit: 10,
    pricePerHour: (c) => Number(c.n),
  }
  const read = (n: number, value: number): Observation => ({
    configuration: { n },
    state: 'complete',
    constraint: { value, logSd: 0.1 },
  })
  const met = (observations: readonly Observation[]) => {
    const { constraint } = fitSurrogate(problem, observations, []).predict([{ n: 4 }])
    return cdf(-constraint!.mean[0]! / Math.sqrt(constraint!.variance[0]!))
  }

  test('the cheaper one is the best trial with P(limit met)', () => {
    const observations = [read(4, 9), read(8, 5)]
    const probability = met(observations)
    expect(probability).toBeGreaterThan(0.6)
    expect(probability).toBeLessThan(0.97)
    const answer = estimate(problem, observations)!
    expect(answer.configuration).toEqual({ n: 4 })
    expect(Math.abs(answer.probabilityBest - probability)).toBeLessThan(about(probability))
    expect(answer.probabilityBetterExists).toBe(1 / 258)
  })
  test('the dearer one where the cheaper probably violates the limit', () => {
    const observations = [read(4, 10.8), read(8, 5)]
    const answer = estimate(problem, observations)!
    expect(answer.configuration).toEqual({ n: 8 })
    expect(Math.abs(answer.probabilityBest - (1 - met(observations)))).toBeLessThan(about(0.5))
    expect(answer.probabilityBest).toBeLessThan(0.95)
  })
  test('neither where no trial is predicted to meet it', () => {
    expect(estimate(problem, [read(4, 30), read(8, 20)])).toBeUndefined()
  })
  test('the incumbent counts as best within the tolerance', () => {
    const near: Problem = { ...problem, pricePerHour: (c) => 1 + Number(c.n) / 100 }
    const answer = (tolerance: number) => estimate(near, [read(4, 9.4), read(8, 5)], { tolerance })!
    expect(answer(0.05).configuration).toEqual({ n: 4 })
    expect(answer(0.05).probabilityBest).toBe(answer(0.01).probabilityBest)
  })
})

test('an untried configuration that may be much better lowers the probability of every trial', () => {
  const problem: Problem = {
    space: {
      parameters: [
        {
          name: 'n',
          category: 'server',
          kind: 'ordinal',
          values: [1, 2, 3, 4, 5, 6],
          scale: 'linear',
        },
      ],
      constraints: [],
    },
    objective: { kind: 'price-per-request' },
    pricePerHour: () => 1,
  }
  const trials = [100, 104, 120, 150, 190].map(
    (value, i): Observation => ({
      configuration: { n: i + 1 },
      state: 'complete',
      rate: { value, logSd: 0.02 },
    }),
  )
  const answer = estimate(problem, trials)!
  expect(answer.configuration).toEqual({ n: 5 })
  expect(answer.probabilityBetterExists).toBeGreaterThan(0.7)
  expect(answer.probabilityBest).toBeLessThan(1 - answer.probabilityBetterExists + 0.1)
  expect(estimate(problem, trials)).toEqual(answer)
})

describe('the expected regret', () => {
  const led = (values: readonly number[]): Problem => ({
    space: {
      parameters: [
        { name: 'n', category: 'server', kind: 'ordinal', values: [...values], scale: 'linear' },
      ],
      constraints: [],
    },
    objective: { kind: 'price-per-request' },
    pricePerHour: () => 1,
    priorLogRate: (c) => Math.log(100 + 2 * Number(c.n)),
  })
  const five = [100, 104, 101, 110, 107].map(
    (value, i): Observation => ({
      configuration: { n: i + 1 },
      state: 'complete',
      rate: { value, logSd: 0.001 },
    }),
  )

  test('of one: its expected saving where it exceeds the tolerance, with widened deviations', () => {
    const { rate } = fitSurrogate(led([1, 2, 3, 4, 5, 6]), five, []).predict([{ n: 4 }, { n: 6 }])
    const [best, mean] = [rate!.mean[0]!, rate!.mean[1]!]
    const sd = 1.5 * Math.sqrt(rate!.variance[1]!)
    let [expected, square] = [0, 0]
    for (let z = -8; z < 8; z += 0.002) {
      const saving = -Math.expm1(best - (mean + sd * z))
      const saved = saving > 0.05 ? saving : 0
      const weight = (0.002 * Math.exp(-0.5 * z * z)) / Math.sqrt(2 * Math.PI)
      expected += weight * saved
      square += weight * saved * saved
    }
    const { expectedRegret } = estimate(led([1, 2, 3, 4, 5, 6]), five)!
    expect(expected).toBeGreaterThan(0.01)
    expect(Math.abs(expectedRegret - expected)).toBeLessThan(
      3 * Math.sqrt((square - expected ** 2) / 256),
    )
  })

  test('of many candidates: more than of any one, and zero where none can be better', () => {
    const few = estimate(led([1, 2, 3, 4, 5, 6]), five)!.expectedRegret
    const many = estimate(led([1, 2, 3, 4, 5, 6, 26, 46, 66, 86]), five)!.expectedRegret
    expect(many).toBeGreaterThan(1.5 * few)
    const dear: Problem = { ...led([1, 2, 3, 4, 5, 6]), pricePerHour: (c) => (c.n === 6 ? 10 : 1) }
    expect(estimate(dear, five)!.expectedRegret).toBe(0)
  })
})
