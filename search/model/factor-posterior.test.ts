import { describe, expect, test } from 'vitest'
import { createSampler } from '../index.ts'
import { createRng } from '../rng.ts'
import type { Configuration, Observation, PriorFactors, Problem } from '../types.ts'
import { factorDraws, logMeanExp, sampleFactorPosterior } from './factor-posterior.ts'
import { fitSurrogate } from './surrogate.ts'

const seed = createRng('factors')
const moments = (draws: readonly (readonly number[])[], i: number) => {
  const mean = draws.reduce((sum, f) => sum + f[i]!, 0) / draws.length
  const variance = draws.reduce((sum, f) => sum + (f[i]! - mean) ** 2, 0) / draws.length
  return { mean, sd: Math.sqrt(variance) }
}

describe('draws of the factors', () => {
  test('are those of the prior without a measurement', () => {
    const { draws, logEvidence } = sampleFactorPosterior([0.3, 2], () => 0, seed)
    expect(draws.length).toBe(factorDraws)
    expect(logEvidence).toBe(0)
    for (const [i, sd] of [0.3, 2].entries()) {
      expect(Math.abs(moments(draws, i).mean)).toBeLessThan((4 * sd) / Math.sqrt(factorDraws))
      expect(moments(draws, i).sd / sd).toBeCloseTo(1, 0.6)
    }
  })

  test.each([
    [0.1, 0.2],
    [0.8, 0.05],
    [-1.2, 0.02],
  ])('have the posterior and the evidence of a normal measurement of %f ± %f', (y, noise) => {
    const [sd, other] = [0.4, 0.1]
    const logLikelihood = ([f]: readonly number[]) =>
      -0.5 * ((y - f!) / noise) ** 2 - Math.log(noise * Math.sqrt(2 * Math.PI))
    const { draws, logEvidence } = sampleFactorPosterior([sd, other], logLikelihood, seed)
    const variance = 1 / (1 / sd ** 2 + 1 / noise ** 2)
    const { mean, sd: spread } = moments(draws, 0)
    expect(Math.abs(mean - (variance * y) / noise ** 2)).toBeLessThan(0.6 * Math.sqrt(variance))
    expect(spread / Math.sqrt(variance)).toBeGreaterThan(0.6)
    expect(spread / Math.sqrt(variance)).toBeLessThan(1.5)
    expect(moments(draws, 1).sd / other).toBeCloseTo(1, 0.6)
    const total = sd ** 2 + noise ** 2
    const expected = (-0.5 * y ** 2) / total - 0.5 * Math.log(2 * Math.PI * total)
    expect(Math.abs(logEvidence - expected)).toBeLessThan(0.8)
  })

  test('keep both of two explanations', () => {
    const logLikelihood = ([f]: readonly number[]) => -0.5 * ((Math.abs(f!) - 0.5) / 0.05) ** 2
    const { draws } = sampleFactorPosterior([0.4], logLikelihood, seed)
    const positive = draws.filter(([f]) => f! > 0).length
    expect(positive).toBeGreaterThan(0.2 * factorDraws)
    expect(positive).toBeLessThan(0.8 * factorDraws)
  })

  test('are one empty draw without factors', () => {
    expect(sampleFactorPosterior([], () => -3, seed)).toEqual({ draws: [[]], logEvidence: -3 })
  })

  test('survive a likelihood that is zero almost everywhere', () => {
    const { draws } = sampleFactorPosterior([1], ([f]) => (f! > 0.5 ? 0 : -Infinity), seed)
    expect(draws.every(([f]) => f! > 0.5)).toBe(true)
  })
})

test('the logarithm of a mean of exponentials neither overflows nor underflows', () => {
  expect(logMeanExp([1000, 1000 + Math.log(3)])).toBeCloseTo(1000 + Math.log(2), 12)
  expect(logMeanExp([-Infinity, -2000])).toBeCloseTo(-2000 - Math.log(2), 12)
  expect(logMeanExp([-Infinity, -Infinity])).toBe(-Infinity)
})

/**
 * A server whose rate is the least of what its cores and its device serve: a kink that no linear
 * correction follows.
 */
const rateOf = (c: Configuration, cpu: number, device: number) =>
  Math.min((100 * Number(c.cores)) / cpu, (900 * Number(c.share)) / device)
