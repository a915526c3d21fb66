import { describe, expect, test } from 'vitest'
import { createSampler } from '../index.ts'
import { createRng } from '../rng.ts'
import type { Configuration, MovedPrior, Observation, PriorFactors, Problem } from '../types.ts'
import { calibratePhysics } from './calibration.ts'
import { above } from './saturating-predictive.ts'
import { fitSurrogate } from './surrogate.ts'

/**
 * A server whose rate is the least of what its cores and its device serve: the kink that no linear
 * correction follows.
 */
const rateOf = (c: Configuration, cpu: number, device: number) =>
  Math.min((100 * Number(c.cores)) / cpu, (900 * Number(c.share)) / device)
const factors: PriorFactors = {
  sd: [0.3, 0.2],
  at: ([cpu, device]): MovedPrior => {
    const logRate = (c: Configuration, more: readonly [number, number] = [0, 0]) =>
      Math.log(rateOf(c, Math.exp(cpu! + more[0]), Math.exp(device! + more[1])))
    return {
      logRate: (c) => logRate(c),
      sensitivities: (c) => [
        (logRate(c, [0.01, 0]) - logRate(c)) / 0.01,
        (logRate(c, [0, 0.01]) - logRate(c)) / 0.01,
      ],
    }
  },
}
const grid = [1, 2, 4, 8, 16].flatMap((cores) =>
  [0.1, 0.2, 0.4, 0.7, 1].map((share): Configuration => ({ cores, share })),
)
const measured = (configurations: readonly Configuration[], cpu: number, device: number) =>
  configurations.map((at) => ({ at, target: Math.log(rateOf(at, cpu, device)) }))

test('factors are found from both sides of a kink', () => {
  const { logFactors, logRate } = calibratePhysics(factors, measured(grid, 1.4, 0.8))
  expect(Math.exp(logFactors[0]!)).toBeCloseTo(1.4, 1)
  expect(Math.exp(logFactors[1]!)).toBeCloseTo(0.8, 1)
  expect(Math.exp(logRate({ cores: 16, share: 1 })!)).toBeCloseTo(
    rateOf({ cores: 16, share: 1 }, 1.4, 0.8),
    -1,
  )
})

test('a factor that no trial tells of stays where it was', () => {
  const deviceBound = grid.filter((c) => Number(c.cores) === 16 && Number(c.share) < 1)
  const { logFactors } = calibratePhysics(factors, measured(deviceBound, 2, 0.8))
  expect(logFactors[0]!).toBeCloseTo(0, 6)
  expect(logFactors[1]!).toBeLessThan(-0.15)
})

test('a bottleneck that another one hid is found', () => {
  const asExpected = { cores: 16, share: 0.7 }
  const slower = { cores: 8, share: 0.7 }
  // Both are bound by their device as long as the CPU costs what was expected.
  const { logFactors } = calibratePhysics(factors, measured([asExpected, slower], 1.6, 1))
  expect(Math.exp(logFactors[0]!)).toBeCloseTo(1.6, 1)
  expect(Math.exp(logFactors[1]!)).toBeCloseTo(1, 1)
})

describe('a bottleneck that is only known to be no tighter', () => {
  // Cores that cost what was expected would serve 800; the device, which the second tells of, is a
  // quarter faster than expected.
  const data = measured(
    [
      { cores: 8, share: 0.9 },
      { cores: 16, share: 0.4 },
    ],
    0.5,
    0.8,
  )

  test('is believed to be where it may be, not where it begins to bind', () => {
    const { logFactors, offsets } = calibratePhysics(factors, data)
    const binds = Math.log(800 / 1012.5)
    /**
     * Posterior of the cost of cores and of the device by adding up over both, apart from what
     * finds it.
     */
    const z = (value: number, sd: number) => -0.5 * (value / sd) ** 2
    let [total, sum, squares] = [0, 0, 0]
    for (let cpu = -1.5; cpu < 0.5; cpu += 0.01)
      for (let device = -0.6; device < 0.2; device += 0.01) {
        const off = data.map(({ at, target }) =>
          z(target - Math.log(rateOf(at, Math.exp(cpu), Math.exp(device))), 0.05),
        )
        const weight = Math.exp(off[0]! + off[1]! + z(cpu, 0.3) + z(device, 0.2))
        total += weight
        sum += weight * cpu
        squares += weight * cpu ** 2
      }
    const mean = sum / total
    expect(mean).toBeLessThan(binds - 0.08)
    expect(Math.abs(logFactors[0]! - mean)).toBeLessThan(0.04)
    expect(offsets[0]![0]).toBe(0)
    expect(offsets[0]![1] / Math.sqrt(squares / total - mean ** 2)).toBeCloseTo(1, 0.6)
    expect(offsets[1]).toEqual([-logFactors[1]!, 0.2])
  })

  test('leaves what it would bind open to the search', () => {
    const two: Configuration[] = [
      { cores: 8, share: 0.9 },
      { cores: 6, share: 0.9 },
    ]
    const problem: Problem = {
      space: {
        parameters: [
          {
            kind: 'ordinal',
            name: 'cores',
            category: 'resource',
            values: [6, 8, 16],
            scale: 'log',
          },
          {
            kind: 'ordinal',
            name: 'share',
            category: 'resource',
            values: [0.4, 0.9],
            scale: 'log',
          },
        ],
        constraints: [],
      },
      objective: { kind: 'price-per-request' },
      pricePerHour: (c) => Number(c.cores) / 10,
      priorLogRate: factors.at([0, 0]).logRate,
      priorFactors: factors,
    }
    const read = data.map(
      ({ at, target }): Observation => ({
        configuration: at,
        state: 'complete',
        rate: { value: Math.exp(target), logSd: 0.02 },
      }),
    )
    const { rate } = fitSurrogate(problem, read, []).believe(two)
    // Six cores serve as much as eight where the device is all that binds; they were held to serve
    // three quarters for sure.
    expect(Math.exp(rate!.mean[0]!)).toBeCloseTo(1012.5, -2)
    expect(rate!.mean[1]! + above(rate!, 1, 2)).toBeGreaterThan(Math.log(1000))
    expect(rate!.mean[1]!).toBeGreaterThan(Math.log(0.75 * 1012.5) + 0.05)
  })
})

