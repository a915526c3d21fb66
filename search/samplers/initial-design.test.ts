import { describe, expect, test } from 'vitest'
import { cdf } from '../gp/normal.ts'
import { createRng } from '../rng.ts'
import { enumerateConfigurations } from '../space/space.ts'
import type { Configuration, OrdinalParameter, Parameter, Problem, Rng } from '../types.ts'
import {
  countInitialTrials,
  suggestCheapestByDeviceModel,
  suggestSpaceFilling,
} from './initial-design.ts'

const ordinal = (
  name: string,
  values: readonly number[],
  more: Partial<OrdinalParameter> = {},
): OrdinalParameter => ({
  name,
  category: 'server',
  kind: 'ordinal',
  values,
  scale: 'linear',
  ...more,
})
const problemOf = (parameters: readonly Parameter[], more: Partial<Problem> = {}): Problem => ({
  space: { parameters, constraints: [] },
  objective: { kind: 'price' },
  pricePerHour: () => 1,
  ...more,
})
const first: Rng = { next: () => 0, normal: () => 0, int: () => 0, fork: () => first }
const last: Rng = { ...first, int: (n) => n - 1, fork: () => last }

test('two initial trials, plus one for each parameter without a known direction, six at most', () => {
  const unknown = ['a', 'b', 'c', 'd', 'e'].map((name) => ordinal(name, [1, 2]))
  expect(
    [0, 1, 3, 4, 5].map((count) => countInitialTrials(problemOf(unknown.slice(0, count)))),
  ).toEqual([2, 3, 5, 6, 6])
  const directed = [
    ordinal('a', [1, 2], { concurrency: true }),
    ordinal('b', [1, 2], { monotone: 'up' }),
    ordinal('c', [1, 2]),
  ]
  expect(countInitialTrials(problemOf(directed, { pricePerHour: (c) => Number(c.c) }))).toBe(2)
  // None of that tells of a metric.
  const objective = { kind: 'max-metric', metric: 'recall' } as const
  expect(
    countInitialTrials(problemOf(directed, { objective, pricePerHour: (c) => Number(c.c) })),
  ).toBe(5)
})

describe('suggestSpaceFilling', () => {
  // On both axes 0, ¼, ½, ¾, 1.
  const problem = problemOf([ordinal('a', [0, 1, 2, 3, 4]), ordinal('b', [0, 1, 2, 3, 4])])
  const all = enumerateConfigurations(problem.space)
  const apart = (x: Configuration, y: Configuration) =>
    Math.hypot(Number(x.a) - Number(y.a), Number(x.b) - Number(y.b))

  test('starts at the centre', () => {
    expect(suggestSpaceFilling(problem, [], all, first)).toEqual({
      configuration: { a: 2, b: 2 },
      why: 'start: space-filling',
    })
  })

  test('starts among the 3 % nearest to the centre, whatever the seed', () => {
    const fine = problemOf([
      ordinal(
        'a',
        Array.from({ length: 100 }, (_, i) => i),
      ),
    ])
    const cells = enumerateConfigurations(fine.space)
    // 49.5 is the middle: 49, 50, 48 are nearest.
    expect([49, 50]).toContain(suggestSpaceFilling(fine, [], cells, first).configuration.a)
    expect([48, 51]).toContain(suggestSpaceFilling(fine, [], cells, last).configuration.a)
    // Of 50 one and a half: two.
    const half = enumerateConfigurations(
      problemOf([
        ordinal(
          'a',
          Array.from({ length: 50 }, (_, i) => i),
        ),
      ]).space,
    )
    expect(
      [
        suggestSpaceFilling(
          problemOf([
            ordinal(
              'a',
              Array.from({ length: 50 }, (_, i) => i),
            ),
          ]),
          [],
          half,
          first,
        ),
        suggestSpaceFilling(
          problemOf([
            ordinal(
              'a',
              Array.from({ length: 50 }, (_, i) => i),
            ),
          ]),
          [],
          half,
          last,
        ),
      ].map(({ configuration }) => configuration.a),
    ).toEqual([24, 25])
  })

  test('continues where it most reduces the mean distance to the nearest trial', () => {
    const taken: Configuration[] = []
    for (let trial = 0; trial < 4; trial++) {
      const left = all.filter((c) => !taken.includes(c))
      const meanDistance = (more: Configuration) =>
        all.reduce((sum, c) => sum + Math.min(...[...taken, more].map((t) => apart(c, t))), 0)
      const { configuration } = suggestSpaceFilling(problem, taken, left, first)
      if (trial > 0)
        expect(meanDistance(configuration)).toBeCloseTo(Math.min(...left.map(meanDistance)), 9)
      taken.push(configuration)
    }
  })

  test('compares at most a thousand candidates, evenly spaced', () => {
    const fine = problemOf([
      ordinal(
        'a',
        Array.from({ length: 2_500 }, (_, i) => i),
      ),
    ])
    const cells = enumerateConfigurations(fine.space)
    const { configuration } = suggestSpaceFilling(fine, [cells[0]!], cells.slice(1), first)
    // One in three, from the second cell on.
    expect((Number(configuration.a) - 1) % 3).toBe(0)
    // The mean distance to the nearer of 0 and x is least for x two thirds of the way.
    expect(Math.abs(Number(configuration.a) - 1_667)).toBeLessThan(10)
    expect(
      suggestSpaceFilling(fine, [], cells.slice(0, 1_001), createRng(1)).configuration.a,
    ).toSatisfy((a: number) => a % 2 === 0)
    expect(Number(suggestSpaceFilling(fine, [], cells.slice(0, 1_000), last).configuration.a)).toBe(
      970,
    )
  })
})

