import { describe, expect, test } from 'vitest'
import { logAcquisition } from '../acquisition/expected-improvement.ts'
import { cdf } from '../gp/normal.ts'
import { fitSurrogate } from '../model/surrogate.ts'
import { createRng } from '../rng.ts'
import { untried } from '../space/candidates.ts'
import { around, neighbours } from '../space/neighbours.ts'
import { configurationKey, enumerate } from '../space/space.ts'
import type { Configuration, Observation, OrdinalParameter, Problem, Suggestion } from '../types.ts'
import { createGpSampler, gpSampler } from './gp.ts'
import { startCount } from './initial-design.ts'

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
const all = enumerate(problem.space)
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
  asked: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[] = [],
  sampler = gpSampler,
) => sampler.suggest(asked, observations, pending, seed)!

/** ln $ per million requests. */
const logPrice = (asked: Problem, c: Configuration, logRate: number) =>
  Math.log((asked.pricePerHour(c) / 3600) * 1e6) - logRate
/** E max(0, best - Y) of a normal Y. */
function expectedImprovement(mean: number, sd: number, best: number): number {
  const z = (best - mean) / sd
  return (best - mean) * cdf(z) + (sd * Math.exp(-0.5 * z * z)) / Math.sqrt(2 * Math.PI)
}
/** What is untried with what its expected improvement is worth, in percent. */
function improvements(asked: Problem, observations: readonly Observation[]) {
  const surrogate = fitSurrogate(asked, observations, [])
  const tried = observations.map((o) => o.configuration)
  const costs = (configurations: readonly Configuration[]) => {
    const { rate } = surrogate.believe(configurations)
    return configurations.map((c, i) => ({
      c,
      mean: logPrice(asked, c, rate!.mean[i]!),
      sd: Math.sqrt(rate!.variance[i]!),
    }))
  }
  const best = Math.min(...costs(tried).map(({ mean }) => mean))
  return costs(untried(asked, tried, seed).configurations)
    .map(({ c, mean, sd }) => ({
      c,
      percent: 100 * (1 - Math.exp(-expectedImprovement(mean, sd, best))),
    }))
    .sort((a, b) => b.percent - a.percent)
}
const told = ({ why }: Suggestion) => Number(/^expected improvement (\S+) %$/.exec(why)?.[1])

test('nothing is left to suggest once all is tried or pending', () => {
  expect(
    gpSampler.suggest(
      problem,
      all.slice(2).map((c) => measure(c)),
      all.slice(0, 2),
      seed,
    ),
  ).toBeUndefined()
})

describe('what is told of a suggestion', () => {
  const limited: Problem = { ...problem, constraintLimit: 20 }
  const readings = trials([1, 1], [1, 8], [4, 4], [8, 16]).map((o) =>
    measure(o.configuration, 4 + Number(o.configuration.batch)),
  )

  test('is no improvement while nothing keeps the limit', () => {
    const slow = readings.map((o) => measure(o.configuration, 90))
    const { configuration, why } = suggest(limited, slow)
    expect(why).toBe('likeliest to be feasible and cheap')
    const left = all.filter(
      (c) => !slow.some((o) => configurationKey(o.configuration) === configurationKey(c)),
    )
    const beliefs = fitSurrogate(limited, slow, []).believe(left)
    const prices = left.map((c) => ({ pricePerHour: problem.pricePerHour(c) }))
    const scores = logAcquisition(limited, prices, beliefs, Infinity)
    expect(configuration).toEqual(left[scores.indexOf(Math.max(...scores))])
  })

  test('counts a limit at what is believed of it', () => {
    const { configuration } = suggest(limited, readings)
    const left = all.filter(
      (c) => !readings.some((o) => configurationKey(o.configuration) === configurationKey(c)),
    )
    const surrogate = fitSurrogate(limited, readings, [])
    const best = Math.min(
      ...readings.map((o) =>
        logPrice(limited, o.configuration, surrogate.believe([o.configuration]).rate!.mean[0]!),
      ),
    )
    const prices = left.map((c) => ({ pricePerHour: problem.pricePerHour(c) }))
    const scores = logAcquisition(limited, prices, surrogate.believe(left), best)
    expect(configuration).toEqual(left[scores.indexOf(Math.max(...scores))])
    expect(told(suggest(limited, readings))).toBeCloseTo(
      Number((100 * (1 - Math.exp(-Math.exp(Math.max(...scores))))).toPrecision(2)),
      12,
    )
  })

  test('is its believed rate with a 90 % interval, and how likely it is to keep the limit', () => {
    const { configuration, predicted, ...rest } = suggest(limited, readings)
    expect(rest).toEqual({ why: expect.stringMatching(/^expected improvement/) })
    const { rate, constraint } = fitSurrogate(limited, readings, []).believe([configuration])
    const sd = Math.sqrt(rate!.variance[0]!)
    expect(predicted).toEqual({
      rate: expect.closeTo(Math.exp(rate!.mean[0]!), 9),
      low: expect.closeTo(Math.exp(rate!.mean[0]! - 1.645 * sd), 9),
      high: expect.closeTo(Math.exp(rate!.mean[0]! + 1.645 * sd), 9),
      feasible: expect.closeTo(cdf(-constraint!.mean[0]! / Math.sqrt(constraint!.variance[0]!)), 9),
    })
  })

  test('is nothing of a rate where none was measured', () => {
    const observations = readings.map(
      (o): Observation => ({ ...o, state: 'complete', rate: undefined, constraint: { value: 9 } }),
    )
    expect(
      suggest({ ...limited, objective: { kind: 'price' } }, observations).predicted,
    ).toBeUndefined()
  })
})

