import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { likeliestAnswer } from './answer.ts'
import { expectedGain } from './expected-gain.ts'
import { createSampler } from './index.ts'
import { createRng } from './rng.ts'
import { bentUpward } from './split-normal.ts'
import { fitSurrogate } from './surrogate.ts'
import type { Configuration, Observation, PriorFactors, Problem } from './types.ts'

describe('deviations above the mean', () => {
  const bent = (variance: number, residual: number, rise: (by: number) => number) =>
    bentUpward([{ n: 1 }], Float64Array.of(variance), residual, (_, by) => rise(by))[0]!

  test('are those below it where nothing bends', () => {
    expect(bent(0.25, 0, (by) => by)).toBeCloseTo(0.5, 12)
    expect(bent(0.25, 0.09, (by) => by)).toBeCloseTo(0.5, 12)
  })
  test('are half of what luck of two deviations brings', () => {
    expect(bent(0.25, 0, (by) => Math.min(by, 0.3))).toBeCloseTo(0.15, 12)
    expect(bent(0.25, 0, () => -0.01)).toBe(0)
  })
  test('of what is not of the inputs are not bent', () => {
    expect(bent(0.25, 0.09, () => 0)).toBeCloseTo(0.3, 12)
    expect(bent(0.04, 0.09, () => 0)).toBeCloseTo(0.2, 12)
  })
  test('are never more than those below, nor fewer than of the residual alone', () => {
    const positive = fc.double({ min: 1e-6, max: 4, noNaN: true })
    fc.assert(
      fc.property(positive, positive, fc.double({ min: -3, max: 9, noNaN: true }), (variance, residual, rise) => {
        const upward = bent(variance, residual, () => rise)
        expect(upward).toBeLessThanOrEqual(Math.sqrt(variance) * (1 + 1e-12))
        expect(upward).toBeGreaterThanOrEqual(Math.sqrt(Math.min(variance, residual)) * (1 - 1e-12))
      }),
    )
  })
})

describe('where a bottleneck hides another', () => {
  /** A server whose cores are a tenth faster than its device, or twenty times as fast; the speed of the device is hardly known. */
  const deviceRate = 50
  const coresRate = (c: Configuration) => (c.hidden === 'near' ? 1.1 : 20) * deviceRate
  const priorFactors: PriorFactors = {
    sd: [0.8],
    at: ([slower]) => ({
      logRate: (c) => Math.log(c.hidden === 'tried' ? 100 : Math.min(coresRate(c), deviceRate * Math.exp(-slower!))),
      sensitivities: (c) => [c.hidden === 'tried' ? 0 : -1],
    }),
  }
  const asked = (hidden: 'near' | 'far'): Problem => ({
    space: { parameters: [{ name: 'hidden', category: 'server', kind: 'categorical', values: ['tried', hidden] }], constraints: [] },
    objective: { kind: 'price-per-request' },
    pricePerHour: () => 1,
    priorLogRate: priorFactors.at([0]).logRate,
    priorFactors,
  })
  const tried: Observation = { configuration: { hidden: 'tried' }, state: 'complete', rate: { value: 100, logSd: 0.02 } }
  const believed = (hidden: 'near' | 'far') => fitSurrogate(asked(hidden), [tried], []).believe([{ hidden }]).rate!

  test('luck is worth no more than what the other one lets through', () => {
    const [near, far] = [believed('near'), believed('far')]
    expect(Math.sqrt(near.variance[0]!)).toBeGreaterThan(0.7)
    expect(Math.sqrt(far.variance[0]!)).toBeGreaterThan(0.7)
    expect(near.upward![0]!).toBeLessThan(0.2)
    expect(far.upward![0]!).toBeCloseTo(Math.sqrt(far.variance[0]!), 1)
  })
  test('neither the next trial nor all to come are expected to gain what it does not let through', () => {
    const gain = (hidden: 'near' | 'far') => expectedGain(asked(hidden), [tried], [{ hidden }])!.share
    const regret = (hidden: 'near' | 'far') => likeliestAnswer(asked(hidden), [tried], createRng(1))!.expectedRegret
    expect(gain('far')).toBeGreaterThan(0.05)
    expect(gain('near')).toBeLessThan(0.001)
    expect(regret('far')).toBeGreaterThan(0.1)
    expect(regret('near')).toBeLessThan(0.01)
  })
  test('what is foretold of it reaches further down than up', () => {
    const { predicted } = createSampler('gp').suggest(asked('near'), [tried], [], createRng(1))!
    expect(Math.log(predicted!.rate / predicted!.low)).toBeGreaterThan(4 * Math.log(predicted!.high / predicted!.rate))
  })
})