describe('suggestCheapestByDeviceModel', () => {
  const space = [ordinal('a', [1, 2, 3, 4])]
  const all = enumerateConfigurations(problemOf(space).space)
  const per = (more: Partial<Problem>) =>
    suggestCheapestByDeviceModel(
      problemOf(space, {
        objective: { kind: 'price-per-request' },
        pricePerHour: (c) => Number(c.a),
        ...more,
      }),
      all,
    )

  test('is the least expected cost', () => {
    const { configuration, why } = per({
      priorLogRate: (c) => Math.log([1, 5, 7, 9][Number(c.a) - 1]!),
    })!
    expect([configuration.a, why]).toEqual([2, 'start: cheapest by the device model'])
  })
  test('of ties within 2 % it is the first of the space', () => {
    const chosen = (third: number) =>
      per({ priorLogRate: (c) => Math.log([1, 5, third, 1][Number(c.a) - 1]!) })!.configuration.a
    // 3 / 7.6 is 1.3 % less than 2 / 5, 3 / 7.7 is 2.6 %.
    expect([chosen(7.6), chosen(7.7)]).toEqual([2, 3])
  })
  test('weighs it by P(limit met), with a standard deviation of 15 %', () => {
    const priorLogRate = (c: Configuration) => Math.log([1, 5, 7, 9][Number(c.a) - 1]!)
    const latency = (ms: readonly (number | undefined)[]) => (c: Configuration) => {
      const value = ms[Number(c.a) - 1]
      return value === undefined ? undefined : Math.log(value)
    }
    const met = (ms: number) => cdf(Math.log(10 / ms) / 0.15)
    // 2.5 requests a price against 2.33: worth it unless the limit is missed by more than one time
    //   in 12, which is one in 15 and a tie.
    const worth = (7 / 7.5) * Math.exp(-0.02)
    expect([met(8.1) > worth, met(8.2) < worth]).toEqual([true, true])
    const chosen = (ms: number, more: Partial<Problem> = { constraintLimit: 10 }) =>
      per({ priorLogRate, priorLogConstraint: latency([1, ms, 1, 99]), ...more })!.configuration.a
    expect([chosen(8.1), chosen(8.2)]).toEqual([2, 3])
    expect(chosen(99, {})).toBe(2)
    expect(
      per({ priorLogRate, priorLogConstraint: latency([1, undefined, 1, 1]), constraintLimit: 10 })!
        .configuration.a,
    ).toBe(2)
  })
  test('weighs it by P(memory suffices)', () => {
    const priorLogRate = (c: Configuration) => Math.log([1, 5, 7, 9][Number(c.a) - 1]!)
    const chosen = (fits: number) =>
      per({ priorLogRate, memoryFitProbability: (c) => (c.a === 2 ? fits : 1) })!.configuration.a
    // 2.5 requests a price against 2.33, as above.
    expect([chosen(0.93), chosen(0.9)]).toEqual([2, 3])
  })
  test('a constraint without a prediction counts as met, like one that is surely met', () => {
    const priorLogRate = (c: Configuration) => Math.log([1, 5, 7, 9][Number(c.a) - 1]!)
    const unknown = (at: number) => (c: Configuration) => (c.a === at ? undefined : Math.log(0.1))
    for (const at of [2, 3, 4])
      expect(
        per({ priorLogRate, priorLogConstraint: unknown(at), constraintLimit: 10 })!.configuration
          .a,
      ).toBe(2)
  })
  test('skips configurations without a prediction; the first of equals; undefined without predictions', () => {
    expect(
      per({ priorLogRate: (c) => (c.a === 2 ? undefined : Math.log(Number(c.a))) })!.configuration
        .a,
    ).toBe(1)
    expect(per({ priorLogRate: () => undefined })).toBeUndefined()
    expect(per({})).toBeUndefined()
  })
})
