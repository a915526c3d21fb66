import { describe, expect, test } from 'vitest'
import { cdf, logExpectedImprovement } from '../gp/normal.ts'
import { createSampler } from '../index.ts'
import { createRng } from '../rng.ts'
import { computeExpectedGain } from '../stopping/expected-gain.ts'
import { findIncumbent } from '../stopping/incumbent.ts'
import { assessStop } from '../stopping/stop-rule.ts'
import type { Configuration, Observation, PriorFactors, Problem } from '../types.ts'
import {
  logExpectedExcess,
  logProbabilityAbove,
  mix,
  type Predictive,
  quantileOffset,
  widen,
} from './predictive.ts'
import { fitSurrogate } from './surrogate.ts'

const normal: Predictive = { mean: Float64Array.of(3), variance: Float64Array.of(0.09) }
/** Of two components, at 1 and 2, with deviations of 0.3. */
const mixture = mix([Float64Array.of(1), Float64Array.of(2)], Float64Array.of(0.09))

describe('a mixture', () => {
  test('has the mean and the variance of the whole', () => {
    expect([...mixture.mean, ...mixture.variance]).toEqual([1.5, expect.closeTo(0.34, 12)])
  })
  test('averages probabilities and expected excess over its components', () => {
    expect(Math.exp(logProbabilityAbove(mixture, 0, 0.2))).toBeCloseTo(
      0.5 * (cdf(-0.7 / 0.3) + cdf(0.3 / 0.3)),
      12,
    )
    expect(Math.exp(logExpectedExcess(mixture, 0, 0.2))).toBeCloseTo(
      0.5 *
        (Math.exp(logExpectedImprovement(0.7, 0.3, 0)) +
          Math.exp(logExpectedImprovement(-0.3, 0.3, 0))),
      12,
    )
  })
  test('has quantiles, also between its components', () => {
    for (const z of [-2, -0.5, 0, 1, 1.645])
      expect(Math.exp(logProbabilityAbove(mixture, 0, quantileOffset(mixture, 0, z)))).toBeCloseTo(
        cdf(-z),
        2,
      )
  })
})

test('a normal prediction has its own quantiles, probabilities and expected excess', () => {
  expect(quantileOffset(normal, 0, -1.645)).toBeCloseTo(-1.645 * 0.3, 12)
  expect(Math.exp(logProbabilityAbove(normal, 0, 0.3))).toBeCloseTo(cdf(-1), 12)
  for (const threshold of [-2, 0, 0.1, 0.95, 3, 30])
    expect(logExpectedExcess(normal, 0, threshold)).toBe(logExpectedImprovement(threshold, 0.3, 0))
})

test('widened by 2 every quantile is twice as far from the mean', () => {
  for (const prediction of [normal, mixture]) {
    const wide = widen(prediction, 2)
    expect(wide.variance[0]).toBeCloseTo(4 * prediction.variance[0]!, 12)
    for (const z of [-1, 0.5, 2])
      expect(quantileOffset(wide, 0, z)).toBeCloseTo(2 * quantileOffset(prediction, 0, z), 2)
  }
})

describe('where a bottleneck hides another', () => {
  /**
   * A server whose cores are a tenth faster than its device, or twenty times as fast; the speed of
   * the device is hardly known.
   */
  const deviceRate = 50
  const coresRate = (c: Configuration) => (c.hidden === 'near' ? 1.1 : 20) * deviceRate
  const priorFactors: PriorFactors = {
    sd: [0.8],
    at:
      ([slower]) =>
      (c) =>
        Math.log(
          c.hidden === 'tried' ? 100 : Math.min(coresRate(c), deviceRate * Math.exp(-slower!)),
        ),
  }
  const given = (hidden: 'near' | 'far'): Problem => ({
    space: {
      parameters: [
        { name: 'hidden', category: 'server', kind: 'categorical', values: ['tried', hidden] },
      ],
      constraints: [],
    },
    objective: { kind: 'price-per-request' },
    pricePerHour: () => 1,
    priorLogRate: priorFactors.at([0]),
    priorFactors,
  })
  const tried: Observation = {
    configuration: { hidden: 'tried' },
    state: 'complete',
    rate: { value: 100, logSd: 0.02 },
  }
  const predict = (hidden: 'near' | 'far') =>
    fitSurrogate(given(hidden), [tried], []).predict([{ hidden }]).rate!

  test('the upper quantile stops at the other bottleneck', () => {
    const upper = (hidden: 'near' | 'far') => {
      const rate = predict(hidden)
      return rate.mean[0]! + quantileOffset(rate, 0, 1.645)
    }
    expect(upper('near')).toBeLessThan(Math.log(1.1 * deviceRate) + 0.3)
    expect(upper('far')).toBeGreaterThan(Math.log(deviceRate) + 0.8)
  })
  test('neither expected gain nor expected regret exceeds what the other bottleneck permits', () => {
    const gain = (hidden: 'near' | 'far') => {
      const surrogate = fitSurrogate(given(hidden), [tried], [])
      const { logCost } = findIncumbent(given(hidden), [tried], surrogate)!
      return computeExpectedGain(given(hidden), surrogate, logCost, [{ hidden }], 1)
    }
    const regret = (hidden: 'near' | 'far') =>
      assessStop(given(hidden), [tried], createRng(1)).outlook!.regret
    expect(gain('far')).toBeGreaterThan(0.05)
    expect(gain('near')).toBeLessThan(0.001)
    expect(regret('far')).toBeGreaterThan(0.04)
    expect(regret('near')).toBeLessThan(0.01)
  })
  test('its predicted interval reaches further down than up', () => {
    const { predicted } = createSampler('gp').suggest(given('near'), [tried], [], createRng(1))!
    expect(Math.log(predicted!.rate / predicted!.low)).toBeGreaterThan(
      1.5 * Math.log(predicted!.high / predicted!.rate),
    )
  })
})
