import { describe, expect, test } from 'vitest'
import { createSampler } from '../index.ts'
import { createRng } from '../rng.ts'
import type { Configuration, Observation, PriorFactors, Problem, ShiftedPrior } from '../types.ts'
import { calibrateFactors } from './calibration.ts'
import { computeQuantileOffset } from './saturating-predictive.ts'
import { fitSurrogate } from './surrogate.ts'

/**
 * A server whose rate is the least of what its cores and its device serve: the kink that no linear
 * correction follows.
 */
const rateOf = (c: Configuration, cpu: number, device: number) =>
  Math.min((100 * Number(c.cores)) / cpu, (900 * Number(c.share)) / device)
const factors: PriorFactors = {
  sd: [0.3, 0.2],
  applyFactors: ([cpu, device]): ShiftedPrior => {
    const logRate = (c: Configuration, more: readonly [number, number] = [0, 0]) =>
      Math.log(rateOf(c, Math.exp(cpu! + more[0]), Math.exp(device! + more[1])))
    return {
      predictLogRate: (c) => logRate(c),
      computeSensitivities: (c) => [
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
  configurations.map((at) => ({ configuration: at, target: Math.log(rateOf(at, cpu, device)) }))

test('factors are found from both sides of a kink', () => {
  const { logFactors, predictLogRate } = calibrateFactors(factors, measured(grid, 1.4, 0.8))
  expect(Math.exp(logFactors[0]!)).toBeCloseTo(1.4, 1)
  expect(Math.exp(logFactors[1]!)).toBeCloseTo(0.8, 1)
  expect(Math.exp(predictLogRate({ cores: 16, share: 1 })!)).toBeCloseTo(
    rateOf({ cores: 16, share: 1 }, 1.4, 0.8),
    -1,
  )
})

test('a factor without information stays at its prior mean', () => {
  const deviceBound = grid.filter((c) => Number(c.cores) === 16 && Number(c.share) < 1)
  const { logFactors } = calibrateFactors(factors, measured(deviceBound, 2, 0.8))
  expect(logFactors[0]!).toBeCloseTo(0, 6)
  expect(logFactors[1]!).toBeLessThan(-0.15)
})

test('a bottleneck hidden behind another is found', () => {
  const asExpected = { cores: 16, share: 0.7 }
  const slower = { cores: 8, share: 0.7 }
  // Both are bound by their device as long as the CPU costs what was expected.
  const { logFactors } = calibrateFactors(factors, measured([asExpected, slower], 1.6, 1))
  expect(Math.exp(logFactors[0]!)).toBeCloseTo(1.6, 1)
  expect(Math.exp(logFactors[1]!)).toBeCloseTo(1, 1)
})

describe('a weakly identified bottleneck', () => {
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

  test('moves to its marginal posterior mean, not to where it begins to bind', () => {
    const { logFactors, factorErrorPriors } = calibrateFactors(factors, data)
    const binds = Math.log(800 / 1012.5)
    /**
     * Posterior of the cost of cores and of the device by adding up over both, apart from what
     * finds it.
     */
    const z = (value: number, sd: number) => -0.5 * (value / sd) ** 2
    let [total, sum, squares] = [0, 0, 0]
    for (let cpu = -1.5; cpu < 0.5; cpu += 0.01)
      for (let device = -0.6; device < 0.2; device += 0.01) {
        const off = data.map(({ configuration, target }) =>
          z(target - Math.log(rateOf(configuration, Math.exp(cpu), Math.exp(device))), 0.05),
        )
        const weight = Math.exp(off[0]! + off[1]! + z(cpu, 0.3) + z(device, 0.2))
        total += weight
        sum += weight * cpu
        squares += weight * cpu ** 2
      }
    const mean = sum / total
    expect(mean).toBeLessThan(binds - 0.08)
    expect(Math.abs(logFactors[0]! - mean)).toBeLessThan(0.04)
    expect(factorErrorPriors[0]![0]).toBe(0)
    expect(factorErrorPriors[0]![1] / Math.sqrt(squares / total - mean ** 2)).toBeCloseTo(1, 0.6)
    expect(factorErrorPriors[1]).toEqual([-logFactors[1]!, 0.2])
  })

  test('leaves configurations that it would bind uncertain', () => {
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
      priorLogRate: factors.applyFactors([0, 0]).predictLogRate,
      priorFactors: factors,
    }
    const read = data.map(
      ({ configuration, target }): Observation => ({
        configuration,
        state: 'complete',
        rate: { value: Math.exp(target), logSd: 0.02 },
      }),
    )
    const { rate } = fitSurrogate(problem, read, []).predict(two)
    // Six cores serve as much as eight where the device is all that binds; they were held to serve
    // three quarters for sure.
    expect(Math.exp(rate!.mean[0]!)).toBeCloseTo(1012.5, -2)
    expect(rate!.mean[1]! + computeQuantileOffset(rate!, 1, 2)).toBeGreaterThan(Math.log(1000))
    expect(rate!.mean[1]!).toBeGreaterThan(Math.log(0.75 * 1012.5) + 0.05)
  })
})

test('well identified factors stay at the mode', () => {
  const { logFactors, factorErrorPriors } = calibrateFactors(factors, measured(grid, 1.4, 0.8))
  expect(factorErrorPriors).toEqual([
    [-logFactors[0]!, 0.3],
    [-logFactors[1]!, 0.2],
  ])
})

test('a rate saturates at the other bottleneck, and rises further along the shared direction', () => {
  const { saturation } = calibrateFactors(factors, [])
  // Bound by its device at 810 a second, where the cores serve 1,600; then by one of 720, where
  // they serve 800.
  expect(saturation({ cores: 16, share: 0.9 })(0.2)).toBeCloseTo(0.2, 2)
  const hidden = { cores: 8, share: 0.8 }
  const [device, cores] = [Math.log(900 * 0.8), Math.log(800)]
  const alone = cores - device
  expect(saturation(hidden)(0.6)).toBeGreaterThan(1.5 * alone)
  expect(saturation(hidden)(0.6)).toBeLessThan(0.45)
  // Without a prediction or a sensitivity the increase is linear.
  const still: PriorFactors = {
    sd: [0.3],
    applyFactors: () => ({
      predictLogRate: (c) => (c.u === 1 ? 3 : undefined),
      computeSensitivities: () => [0],
    }),
  }
  expect([1, 2].map((u) => calibrateFactors(still, []).saturation({ u })(0.4))).toEqual([0.4, 0.4])
})

test('a satisfied bound carries no information; a violated one counts by its noise', () => {
  const [at] = grid.filter((c) => c.cores === 16 && c.share === 0.4)
  const bounded = (factor: number, bound: 'upper' | 'lower', logSd = 0) =>
    calibrateFactors(factors, [
      {
        configuration: at!,
        target: Math.log(rateOf(at!, 1, 1) * factor),
        bound,
        noise: logSd ** 2,
      },
    ]).logFactors[1]!
  expect([bounded(1.3, 'upper'), bounded(0.7, 'lower')].map(Math.abs)).toEqual([0, 0])
  expect(bounded(0.8, 'upper')).toBeGreaterThan(0.1)
  expect(bounded(1.25, 'lower')).toBeLessThan(-0.1)
  expect(bounded(0.8, 'upper', 0.2)).toBeLessThan(0.7 * bounded(0.8, 'upper'))
})

test('one outlier does not move the factors far', () => {
  const data = measured(grid, 1, 1)
  const withOutlier = data.map((d, i) => (i === 3 ? { ...d, target: d.target + 3 } : d))
  for (const value of calibrateFactors(factors, withOutlier).logFactors)
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
const trialsToBest = (given: Problem): number => {
  const sampler = createSampler('gp')
  const cost = (c: Configuration) => given.pricePerHour(c) / rateOf(c, 1.3, 1.1)
  const best = Math.min(...grid.map(cost))
  const observations: Observation[] = []
  while (observations.length < grid.length) {
    const { configuration } = sampler.suggest(given, observations, [], createRng('physics'))!
    observations.push({
      configuration,
      state: 'complete',
      rate: { value: rateOf(configuration, 1.3, 1.1), logSd: 0.01 },
    })
    if (cost(configuration) <= 1.05 * best) break
  }
  return observations.length
}

test('with a device-model prior the sampler starts at its cheapest, and needs few trials', () => {
  const withPhysics = { ...problem(1, 1), priorFactors: factors }
  const first = createSampler('gp').suggest(withPhysics, [], [], createRng('first'))!
  expect(first.why).toBe('start: cheapest by the device model')
  expect(trialsToBest(withPhysics)).toBeLessThanOrEqual(3)
})

test('a device model that is entirely wrong costs a few trials', () => {
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
  data: readonly { configuration: Configuration; target: number }[],
  logFactors: readonly number[],
): number {
  const { predictLogRate } = of.applyFactors(logFactors)
  const residuals = data.flatMap((d) =>
    predictLogRate(d.configuration) === undefined
      ? []
      : (d.target - predictLogRate(d.configuration)!) / 0.05,
  )
  const fit = residuals.reduce((sum, z) => sum + 18 * (Math.sqrt(1 + (z * z) / 9) - 1), 0)
  return fit + logFactors.reduce((sum, v, i) => sum + (v / of.sd[i]!) ** 2, 0)
}
/** ln rate = 3 + u·f1 + v·f2. */
const straight: PriorFactors = {
  sd: [0.3, 0.1],
  applyFactors: (logFactors) => ({
    predictLogRate: (c) =>
      c.u === -1 ? undefined : 3 + Number(c.u) * logFactors[0]! + Number(c.v) * logFactors[1]!,
    computeSensitivities: (c) => [Number(c.u), Number(c.v)],
  }),
}

test.each([
  ['one measurement', [[1, 0, 3.2]]],
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
    'one without a prediction',
    [
      [1, 0, 3.2],
      [-1, 1, 9],
    ],
  ],
  ['none', []],
] as const)('no factors near those found fit %s better', (_, rows) => {
  const data = rows.map(([u, v, target]) => ({ configuration: { u, v }, target }))
  const { logFactors, predictLogRate } = calibrateFactors(straight, data)
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
  expect(predictLogRate({ u: 2, v: 1 })).toBeCloseTo(3 + 2 * logFactors[0]! + logFactors[1]!, 12)
})

test('one measurement moves a factor as its prior sd and the discrepancy of 5 % allow', () => {
  // Precisions 1 / 0.3² and 1 / 0.05²; a residual of one deviation weighs 1 / √(1 + 1/9) or a
  // little more.
  const { logFactors } = calibrateFactors(straight, [
    { configuration: { u: 1, v: 0 }, target: 3.05 },
  ])
  expect(logFactors[0]).toBeCloseTo(0.05 / (1 + 0.05 ** 2 / 0.3 ** 2), 4)
  expect(logFactors[1]).toBe(0)
})

test('steps too long for a bend are halved', () => {
  // A rate that saturates: far from the truth the slope says next to nothing of how far.
  const saturating: PriorFactors = {
    sd: [5],
    applyFactors: ([f]) => ({
      predictLogRate: (c) => Math.atan(4 * (f! - Number(c.u))),
      computeSensitivities: (c) => [4 / (1 + 16 * (f! - Number(c.u)) ** 2)],
    }),
  }
  const data = [1, 1.2].map((u) => ({ configuration: { u }, target: Math.atan(4 * (0.6 - u)) }))
  const { logFactors } = calibrateFactors(saturating, data)
  expect(misfit(saturating, data, logFactors)).toBeLessThan(misfit(saturating, data, [0]))
  expect(logFactors[0]).toBeCloseTo(0.6, 1)
})