test('factors that every trial tells of stay the most probable', () => {
  const { logFactors, offsets } = calibratePhysics(factors, measured(grid, 1.4, 0.8))
  expect(offsets).toEqual([
    [-logFactors[0]!, 0.3],
    [-logFactors[1]!, 0.2],
  ])
})

test('a rate rises along its factor as far as the other lets it, and further where both are lucky', () => {
  const { rise } = calibratePhysics(factors, [])
  // Bound by its device at 810 a second, where the cores serve 1,600; then by one of 720, where
  // they serve 800.
  expect(rise({ cores: 16, share: 0.9 })(0.2)).toBeCloseTo(0.2, 2)
  const hidden = { cores: 8, share: 0.8 }
  const [device, cores] = [Math.log(900 * 0.8), Math.log(800)]
  const alone = cores - device
  expect(rise(hidden)(0.6)).toBeGreaterThan(1.5 * alone)
  expect(rise(hidden)(0.6)).toBeLessThan(0.45)
  // What physics knows nothing of, or moves with nothing, is taken as it begins.
  const still: PriorFactors = {
    sd: [0.3],
    at: () => ({ logRate: (c) => (c.u === 1 ? 3 : undefined), sensitivities: () => [0] }),
  }
  expect([1, 2].map((u) => calibratePhysics(still, []).rise({ u })(0.4))).toEqual([0.4, 0.4])
})

test('a bound says nothing while it is kept, and as much as it is certain where it is not', () => {
  const [at] = grid.filter((c) => c.cores === 16 && c.share === 0.4)
  const bounded = (factor: number, bound: 'most' | 'least', logSd = 0) =>
    calibratePhysics(factors, [
      { at: at!, target: Math.log(rateOf(at!, 1, 1) * factor), bound, noise: logSd ** 2 },
    ]).logFactors[1]!
  expect([bounded(1.3, 'most'), bounded(0.7, 'least')].map(Math.abs)).toEqual([0, 0])
  expect(bounded(0.8, 'most')).toBeGreaterThan(0.1)
  expect(bounded(1.25, 'least')).toBeLessThan(-0.1)
  expect(bounded(0.8, 'most', 0.2)).toBeLessThan(0.7 * bounded(0.8, 'most'))
})

test('one wild measurement does not move the factors far', () => {
  const data = measured(grid, 1, 1)
  const spoilt = data.map((d, i) => (i === 3 ? { ...d, target: d.target + 3 } : d))
  for (const value of calibratePhysics(factors, spoilt).logFactors)
    expect(Math.abs(value)).toBeLessThan(0.05)
})

