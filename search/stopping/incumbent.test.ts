import { describe, expect, test } from 'vitest'
import { fitSurrogate, type Surrogate } from '../model/surrogate.ts'
import { findBestObservation } from '../observed-cost.ts'
import type { Observation, Problem } from '../types.ts'
import { findIncumbent, rankTrials } from './incumbent.ts'

const problem: Problem = {
  space: {
    parameters: [
      {
        name: 'batch',
        category: 'server',
        kind: 'ordinal',
        values: [1, 2, 4, 8, 16, 32, 64],
        scale: 'log',
      },
    ],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  constraintLimit: 20,
  pricePerHour: () => 1,
}
const measurement = (batch: number, latencyMs: number): Observation => ({
  configuration: { batch },
  state: 'complete',
  rate: { value: 40 * batch ** 0.5, logSd: 0.03 },
  constraint: { value: latencyMs, logSd: 0.15 },
})
// Latency doubles with every second step, from 18.4 ms at 16 to 26 ms at 32; the measurement at 32 is
// lucky.
const observations = [
  measurement(1, 4.6),
  measurement(2, 6.5),
  measurement(4, 9.2),
  measurement(8, 13),
  measurement(16, 18.4),
  measurement(32, 19.8),
  measurement(64, 36.8),
]

test('a favourable measurement of a trial that probably violates the limit is not the incumbent', () => {
  const surrogate = fitSurrogate(problem, observations, [])
  expect(findBestObservation(problem, observations)?.configuration).toEqual({ batch: 32 })
  expect(findIncumbent(problem, observations, surrogate)?.configuration).toEqual({ batch: 16 })
})

test('there is none while no trial is predicted to meet the limit', () => {
  const slow = observations.map((o) =>
    o.state === 'complete' ? { ...o, constraint: { value: 90 } } : o,
  )
  const surrogate = fitSurrogate(problem, slow, [])
  expect(findIncumbent(problem, slow, surrogate)).toBeUndefined()
})

describe('a trial counts', () => {
  const surrogate = fitSurrogate(problem, observations, [])
  const best = (change: (o: Observation) => Observation, given = problem) =>
    findIncumbent(
      given,
      observations.map((o) => (o.configuration.batch === 16 ? change(o) : o)),
      surrogate,
    )?.configuration.batch

  test('unless it failed, was pruned or served nothing', () => {
    expect(best((o) => o)).toBe(16)
    expect(
      best(({ configuration }) => ({ configuration, state: 'infeasible', reason: 'crashed' })),
    ).toBe(8)
    expect(best((o) => ({ ...o, censored: true }) as Observation)).toBe(8)
    expect(best((o) => ({ ...o, rate: { value: 0 } }) as Observation)).toBe(8)
  })
  test('by its posterior mean cost', () => {
    const { rate } = surrogate.predict([{ batch: 16 }])
    expect(findIncumbent(problem, observations, surrogate)!.logCost).toBeCloseTo(
      Math.log(1e6 / 3600) - rate!.mean[0]!,
      12,
    )
  })
  test('without a limit any trial, with one only where the constraint was measured', () => {
    const free = { ...problem, constraintLimit: undefined }
    expect(best((o) => o, free)).toBe(64)
    const unmeasured = observations.map((o) => ({ ...o, constraint: undefined }) as Observation)
    expect(
      findIncumbent(problem, unmeasured, fitSurrogate(problem, unmeasured, [])),
    ).toBeUndefined()
    expect(
      findIncumbent(free, unmeasured, fitSurrogate(free, unmeasured, []))!.configuration.batch,
    ).toBe(64)
    expect(findIncumbent(problem, [], surrogate)).toBeUndefined()
  })
  test('also at the limit itself, by an unloaded latency', () => {
    const latency: Problem = { ...problem, objective: { kind: 'min-latency', maxPricePerHour: 2 } }
    expect(
      findIncumbent(latency, observations, fitSurrogate(latency, observations, []))!.configuration
        .batch,
    ).toBe(1)
  })
})

describe('rankTrials', () => {
  /** Predictions as given: ln rate, and the constraint with its deviation. */
  const predicting = (
    rates: readonly number[],
    constraints: readonly (readonly [mean: number, sd: number])[],
  ): Surrogate => ({
    predict: () => ({
      rate: { mean: Float64Array.from(rates), variance: new Float64Array(rates.length) },
      constraint: {
        mean: Float64Array.from(constraints, ([mean]) => mean),
        variance: Float64Array.from(constraints, ([, sd]) => sd * sd),
      },
      logServes: new Float64Array(rates.length),
    }),
    sampleJoint: () => {
      throw new Error('not drawn')
    },
    warnings: [],
    isPriorAccepted: false,
  })
  const three = observations.slice(0, 3)
  const missing = [1e-9, 0.1] as const
  const surrogate = predicting(
    [0.5, 1, 2],
    [
      [-1, 1],
      [0, 0.5],
      [1, 2],
    ],
  )

  test('the cheapest first, with the z-score of each violation', () => {
    const cost = (logRate: number) => expect.closeTo(Math.log(1e6 / 3600) - logRate, 12)
    expect(rankTrials(problem, three, surrogate)).toEqual([
      { configuration: { batch: 4 }, violationZScore: 0.5, logCost: cost(2) },
      { configuration: { batch: 2 }, violationZScore: 0, logCost: cost(1) },
      { configuration: { batch: 1 }, violationZScore: -1, logCost: cost(0.5) },
    ])
  })
  test('the best meets the limit', () => {
    expect(findIncumbent(problem, three, surrogate)?.configuration).toEqual({ batch: 2 })
    expect(
      findIncumbent(problem, three, predicting([1, 0.98, 0.9], [missing, missing, missing])),
    ).toBeUndefined()
  })
})
