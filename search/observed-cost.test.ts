import { describe, expect, test } from 'vitest'
import {
  computeLogMetric,
  computeObservedLogCost,
  countTrialsWithoutGain,
  findBestObservation,
  meetsConstraint,
} from './observed-cost.ts'
import type { Observation, Problem } from './types.ts'

const problemOf = (change: Partial<Problem> = {}): Problem => ({
  space: {
    parameters: [
      { name: 'batch', category: 'server', kind: 'ordinal', values: [1, 2, 4], scale: 'log' },
    ],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  constraintLimit: 50,
  pricePerHour: ({ batch }) => Number(batch),
  ...change,
})
const complete = (
  batch: number,
  rate: number | undefined,
  ms: number | undefined,
  rest: object = {},
): Observation => ({
  configuration: { batch },
  state: 'complete',
  rate: rate === undefined ? undefined : { value: rate },
  constraint: ms === undefined ? undefined : { value: ms },
  ...rest,
})
const infeasible: Observation = {
  configuration: { batch: 1 },
  state: 'infeasible',
  reason: 'out of memory',
}

describe('the constraint', () => {
  test('is met at the limit, not beyond, not without a rate, not unmeasured', () => {
    const met = (observation: Observation, change?: Partial<Problem>) =>
      meetsConstraint(problemOf(change), observation)
    expect([met(complete(1, 10, 50)), met(complete(1, 10, 50.01))]).toEqual([true, false])
    expect([met(complete(1, 0, 10)), met(complete(1, 10, undefined)), met(infeasible)]).toEqual([
      false,
      false,
      false,
    ])
    const free = { constraintLimit: undefined }
    expect([
      met(complete(1, 10, 1e9), free),
      met(complete(1, undefined, undefined), free),
      met(infeasible, free),
    ]).toEqual([true, true, false])
  })

  test('is modelled in ln; zero counts as a thousandth of the limit', () => {
    expect(computeLogMetric(problemOf(), 20)).toBeCloseTo(Math.log(20), 12)
    expect(computeLogMetric(problemOf(), 0)).toBeCloseTo(Math.log(0.05), 12)
    expect(computeLogMetric(problemOf({ constraintLimit: undefined }), 0)).toBeCloseTo(
      Math.log(1e-12),
      9,
    )
  })
})

describe('the cost as measured', () => {
  const resolveReplicaPrice = (observation: Observation, change?: Partial<Problem>) =>
    Math.exp(computeObservedLogCost(problemOf(change), observation))

  test('is price over rate, $ per million requests', () => {
    expect(resolveReplicaPrice(complete(2, 100, 10))).toBeCloseTo((2 / 3600 / 100) * 1e6, 9)
  })

  test('is infinite for a trial that cannot serve, violates the limit, was pruned, or lacks the quantity', () => {
    expect(resolveReplicaPrice(infeasible)).toBe(Infinity)
    expect(resolveReplicaPrice(complete(2, 100, 51))).toBe(Infinity)
    expect(resolveReplicaPrice(complete(2, 100, 10, { censored: true }))).toBe(Infinity)
    expect(resolveReplicaPrice(complete(2, undefined, 10))).toBe(Infinity)
    const latency = {
      objective: { kind: 'min-latency', maxPricePerHour: 9 },
      constraintLimit: undefined,
    } as const
    expect(resolveReplicaPrice(complete(2, 100, undefined), latency)).toBe(Infinity)
    expect(resolveReplicaPrice(complete(2, 100, 12), latency)).toBeCloseTo(12, 9)
    expect(resolveReplicaPrice(complete(2, undefined, 12), latency)).toBeCloseTo(12, 9)
    // A price needs no rate.
    expect(
      resolveReplicaPrice(complete(2, undefined, 10), { objective: { kind: 'price' } }),
    ).toBeCloseTo(2, 9)
  })
})

test('the best is the first of the cheapest that meet the limit; none where no trial does', () => {
  const observations = [
    complete(4, 100, 90),
    complete(2, 100, 10),
    complete(1, 50, 20),
    complete(1, 20, 10),
  ]
  expect(findBestObservation(problemOf(), observations)).toMatchObject({
    configuration: { batch: 2 },
  })
  expect(findBestObservation(problemOf(), [infeasible, observations[0]!])).toBeUndefined()
})

test('trials without gain are those since the last feasible one that was better than all before', () => {
  const since = (trials: readonly Observation[]) => countTrialsWithoutGain(problemOf(), trials)
  const [poor, good, middling, slow] = [
    complete(1, 1, 5),
    complete(1, 2, 5),
    complete(1, 1.5, 5),
    complete(1, 9, 51),
  ]
  expect(since([])).toBe(0)
  expect(since([poor, good, middling, slow, infeasible])).toBe(3)
  expect(since([infeasible, infeasible])).toBe(2)
})

test('... or by more than the minimum gain', () => {
  const rates = [100, 104, 110, 111].map((rps) => complete(1, rps, 5))
  expect(countTrialsWithoutGain(problemOf(), rates.slice(0, 2), 0.05)).toBe(1)
  expect(countTrialsWithoutGain(problemOf(), rates.slice(0, 3), 0.05)).toBe(0)
  expect(countTrialsWithoutGain(problemOf(), rates, 0.05)).toBe(1)
})
