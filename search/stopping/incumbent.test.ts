import { describe, expect, test } from 'vitest'
import { fitSurrogate, type Surrogate } from '../model/surrogate.ts'
import { bestObservation } from '../observed-cost.ts'
import type { Observation, Problem } from '../types.ts'
import { believedBest, believedTrials } from './incumbent.ts'

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
const reading = (batch: number, latencyMs: number): Observation => ({
  configuration: { batch },
  state: 'complete',
  rate: { value: 40 * batch ** 0.5, logSd: 0.03 },
  constraint: { value: latencyMs, logSd: 0.15 },
})
// Latency doubles with every second step, from 18.4 ms at 16 to 26 ms at 32; the reading at 32 is
// lucky.
const observations = [
  reading(1, 4.6),
  reading(2, 6.5),
  reading(4, 9.2),
  reading(8, 13),
  reading(16, 18.4),
  reading(32, 19.8),
  reading(64, 36.8),
]

test('a lucky reading of what likely misses the limit is not the best', () => {
  const surrogate = fitSurrogate(problem, observations, [])
  expect(bestObservation(problem, observations)?.configuration).toEqual({ batch: 32 })
  expect(believedBest(problem, observations, surrogate)?.configuration).toEqual({ batch: 16 })
})

test('there is none while nothing is believed to meet the limit', () => {
  const slow = observations.map((o) =>
    o.state === 'complete' ? { ...o, constraint: { value: 90 } } : o,
  )
  const surrogate = fitSurrogate(problem, slow, [])
  expect(believedBest(problem, slow, surrogate)).toBeUndefined()
})

describe('a trial counts', () => {
  const surrogate = fitSurrogate(problem, observations, [])
  const best = (change: (o: Observation) => Observation, asked = problem) =>
    believedBest(
      asked,
      observations.map((o) => (o.configuration.batch === 16 ? change(o) : o)),
      surrogate,
    )?.configuration.batch

  test('unless it failed, was cut short or served nothing', () => {
    expect(best((o) => o)).toBe(16)
    expect(
      best(({ configuration }) => ({ configuration, state: 'infeasible', reason: 'crashed' })),
    ).toBe(8)
    expect(best((o) => ({ ...o, censored: true }) as Observation)).toBe(8)
    expect(best((o) => ({ ...o, rate: { value: 0 } }) as Observation)).toBe(8)
  })
  test('by what the model believes of its cost', () => {
    const { rate } = surrogate.believe([{ batch: 16 }])
    expect(believedBest(problem, observations, surrogate)!.logCost).toBeCloseTo(
      Math.log(1e6 / 3600) - rate!.mean[0]!,
      12,
    )
  })
  test('without a limit whatever it takes, with one only where something was measured of it', () => {
    const free = { ...problem, constraintLimit: undefined }
    expect(best((o) => o, free)).toBe(64)
    const unmeasured = observations.map((o) => ({ ...o, constraint: undefined }) as Observation)
    expect(believedBest(problem, unmeasured, fitSurrogate(problem, unmeasured, []))).toBeUndefined()
    expect(
      believedBest(free, unmeasured, fitSurrogate(free, unmeasured, []))!.configuration.batch,
    ).toBe(64)
    expect(believedBest(problem, [], surrogate)).toBeUndefined()
  })
  test('at the limit itself, by an idle latency, likewise', () => {
    const latency: Problem = { ...problem, objective: { kind: 'min-latency', maxPricePerHour: 2 } }
    expect(
      believedBest(latency, observations, fitSurrogate(latency, observations, []))!.configuration
        .batch,
    ).toBe(1)
  })
})

describe('what is believed of trials', () => {
  /** Beliefs as given: ln rate, and the constraint with its deviation. */
  const believing = (
    rates: readonly number[],
    constraints: readonly (readonly [mean: number, sd: number])[],
  ): Surrogate => ({
    believe: () => ({
      rate: { mean: Float64Array.from(rates), variance: new Float64Array(rates.length) },
      constraint: {
        mean: Float64Array.from(constraints, ([mean]) => mean),
        variance: Float64Array.from(constraints, ([, sd]) => sd * sd),
      },
      logServes: new Float64Array(rates.length),
    }),
    draw: () => {
      throw new Error('not drawn')
    },
    warnings: [],
    informed: false,
  })
  const three = observations.slice(0, 3)
  const missing = [1e-9, 0.1] as const
  const surrogate = believing(
    [0.5, 1, 2],
    [
      [-1, 1],
      [0, 0.5],
      [1, 2],
    ],
  )

  test('is the cheapest first, with the deviations by which each misses the limit', () => {
    const cost = (logRate: number) => expect.closeTo(Math.log(1e6 / 3600) - logRate, 12)
    expect(believedTrials(problem, three, surrogate)).toEqual([
      { configuration: { batch: 4 }, deviations: 0.5, logCost: cost(2) },
      { configuration: { batch: 2 }, deviations: 0, logCost: cost(1) },
      { configuration: { batch: 1 }, deviations: -1, logCost: cost(0.5) },
    ])
  })
  test('the best of them is at the limit at most', () => {
    expect(believedBest(problem, three, surrogate)?.configuration).toEqual({ batch: 2 })
    expect(
      believedBest(problem, three, believing([1, 0.98, 0.9], [missing, missing, missing])),
    ).toBeUndefined()
  })
})
