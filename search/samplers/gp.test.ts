import { describe, expect, test } from 'vitest'
import { computeLogAcquisition } from '../acquisition/expected-improvement.ts'
import { cdf } from '../gp/normal.ts'
import { fitSurrogate } from '../model/surrogate.ts'
import { createRng } from '../rng.ts'
import { findCandidates } from '../space/candidates.ts'
import { findNeighbours, findPollPoints } from '../space/neighbours.ts'
import { configurationKey, enumerateConfigurations } from '../space/space.ts'
import type { Configuration, Observation, OrdinalParameter, Problem, Suggestion } from '../types.ts'
import { gpSampler } from './gp.ts'
import { countInitialTrials } from './initial-design.ts'

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
const steps = (count: number) => Array.from({ length: count }, (_, i) => i + 1)
const problem: Problem = {
  space: {
    parameters: [
      ordinal('cores', [1, 2, 4, 8]),
      ordinal('batch', [1, 2, 4, 8, 16, 32], { concurrency: true }),
    ],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  pricePerHour: (c) => 0.3 + 0.1 * Number(c.cores),
}
const all = enumerateConfigurations(problem.space)
const rps = ({ cores, batch }: Configuration) =>
  (1000 * Number(batch)) / (3 + Number(batch)) / (1 + 2 / Number(cores))
const measure = (configuration: Configuration, ms?: number): Observation => ({
  configuration,
  state: 'complete',
  rate: { value: rps(configuration), logSd: 0.02 },
  ...(ms === undefined ? {} : { constraint: { value: ms, logSd: 0.02 } }),
})
const failure = (configuration: Configuration): Observation => ({
  configuration,
  state: 'infeasible',
  reason: 'out of memory',
})
const trials = (...which: readonly [cores: number, batch: number][]) =>
  which.map(([cores, batch]) => measure({ cores, batch }))
const seed = createRng('gp')
const suggest = (
  given: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[] = [],
) => gpSampler.suggest(given, observations, pending, seed)!

/** ln $ per million requests. */
const logPrice = (given: Problem, c: Configuration, logRate: number) =>
  Math.log((given.pricePerHour(c) / 3600) * 1e6) - logRate
/** E max(0, best - Y) of a normal Y. */
function expectedImprovement(mean: number, sd: number, best: number): number {
  const z = (best - mean) / sd
  return (best - mean) * cdf(z) + (sd * Math.exp(-0.5 * z * z)) / Math.sqrt(2 * Math.PI)
}
/** What is untried with what its expected improvement is worth, in percent. */
function improvements(given: Problem, observations: readonly Observation[]) {
  const surrogate = fitSurrogate(given, observations, [])
  const tried = observations.map((o) => o.configuration)
  const costs = (configurations: readonly Configuration[]) => {
    const { rate } = surrogate.predict(configurations)
    return configurations.map((c, i) => ({
      c,
      mean: logPrice(given, c, rate!.mean[i]!),
      sd: Math.sqrt(rate!.variance[i]!),
    }))
  }
  const best = Math.min(...costs(tried).map(({ mean }) => mean))
  return costs(findCandidates(given, tried, seed).configurations)
    .map(({ c, mean, sd }) => ({
      c,
      percent: 100 * (1 - Math.exp(-expectedImprovement(mean, sd, best))),
    }))
    .sort((a, b) => b.percent - a.percent)
}
const statedPercent = ({ why }: Suggestion) =>
  Number(/^expected improvement (\S+) %$/.exec(why)?.[1])

test('suggests nothing once all is tried or pending', () => {
  expect(
    gpSampler.suggest(
      problem,
      all.slice(2).map((c) => measure(c)),
      all.slice(0, 2),
      seed,
    ),
  ).toBeUndefined()
})

describe('the description of a suggestion', () => {
  const limited: Problem = { ...problem, constraintLimit: 20 }
  const measurements = trials([1, 1], [1, 8], [4, 4], [8, 16]).map((o) =>
    measure(o.configuration, 4 + Number(o.configuration.batch)),
  )

  test('has no improvement without an incumbent', () => {
    const slow = measurements.map((o) => measure(o.configuration, 90))
    const { configuration, why } = suggest(limited, slow)
    expect(why).toBe('most probably feasible and cheap')
    const left = all.filter(
      (c) => !slow.some((o) => configurationKey(o.configuration) === configurationKey(c)),
    )
    const predictions = fitSurrogate(limited, slow, []).predict(left)
    const prices = left.map((c) => ({ pricePerHour: problem.pricePerHour(c) }))
    const scores = computeLogAcquisition(limited, prices, predictions, Infinity)
    expect(configuration).toEqual(left[scores.indexOf(Math.max(...scores))])
  })

  test('counts the predicted constraint', () => {
    const { configuration } = suggest(limited, measurements)
    const left = all.filter(
      (c) => !measurements.some((o) => configurationKey(o.configuration) === configurationKey(c)),
    )
    const surrogate = fitSurrogate(limited, measurements, [])
    const best = Math.min(
      ...measurements.map((o) =>
        logPrice(limited, o.configuration, surrogate.predict([o.configuration]).rate!.mean[0]!),
      ),
    )
    const prices = left.map((c) => ({ pricePerHour: problem.pricePerHour(c) }))
    const scores = computeLogAcquisition(limited, prices, surrogate.predict(left), best)
    expect(configuration).toEqual(left[scores.indexOf(Math.max(...scores))])
    expect(statedPercent(suggest(limited, measurements))).toBeCloseTo(
      Number((100 * (1 - Math.exp(-Math.exp(Math.max(...scores))))).toPrecision(2)),
      12,
    )
  })

  test('has the predicted rate with its 90 % interval, and P(limit met)', () => {
    const { configuration, predicted, ...rest } = suggest(limited, measurements)
    expect(rest).toEqual({ why: expect.stringMatching(/^expected improvement/) })
    const { rate, constraint } = fitSurrogate(limited, measurements, []).predict([configuration])
    const sd = Math.sqrt(rate!.variance[0]!)
    expect(predicted).toEqual({
      rate: expect.closeTo(Math.exp(rate!.mean[0]!), 9),
      low: expect.closeTo(Math.exp(rate!.mean[0]! - 1.645 * sd), 9),
      high: expect.closeTo(Math.exp(rate!.mean[0]! + 1.645 * sd), 9),
      feasible: expect.closeTo(cdf(-constraint!.mean[0]! / Math.sqrt(constraint!.variance[0]!)), 9),
    })
  })

  test('has no predicted rate where none was measured', () => {
    const observations = measurements.map(
      (o): Observation => ({ ...o, state: 'complete', rate: undefined, constraint: { value: 9 } }),
    )
    expect(
      suggest({ ...limited, objective: { kind: 'price' } }, observations).predicted,
    ).toBeUndefined()
  })
})

describe('the suggestion has the largest expected improvement', () => {
  const climbing = trials([1, 1], [1, 4], [2, 4], [4, 8], [4, 16])
  const withPrior: Problem = {
    ...problem,
    priorLogRate: (c) => Math.log(rps(c)) + 0.05 * Math.sin(7 * Number(c.batch)),
  }
  const wrong: Problem = { ...problem, priorLogRate: (c) => -3 * Math.log(rps(c)) }

  test.each([
    ['without a prior', problem, climbing],
    ['with an accepted prior', withPrior, climbing.slice(0, 3)],
    ['with a rejected prior', wrong, climbing],
  ] as const)('%s', (_, given, observations) => {
    const suggestion = suggest(given, observations)
    const [best] = improvements(given, observations)
    expect(suggestion.configuration).toEqual(best!.c)
    expect(statedPercent(suggestion)).toBeCloseTo(Number(best!.percent.toPrecision(2)), 12)
  })

  describe('where the acquisition has collapsed', () => {
    // Pools of two types of instance. The constraint depends on their sum, so that nothing cheaper
    // than the best is predicted to meet it.
    const pools: Problem = {
      space: {
        parameters: ['small', 'large'].map((name) =>
          ordinal(name, [0, 1, 2, 3, 4, 5, 6], { scale: 'linear' }),
        ),
        constraints: [],
      },
      objective: { kind: 'price' },
      constraintLimit: 1,
      pricePerHour: (c) => 0.1 + 0.16 * Number(c.small) + 0.3 * Number(c.large),
    }
    const best = { small: 0, large: 4 }
    const near = findPollPoints(pools.space, best).map(configurationKey)
    const cells = enumerateConfigurations(pools.space)
    const read = (c: Configuration): Observation => {
      const value = Math.exp(0.4 * (7.5 - Number(c.small) - 2 * Number(c.large)))
      return { configuration: c, state: 'complete', constraint: { value, logSd: 0.02 } }
    }
    const cheap = cells.filter(
      (c) =>
        pools.pricePerHour(c) < pools.pricePerHour(best) && !near.includes(configurationKey(c)),
    )
    const even = [best, ...cheap.slice((cheap.length + 1) % 2)].map(read)
    const another = read({ small: 6, large: 6 })
    const tried = (c: Configuration) =>
      even.some((o) => configurationKey(o.configuration) === configurationKey(c))

    test('every second choice is the best poll point', () => {
      const { configuration, why } = suggest(pools, even)
      expect(why).toBe('near the incumbent: no improvement expected')
      const left = cells.filter((c) => near.includes(configurationKey(c)) && !tried(c))
      const prices = left.map((c) => ({ pricePerHour: pools.pricePerHour(c) }))
      const scores = computeLogAcquisition(
        pools,
        prices,
        fitSurrogate(pools, even, []).predict(left),
        Math.log(pools.pricePerHour(best)),
      )
      expect(configuration).toEqual(left[scores.indexOf(Math.max(...scores))])
    })
    test('the next has the largest expected improvement', () => {
      expect(statedPercent(suggest(pools, [...even, another]))).toBeLessThan(1)
    })
    test('so has each where no poll point is cheaper', () => {
      const known = [
        ...even,
        ...cells
          .filter(
            (c) =>
              near.includes(configurationKey(c)) &&
              pools.pricePerHour(c) < pools.pricePerHour(best),
          )
          .map(read),
      ]
      const dear = known.length % 2 === 0 ? known : [...known, another]
      expect(suggest(pools, dear).why).toMatch(/^expected improvement/)
    })
  })

  test('among many candidates too, though most are scored approximately first', () => {
    const large: Problem = {
      ...problem,
      space: {
        ...problem.space,
        parameters: [ordinal('cores', steps(40)), ordinal('batch', steps(60))],
      },
    }
    const observations = steps(37).map((k) =>
      measure({ cores: 1 + ((7 * k) % 19), batch: 1 + ((11 * k) % 23) }),
    )
    const [best, second] = improvements(large, observations)
    expect(best!.percent).toBeGreaterThan(second!.percent)
    const suggestion = suggest(large, observations)
    expect(suggestion.configuration).toEqual(best!.c)
    expect(suggestion.warning).toBeUndefined()
  })
})

describe('the first trials', () => {
  const why = (
    given: Problem,
    observations: readonly Observation[],
    pending: readonly Configuration[] = [],
  ) => suggest(given, observations, pending).why.split(' ').slice(0, 2).join(' ')
  const spreads = 'start: space-filling'
  const models = 'expected improvement'
  const free = all.slice(0, 6).map((c) => measure(c))

  test.each([0, 1, 2])('fill the space: two trials, after %d', (count) => {
    expect(why(problem, free.slice(0, count))).toBe(
      count < countInitialTrials(problem) ? spreads : models,
    )
    expect(countInitialTrials(problem)).toBe(2)
  })
  /** With a parameter of no known direction: three initial trials. */
  const withUnknown = (given: Problem): Problem => ({
    ...given,
    space: {
      ...given.space,
      parameters: [ordinal('cores', [1, 2, 4, 8]), ordinal('batch', [1, 2, 4, 8, 16, 32])],
    },
  })
  test.each([2, 3])('are one more for a parameter without a known direction, after %d', (count) => {
    expect(why(withUnknown(problem), free.slice(0, count))).toBe(count < 3 ? spreads : models)
  })

  test('pending trials count, but a model needs a finished one', () => {
    expect(why(problem, free.slice(0, 1), [all[9]!])).toBe(models)
    expect(why(problem, [], [all[9]!, all[13]!, all[20]!])).toBe(spreads)
  })

  describe('with a device-model prior', () => {
    const informed: Problem = { ...problem, priorLogRate: (c) => Math.log(rps(c)) }
    const byPhysics = 'start: cheapest'
    const zero: Observation = { configuration: all[5]!, state: 'complete', rate: { value: 0 } }

    test('are its two cheapest until one serves, then fill the space', () => {
      expect([[], [failure(all[3]!)], [zero]].map((o) => why(informed, o))).toEqual([
        byPhysics,
        byPhysics,
        byPhysics,
      ])
      expect(why(withUnknown(informed), [failure(all[3]!), zero])).toBe(spreads)
      expect(suggest(informed, []).configuration).toEqual(
        all.toSorted(
          (a, b) => logPrice(problem, a, Math.log(rps(a))) - logPrice(problem, b, Math.log(rps(b))),
        )[0],
      )
      expect(why({ ...informed, priorLogRate: () => undefined }, [])).toBe(spreads)
    })

    test('are done once one has served as predicted', () => {
      expect(why(informed, free.slice(0, 1))).toBe(models)
    })

    const wrong: Problem = { ...problem, priorLogRate: (c) => -3 * Math.log(rps(c)) }
    test.each([
      [2, wrong, spreads],
      [3, wrong, models],
      [3, withUnknown(wrong), spreads],
      [4, withUnknown(wrong), models],
    ])(
      'fill the space as without a prior, and one more, when a trial contradicts it: after %d',
      (count, given, expected) => {
        expect(why(given, free.slice(0, count))).toBe(expected)
      },
    )
  })
})

describe.each([
  [
    'too large to list',
    [ordinal('cores', [1, 2, 4, 8]), { ...ordinal('batch', []), kind: 'float', min: 1, max: 64 }],
  ],
  ['of more cells than are scored', [ordinal('cores', steps(250)), ordinal('batch', steps(60))]],
] as const)('in a space %s', (_, parameters) => {
  const wide: Problem = {
    ...problem,
    space: {
      parameters,
      constraints: [
        { text: 'batch <= 20 * cores', holds: (c) => Number(c.batch) <= 20 * Number(c.cores) },
      ],
    },
    cannotServe: (c) => Number(c.batch) > 50 || (Number(c.batch) > 1.5 && Number(c.batch) < 7),
  }
  const observations = trials([1, 1], [1, 8], [4, 4], [4, 16], [8, 32])
  const percentOf = (configurations: readonly Configuration[]) => {
    const surrogate = fitSurrogate(wide, observations, [])
    const cost = (cs: readonly Configuration[]) => {
      const { rate } = surrogate.predict(cs)
      return cs.map(
        (c, i) => [logPrice(wide, c, rate!.mean[i]!), Math.sqrt(rate!.variance[i]!)] as const,
      )
    }
    const best = Math.min(...cost(observations.map((o) => o.configuration)).map(([mean]) => mean))
    return cost(configurations).map(([mean, sd]) => expectedImprovement(mean, sd, best))
  }

  test('the suggestion is permitted, and a warning reports the sampling', () => {
    const suggestion = suggest(wide, observations)
    expect(wide.space.constraints[0]!.holds(suggestion.configuration)).toBe(true)
    expect(wide.cannotServe!(suggestion.configuration)).toBe(false)
    expect(suggestion.warning).toMatch(/too large to score whole/)
  })

  test('no neighbour, nor any point of a coarse grid, is better by more than 1 %', () => {
    const suggestion = suggest(wide, observations)
    const [own] = percentOf([suggestion.configuration])
    const known = new Set(observations.map((o) => configurationKey(o.configuration)))
    const allowed = (c: Configuration) =>
      !known.has(configurationKey(c)) &&
      !wide.cannotServe!(c) &&
      wide.space.constraints[0]!.holds(c)
    const grid = [1, 2, 4, 8].flatMap((cores) =>
      [1, 2, 3, 5, 8, 12, 18, 27, 40, 50].map((batch) => ({ cores, batch })),
    )
    for (const other of percentOf(
      [...findNeighbours(wide.space, suggestion.configuration), ...grid].filter(allowed),
    ))
      expect(other).toBeLessThanOrEqual(1.01 * own!)
  })
})