const factors: PriorFactors = {
  sd: [0.3, 0.2],
  at:
    ([cpu, device]) =>
    (c) =>
      Math.log(rateOf(c, Math.exp(cpu!), Math.exp(device!))),
}
const ordinal = (name: string, values: readonly number[]) =>
  ({ kind: 'ordinal', name, category: 'resource', scale: 'log', values }) as const
const server: Problem = {
  space: {
    parameters: [
      ordinal('cores', [1, 2, 4, 6, 8, 16]),
      ordinal('share', [0.1, 0.2, 0.4, 0.7, 0.9, 1]),
    ],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  pricePerHour: (c) => 0.04 * Number(c.cores) + Number(c.share),
  priorLogRate: factors.at([0, 0]),
  priorFactors: factors,
}
const grid = [1, 2, 4, 8, 16].flatMap((cores) =>
  [0.1, 0.2, 0.4, 0.7, 1].map((share): Configuration => ({ cores, share })),
)
const measure = (configuration: Configuration, cpu: number, device: number): Observation => ({
  configuration,
  state: 'complete',
  rate: { value: rateOf(configuration, cpu, device), logSd: 0.01 },
})

describe('a surrogate with uncertain factors', () => {
  const rateAt = (observations: readonly Observation[], configuration: Configuration) => {
    const { rate } = fitSurrogate(server, observations, []).predict([configuration])
    return { mean: rate!.mean[0]!, sd: Math.sqrt(rate!.variance[0]!) }
  }

  test('learns both factors from both sides of a kink', () => {
    const some = [3, 8, 11, 16, 22].map((i) => measure(grid[i]!, 1.4, 0.8))
    for (const c of grid) {
      const { mean, sd } = rateAt(some, c)
      expect(Math.abs(mean - Math.log(rateOf(c, 1.4, 0.8)))).toBeLessThan(Math.max(0.1, 2 * sd))
    }
  })

  test('is uncertain of a bottleneck that never bound', () => {
    // Both are bound by the device, which is a quarter faster than expected.
    const observations = [
      { cores: 8, share: 0.9 },
      { cores: 16, share: 0.4 },
    ].map((c) => measure(c, 0.5, 0.8))
    const [known, hidden] = [
      { cores: 16, share: 0.9 },
      { cores: 6, share: 0.9 },
    ].map((c) => rateAt(observations, c))
    expect(known!.mean).toBeCloseTo(Math.log(1012.5), 1)
    expect(hidden!.sd).toBeGreaterThan(1.5 * known!.sd)
    // Six cores serve at least three quarters of what eight do, and at most what the device does.
    expect(hidden!.mean).toBeGreaterThan(Math.log(0.75 * 1012.5) + 0.03)
    expect(hidden!.mean).toBeLessThan(Math.log(1012.5))
  })

  test('has a posterior that one outlier does not move far', () => {
    const exact = grid.filter((_, i) => i % 3 === 0).map((c) => measure(c, 1, 1))
    const outlier = exact.map((o, i) =>
      i === 3 && o.state === 'complete' ? { ...o, rate: { value: 2 * o.rate!.value } } : o,
    )
    expect(Math.abs(rateAt(outlier, { cores: 6, share: 0.9 }).mean - Math.log(600))).toBeLessThan(
      0.25,
    )
  })
})

const trialsToBest = (given: Problem): number => {
  const sampler = createSampler('gp')
  const cost = (c: Configuration) => given.pricePerHour(c) / rateOf(c, 1.3, 1.1)
  const best = Math.min(...grid.map(cost))
  const observations: Observation[] = []
  while (observations.length < grid.length) {
    const { configuration } = sampler.suggest(given, observations, [], createRng('physics'))!
    observations.push(measure(configuration, 1.3, 1.1))
    if (cost(configuration) <= 1.05 * best) break
  }
  return observations.length
}

test('with a device-model prior the sampler starts at its cheapest, and needs few trials', () => {
  const first = createSampler('gp').suggest(server, [], [], createRng('first'))!
  expect(first.why).toBe('start: cheapest by the device model')
  expect(trialsToBest(server)).toBeLessThanOrEqual(3)
})

test('a device model that is entirely wrong costs a few trials', () => {
  const { priorLogRate, priorFactors, ...without } = server
  const wrong: Problem = { ...without, priorLogRate: (c) => 10 - priorLogRate!(c)! }
  expect(trialsToBest(wrong)).toBeLessThanOrEqual(trialsToBest(without) + 3)
})
