import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { logExpectedImprovement } from '../gp/normal.ts'
import { createSampler } from '../index.ts'
import { createRng } from '../rng.ts'
import { assessStop } from '../stopping/stop-rule.ts'
import type { Configuration, Observation, PriorFactors, Problem } from '../types.ts'
import {
  computeLogExpectedExcess,
  computeQuantileOffset,
  computeZScore,
  type SaturatingPredictive,
  saturate,
} from './saturating-predictive.ts'
import { fitSurrogate } from './surrogate.ts'

const saturatedBy = (
  variance: number,
  residual: number,
  curve: (linear: number) => number,
): SaturatingPredictive =>
  saturate(
    { mean: Float64Array.of(3), variance: Float64Array.of(variance) },
    [{ n: 1 }],
    residual,
    () => curve,
  )
const offsets = (...of: Parameters<typeof saturatedBy>) =>
  [1, 2, 3, 4].map((z) => computeQuantileOffset(saturatedBy(...of), 0, z))
const close = (found: readonly number[], expected: readonly number[]) =>
  expected.forEach((value, i) => {
    expect(found[i]).toBeCloseTo(value, 12)
  })

describe('offsets of the upper quantiles', () => {
  test('are z standard deviations without saturation', () => {
    close(
      offsets(0.25, 0, (linear) => linear),
      [0.5, 1, 1.5, 2],
    )
    close(
      offsets(0.25, 0.09, (linear) => linear),
      [0.5, 1, 1.5, 2],
    )
  })
  test('follow the saturation curve, and never decrease with z', () => {
    close(
      offsets(0.25, 0, (linear) => Math.min(linear, 0.7)),
      [0.5, 0.7, 0.7, 0.7],
    )
    close(
      offsets(0.25, 0, (linear) => (linear < 0.8 ? linear : 0.2)),
      [0.5, 0.5, 0.5, 0.5],
    )
    close(
      offsets(0.25, 0, () => -0.01),
      [0, 0, 0, 0],
    )
    close(
      offsets(0.25, 0, (linear) => 3 * linear),
      [0.5, 1, 1.5, 2],
    )
  })
  test('keep the residual unsaturated', () => {
    close(
      offsets(0.25, 0.09, () => 0),
      [0.3, 0.6, 0.9, 1.2],
    )
    close(
      offsets(0.04, 0.09, () => 0),
      [0.2, 0.4, 0.6, 0.8],
    )
  })
  test('continue beyond the table with the last slope; below the mean they are normal', () => {
    const prediction = saturatedBy(0.25, 0, (linear) => Math.min(linear, 0.6 + linear / 10))
    close(
      [5, 6.5, -1, -3].map((z) => computeQuantileOffset(prediction, 0, z)),
      [0.85, 0.925, -0.5, -1.5],
    )
  })
})

/** Any table of offsets: an increase, possibly zero, at each z-score. */
const anyPrediction = fc
  .tuple(
    fc.double({ min: 0.01, max: 3, noNaN: true }),
    fc.array(fc.double({ min: 0, max: 2, noNaN: true }), { minLength: 4, maxLength: 4 }),
  )
  .map(([sd, steps]): SaturatingPredictive => {
    let offset = 0
    return {
      mean: Float64Array.of(0),
      variance: Float64Array.of(sd ** 2),
      upperOffsets: Float64Array.from(steps, (step) => {
        offset += step
        return offset
      }),
    }
  })

describe('a saturating predictive', () => {
  test('has a z-score at an offset whose quantile is that offset', () => {
    fc.assert(
      fc.property(anyPrediction, fc.double({ min: -4, max: 9, noNaN: true }), (prediction, far) => {
        const z = computeZScore(prediction, 0, far)
        if (z < Infinity) expect(computeQuantileOffset(prediction, 0, z)).toBeCloseTo(far, 9)
        else expect(computeQuantileOffset(prediction, 0, 100)).toBeLessThanOrEqual(far)
      }),
    )
    expect(computeZScore({ mean: Float64Array.of(0), variance: Float64Array.of(4) }, 0, 3)).toBe(
      1.5,
    )
  })

  test('has the expected excess of a sum over z', () => {
    fc.assert(
      fc.property(
        anyPrediction,
        fc.double({ min: -3, max: 5, noNaN: true }),
        (prediction, least) => {
          const [from, step] = [-9, 1e-3]
          let summed = 0
          for (let z = from; z < -from; z += step) {
            const at = z + step / 2
            summed +=
              Math.max(0, computeQuantileOffset(prediction, 0, at) - least) *
              Math.exp(-0.5 * at ** 2) *
              (step / Math.sqrt(2 * Math.PI))
          }
          const excess = Math.exp(computeLogExpectedExcess(prediction, 0, least))
          expect(Math.abs(excess - summed)).toBeLessThan(1e-5 * summed + 1e-9)
        },
      ),
      { numRuns: fc.readConfigureGlobal().numRuns ?? 40 },
    )
  })
  test('is normal without a table, also far in the tail', () => {
    const plain: SaturatingPredictive = {
      mean: Float64Array.of(0),
      variance: Float64Array.of(0.09),
    }
    const straight = { ...plain, upperOffsets: Float64Array.of(0.3, 0.6, 0.9, 1.2) }
    for (const least of [-2, 0, 0.1, 0.95, 3, 30]) {
      expect(computeLogExpectedExcess(plain, 0, least)).toBe(logExpectedImprovement(least, 0.3, 0))
      expect(computeLogExpectedExcess(straight, 0, least)).toBeCloseTo(
        logExpectedImprovement(least, 0.3, 0),
        9,
      )
    }
    expect(
      computeLogExpectedExcess(
        { ...plain, upperOffsets: Float64Array.of(0.3, 0.4, 0.4, 0.4) },
        0,
        0.41,
      ),
    ).toBe(-Infinity)
  })
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
    applyFactors: ([slower]) => ({
      predictLogRate: (c) =>
        Math.log(
          c.hidden === 'tried' ? 100 : Math.min(coresRate(c), deviceRate * Math.exp(-slower!)),
        ),
      computeSensitivities: (c) => [c.hidden === 'tried' ? 0 : -1],
    }),
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
    priorLogRate: priorFactors.applyFactors([0]).predictLogRate,
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
    const [near, far] = [predict('near'), predict('far')]
    expect(Math.sqrt(near.variance[0]!)).toBeGreaterThan(0.7)
    expect(Math.sqrt(far.variance[0]!)).toBeGreaterThan(0.7)
    expect(computeQuantileOffset(near, 0, 1)).toBeLessThan(0.2)
    expect(computeQuantileOffset(far, 0, 1)).toBeCloseTo(Math.sqrt(far.variance[0]!), 1)
  })
  test('neither expected gain nor expected regret exceeds what the other bottleneck permits', () => {
    const outlook = (hidden: 'near' | 'far') =>
      assessStop(given(hidden), [tried], createRng(1)).outlook!
    expect(outlook('far').gain).toBeGreaterThan(0.05)
    expect(outlook('near').gain).toBeLessThan(0.001)
    expect(outlook('far').regret).toBeGreaterThan(0.1)
    expect(outlook('near').regret).toBeLessThan(0.01)
  })
  test('its predicted interval reaches further down than up', () => {
    const { predicted } = createSampler('gp').suggest(given('near'), [tried], [], createRng(1))!
    expect(Math.log(predicted!.rate / predicted!.low)).toBeGreaterThan(
      4 * Math.log(predicted!.high / predicted!.rate),
    )
  })
})