const problem = (cpu: number, device: number): Problem => ({
  space: {
    parameters: [
      {
        kind: 'ordinal',
        name: 'cores',
        category: 'resource',
        scale: 'log',
        values: [1, 2, 4, 8, 16],
      },
      {
        kind: 'ordinal',
        name: 'share',
        category: 'resource',
        scale: 'log',
        values: [0.1, 0.2, 0.4, 0.7, 1],
      },
    ],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  pricePerHour: (c) => 0.04 * Number(c.cores) + Number(c.share),
  priorLogRate: (c) => Math.log(rateOf(c, cpu, device)),
})
const trialsToBest = (asked: Problem): number => {
  const sampler = createSampler('gp')
  const cost = (c: Configuration) => asked.pricePerHour(c) / rateOf(c, 1.3, 1.1)
  const best = Math.min(...grid.map(cost))
  const observations: Observation[] = []
  while (observations.length < grid.length) {
    const { configuration } = sampler.suggest(asked, observations, [], createRng('physics'))!
    observations.push({
      configuration,
      state: 'complete',
      rate: { value: rateOf(configuration, 1.3, 1.1), logSd: 0.01 },
    })
    if (cost(configuration) <= 1.05 * best) break
  }
  return observations.length
}

test('a sampler that has physics starts with its best, and needs few trials', () => {
  const withPhysics = { ...problem(1, 1), priorFactors: factors }
  const first = createSampler('gp').suggest(withPhysics, [], [], createRng('first'))!
  expect(first.why).toBe('start: cheapest by the device model')
  expect(trialsToBest(withPhysics)).toBeLessThanOrEqual(3)
})

test('physics that has everything the wrong way round costs a few trials, not the search', () => {
  const { priorLogRate, ...without } = problem(1, 1)
  const wrong: Problem = { ...without, priorLogRate: (c) => 10 - priorLogRate!(c)! }
  expect(trialsToBest(wrong)).toBeLessThanOrEqual(trialsToBest(without) + 3)
})

/**
 * What the factors are to minimise, written down apart: 2·3²(√(1 + (z/3)²) − 1) for residuals z of
 * 5 %, and their own deviations.
 */
function misfit(
  of: PriorFactors,
  data: readonly { at: Configuration; target: number }[],
  logFactors: readonly number[],
): number {
  const { logRate } = of.at(logFactors)
  const residuals = data.flatMap((d) =>
    logRate(d.at) === undefined ? [] : (d.target - logRate(d.at)!) / 0.05,
  )
  const fit = residuals.reduce((sum, z) => sum + 18 * (Math.sqrt(1 + (z * z) / 9) - 1), 0)
  return fit + logFactors.reduce((sum, v, i) => sum + (v / of.sd[i]!) ** 2, 0)
}
/** ln rate = 3 + u·f1 + v·f2. */
const straight: PriorFactors = {
  sd: [0.3, 0.1],
  at: (logFactors) => ({
    logRate: (c) =>
      c.u === -1 ? undefined : 3 + Number(c.u) * logFactors[0]! + Number(c.v) * logFactors[1]!,
    sensitivities: (c) => [Number(c.u), Number(c.v)],
  }),
}

test.each([
  ['one reading', [[1, 0, 3.2]]],
  [
    'two that pull apart',
    [
      [1, 1, 3.3],
      [1, -1, 2.9],
    ],
  ],
  [
    'an outlier among them',
    [
      [1, 0, 3.1],
      [1, 0.5, 3.12],
      [0.5, 1, 1],
    ],
  ],
  [
    'one that physics knows nothing of',
    [
      [1, 0, 3.2],
      [-1, 1, 9],
    ],
  ],
  ['none', []],
] as const)('no factors beside those found fit %s better', (_, rows) => {
  const data = rows.map(([u, v, target]) => ({ at: { u, v }, target }))
  const { logFactors, logRate } = calibratePhysics(straight, data)
  const least = misfit(straight, data, logFactors)
  for (const [i, step] of [0, 1].flatMap(
    (i) =>
      [
        [i, 0.01],
        [i, -0.01],
      ] as const,
  ))
    expect(
      misfit(
        straight,
        data,
        logFactors.map((v, j) => (i === j ? v + step : v)),
      ),
    ).toBeGreaterThan(least - 1e-3)
  expect(logRate({ u: 2, v: 1 })).toBeCloseTo(3 + 2 * logFactors[0]! + logFactors[1]!, 12)
})

test('one reading moves a factor as far as its own spread and 5 % allow', () => {
  // Precisions 1 / 0.3² and 1 / 0.05²; a residual of one deviation weighs 1 / √(1 + 1/9) or a
  // little more.
  const { logFactors } = calibratePhysics(straight, [{ at: { u: 1, v: 0 }, target: 3.05 }])
  expect(logFactors[0]).toBeCloseTo(0.05 / (1 + 0.05 ** 2 / 0.3 ** 2), 4)
  expect(logFactors[1]).toBe(0)
})

test('steps too long for a bend are halved', () => {
  // A rate that saturates: far from the truth the slope says next to nothing of how far.
  const bent: PriorFactors = {
    sd: [5],
    at: ([f]) => ({
      logRate: (c) => Math.atan(4 * (f! - Number(c.u))),
      sensitivities: (c) => [4 / (1 + 16 * (f! - Number(c.u)) ** 2)],
    }),
  }
  const data = [1, 1.2].map((u) => ({ at: { u }, target: Math.atan(4 * (0.6 - u)) }))
  const { logFactors } = calibratePhysics(bent, data)
  expect(misfit(bent, data, logFactors)).toBeLessThan(misfit(bent, data, [0]))
  expect(logFactors[0]).toBeCloseTo(0.6, 1)
})
