import { describe, expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import { createHalton } from '../space/halton.ts'
import { createSobol } from '../space/sobol.ts'
import { configurationKey, decodeConfiguration } from '../space/space.ts'
import type { Configuration, Observation, Parameter, Problem } from '../types.ts'
import { haltonSampler, sobolSampler } from './quasi-random.ts'

const whole = (name: string, max: number): Parameter => ({
  name,
  category: 'server',
  kind: 'int',
  min: 1,
  max,
  scale: 'linear',
})
const real = (name: string): Parameter => ({
  name,
  category: 'server',
  kind: 'float',
  min: 0,
  max: 1,
  scale: 'linear',
})
const failed = (configuration: Configuration): Observation => ({
  configuration,
  state: 'infeasible',
  reason: '',
})
const problemOf = (parameters: readonly Parameter[], more: Partial<Problem> = {}): Problem => ({
  space: {
    parameters,
    constraints: [
      { text: 'b is small', holds: (c) => Number(c.b) < 8 },
      { text: 'a is large', holds: (c) => Number(c.a) > 0.25 },
    ],
  },
  objective: { kind: 'price' },
  pricePerHour: () => 1,
  ...more,
})
const seed = createRng(7)

describe.each([
  ['sobol', sobolSampler, createSobol],
  ['halton', haltonSampler, createHalton],
] as const)('%s', (name, sampler, create) => {
  test.each([
    ['a grid', [whole('a', 5), whole('b', 9)]],
    ['a space too large to list', [real('a'), { ...real('b'), max: 9 }]],
  ] as const)(
    'takes the first point of %s that is allowed, not tried and not pending',
    (_, parameters) => {
      const given = problemOf(parameters, { cannotServe: (c) => Number(c.b) > 6 })
      const point = create(2, seed.fork(name))
      const allowed = (c: Configuration) => Number(c.a) > 0.25 && Number(c.b) <= 6
      const points = Array.from({ length: 20 }, (_, i) =>
        decodeConfiguration(given.space, point(i)),
      )
      const seen = new Set<string>()
      const trials: Configuration[] = []
      for (const [i, c] of points.entries()) {
        if (!allowed(c) || seen.has(configurationKey(c))) continue
        const observations = trials.slice(0, -1).map(failed)
        expect(sampler.suggest(given, observations, trials.slice(-1), seed)).toEqual({
          configuration: c,
          why: `${name} point ${i + 1}`,
        })
        seen.add(configurationKey(c))
        trials.push(c)
        if (trials.length === 4) break
      }
      expect(trials).toHaveLength(4)
    },
  )

  test('suggests the last candidate, then nothing', () => {
    const few = problemOf([whole('a', 2), whole('b', 1)])
    expect(sampler.suggest(few, [failed({ a: 1, b: 1 })], [], seed)!.configuration).toEqual({
      a: 2,
      b: 1,
    })
    expect(sampler.suggest(few, [failed({ a: 1, b: 1 })], [{ a: 2, b: 1 }], seed)).toBeUndefined()
  })

  test('what ten thousand points do not reach follows in order', () => {
    // Two cells in 96,000.
    const needle = problemOf([whole('a', 300), whole('b', 320)], {
      space: {
        parameters: [whole('a', 300), whole('b', 320)],
        constraints: [{ text: 'far', holds: (c) => c.a === 211 && Number(c.b) > 318 }],
      },
    })
    expect(sampler.suggest(needle, [], [], seed)).toEqual({
      configuration: { a: 211, b: 319 },
      why: `not reached by the ${name} sequence`,
    })
  })
})