describe('what is suggested improves most, as the model believes', () => {
  const climbing = trials([1, 1], [1, 4], [2, 4], [4, 8], [4, 16])
  const physics: Problem = {
    ...problem,
    priorLogRate: (c) => Math.log(rps(c)) + 0.05 * Math.sin(7 * Number(c.batch)),
  }
  const wrong: Problem = { ...problem, priorLogRate: (c) => -3 * Math.log(rps(c)) }

  test.each([
    ['without physics', problem, climbing],
    ['where physics leads', physics, climbing.slice(0, 3)],
    ['as without physics where it is wrong', wrong, climbing],
  ] as const)('%s', (_, asked, observations) => {
    const suggestion = suggest(asked, observations)
    const [best] = improvements(asked, observations)
    expect(suggestion.configuration).toEqual(best!.c)
    expect(told(suggestion)).toBeCloseTo(Number(best!.percent.toPrecision(2)), 12)
  })

  describe('where the model hopes for hardly anything', () => {
    const undoubting = createGpSampler({ undoubting: true })
    const alone = createGpSampler({ unshaken: true, undoubting: true })
    // Pools of two kinds of instance: what keeps the limit goes with their sum, so that nothing
    // cheaper than the best is believed to.
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
    const near = around(pools.space, best).map(configurationKey)
    const cells = enumerate(pools.space)
    const read = (c: Configuration): Observation => {
      const value = Math.exp(0.4 * (7.5 - Number(c.small) - 2 * Number(c.large)))
      return { configuration: c, state: 'complete', constraint: { value, logSd: 0.02 } }
    }
    const cheap = cells.filter(
      (c) =>
        pools.pricePerHour(c) < pools.pricePerHour(best) && !near.includes(configurationKey(c)),
    )
    const short = (cheap.length + 1) % 3
    const third = [best, ...cheap.slice(short)].map(read)
    const others = [
      { small: 6, large: 6 },
      { small: 5, large: 6 },
    ].map(read)
    const tried = (c: Configuration) =>
      third.some((o) => configurationKey(o.configuration) === configurationKey(c))

    test('every third choice is the most promising of what surrounds the best, to a model that doubts what neighbours tell', () => {
      const { configuration, why } = suggest(pools, third)
      expect(why).toBe('beside the best: no gain in sight')
      const left = cells.filter((c) => near.includes(configurationKey(c)) && !tried(c))
      const prices = left.map((c) => ({ pricePerHour: pools.pricePerHour(c) }))
      const doubting = fitSurrogate(pools, third, [], { ownVariance: 0.12 })
      const scores = logAcquisition(
        pools,
        prices,
        doubting.believe(left),
        Math.log(pools.pricePerHour(best)),
      )
      expect(configuration).toEqual(left[scores.indexOf(Math.max(...scores))])
    })
    test('the next is the most promising anywhere to that model, which hopes for more, and the one after it to the first', () => {
      const [second, first] = [
        [...third, others[0]!],
        [...third, ...others],
      ]
      const asked = [second, first].map((observations) => told(suggest(pools, observations)))
      const known = [second, first].map((observations) =>
        told(suggest(pools, observations, [], alone)),
      )
      expect(asked[0]!).toBeGreaterThan(2 * known[0]!)
      expect(asked[1]!).toBe(known[1]!)
    })
    test('nowhere beside the best where that is left out', () => {
      expect(told(suggest(pools, third, [], alone))).toBeLessThan(1)
    })
    test('nor where nothing cheaper surrounds it', () => {
      const known = [
        ...third,
        ...cells
          .filter(
            (c) =>
              near.includes(configurationKey(c)) &&
              pools.pricePerHour(c) < pools.pricePerHour(best),
          )
          .map(read),
      ]
      const dear = known.length % 2 === 0 ? known : [...known, others[0]!]
      expect(suggest(pools, dear, [], undoubting).why).toMatch(/^expected improvement/)
    })
  })

  test('among many candidates too, though most are scored roughly first', () => {
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
    asked: Problem,
    observations: readonly Observation[],
    pending: readonly Configuration[] = [],
    options = {},
  ) =>
    suggest(asked, observations, pending, createGpSampler(options))
      .why.split(' ')
      .slice(0, 2)
      .join(' ')
  const spreads = 'start: space-filling'
  const models = 'expected improvement'
  const free = all.slice(0, 6).map((c) => measure(c))

  test.each([0, 1, 2])('are spread: two of them, after %d', (count) => {
    expect(why(problem, free.slice(0, count))).toBe(count < startCount(problem) ? spreads : models)
    expect(startCount(problem)).toBe(2)
  })
  test.each([2, 3])('are one more for a parameter of which nothing is known, after %d', (count) => {
    const batch = ordinal('batch', [1, 2, 4])
    const unknown: Problem = {
      ...problem,
      space: { ...problem.space, parameters: [ordinal('cores', [1, 2, 4, 8]), batch] },
    }
    expect(why(unknown, free.slice(0, count))).toBe(count < 3 ? spreads : models)
  })
  test.each([3, 4])('are as many as are asked for, after %d', (count) => {
    expect(why(problem, free.slice(0, count), [], { starts: 4 })).toBe(count < 4 ? spreads : models)
  })

  test('count what is pending, but a model needs a trial', () => {
    expect(why(problem, free.slice(0, 1), [all[9]!])).toBe(models)
    expect(why(problem, [], [all[9]!, all[13]!, all[20]!])).toBe(spreads)
  })

  describe('where physics is known', () => {
    const informed: Problem = { ...problem, priorLogRate: (c) => Math.log(rps(c)) }
    const byPhysics = 'start: cheapest'
    const zero: Observation = { configuration: all[5]!, state: 'complete', rate: { value: 0 } }

    test('are its two cheapest until one serves, then spread', () => {
      expect([[], [failure(all[3]!)], [zero]].map((o) => why(informed, o))).toEqual([
        byPhysics,
        byPhysics,
        byPhysics,
      ])
      expect([[failure(all[3]!), zero]].map((o) => why(informed, o, [], { starts: 3 }))).toEqual([
        spreads,
      ])
      expect(suggest(informed, []).configuration).toEqual(
        all.toSorted(
          (a, b) => logPrice(problem, a, Math.log(rps(a))) - logPrice(problem, b, Math.log(rps(b))),
        )[0],
      )
      expect(why({ ...informed, priorLogRate: () => undefined }, [])).toBe(spreads)
    })

    test('are none once one has served as expected', () => {
      expect(why(informed, free.slice(0, 1))).toBe(models)
    })

    const wrong: Problem = { ...problem, priorLogRate: (c) => -3 * Math.log(rps(c)) }
    test.each([
      [2, undefined, spreads],
      [3, undefined, models],
      [3, 4, spreads],
      [4, 4, spreads],
      [5, 4, models],
    ])(
      'are spread as without, and one more, when what served contradicts it: after %d of %s',
      (count, starts, expected) => {
        expect(why(wrong, free.slice(0, count), [], { starts })).toBe(expected)
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
      const { rate } = surrogate.believe(cs)
      return cs.map(
        (c, i) => [logPrice(wide, c, rate!.mean[i]!), Math.sqrt(rate!.variance[i]!)] as const,
      )
    }
    const best = Math.min(...cost(observations.map((o) => o.configuration)).map(([mean]) => mean))
    return cost(configurations).map(([mean, sd]) => expectedImprovement(mean, sd, best))
  }

  test('what is suggested may be tried, and the sampling is told', () => {
    const suggestion = suggest(wide, observations)
    expect(wide.space.constraints[0]!.holds(suggestion.configuration)).toBe(true)
    expect(wide.cannotServe!(suggestion.configuration)).toBe(false)
    expect(suggestion.warning).toMatch(/too large to score whole/)
  })

  test('nothing around it that may be tried is better by a hundredth, nor anything of a coarse grid', () => {
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
      [...neighbours(wide.space, suggestion.configuration), ...grid].filter(allowed),
    ))
      expect(other).toBeLessThanOrEqual(1.01 * own!)
  })
})
