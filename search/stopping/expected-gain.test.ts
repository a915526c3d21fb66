import { describe, expect, test } from 'vitest'
import { logExpectedImprovement } from '../gp/normal.ts'
import { fitSurrogate } from '../model/surrogate.ts'
import { createRng } from '../rng.ts'
import type { Configuration, Observation, Problem } from '../types.ts'
import { computeCalibrationRatio } from './expected-gain.ts'
import { assessStop } from './stop-rule.ts'

describe('the expected gain of another trial', () => {
  const given: Problem = {
    space: {
      parameters: [
        {
          name: 'n',
          category: 'server',
          kind: 'ordinal',
          values: [1, 2, 3, 4, 5, 6],
          scale: 'linear',
        },
      ],
      constraints: [],
    },
    objective: { kind: 'price-per-request' },
    pricePerHour: () => 1,
    priorLogRate: () => Math.log(100),
  }
  const read = (n: number, value: number, more: object = {}): Observation => ({
    configuration: { n },
    state: 'complete',
    rate: { value, logSd: 0.05 },
    ...more,
  })
  /** Once there is enough to go by. */
  const gain = (observations: readonly Observation[], problem = given) => {
    const { outlook } = assessStop(problem, observations, createRng(1))
    return outlook?.minTrials === 0 ? outlook.gain : undefined
  }
  /** Expected gain of the only candidate by the formula, with widened deviations. */
  const byHand = (observations: readonly Observation[], left: Configuration, wide = 1) => {
    const { rate } = fitSurrogate(given, observations, []).predict([
      ...observations.map((o) => o.configuration),
      left,
    ])
    const best = -Math.max(...rate!.mean.slice(0, observations.length))
    const at = observations.length
    return (
      1 -
      Math.exp(
        -Math.exp(
          logExpectedImprovement(-rate!.mean[at]!, wide * Math.sqrt(rate!.variance[at]!), best),
        ),
      )
    )
  }
  const five = [100, 104, 110, 101, 107].map((value, i) => read(i + 1, value))

  test("is the share of the incumbent's cost that the best candidate saves", () => {
    const found = gain(five)!
    expect(found).toBeCloseTo(byHand(five, { n: 6 }), 9)
    expect(found).toBeGreaterThan(0)
  })

  test('is no reason to stop after a gain, nor without a device-model prior before six trials brought nothing', () => {
    expect(gain(five.slice(0, 3))).toBeUndefined()
    expect(gain(five.slice(0, 4))).toBeGreaterThan(0)
    expect(gain(five.slice(0, 1))).toBeUndefined()
    // Less than the tolerance is no gain to wait for.
    expect(gain([read(1, 100), read(2, 104)])).toBeGreaterThan(0)
    expect(gain([read(1, 100), read(2, 106)])).toBeUndefined()
    const uninformed = (values: number): Problem => ({
      ...given,
      space: {
        ...given.space,
        parameters: [
          {
            ...given.space.parameters[0]!,
            values: Array.from({ length: values }, (_, i) => i + 1),
          },
        ] as never,
      },
      priorLogRate: undefined,
    })
    const order = [110, 100, 104, 101, 107, 99, 103].map((value, i) => read(i + 1, value))
    expect(gain(order, uninformed(16))).toBeGreaterThan(0)
    expect(gain(order.slice(0, 6), uninformed(16))).toBeUndefined()
    // Five brought nothing, and two are left.
    expect(gain(order.slice(0, 6), uninformed(8))).toBeGreaterThan(0)
  })

  test('the outlook exists from the first trial on: required trials, and the expected saving of the next', () => {
    const outlook = (observations: readonly Observation[]) =>
      assessStop(given, observations, createRng(1)).outlook
    expect(outlook([])).toBeUndefined()
    expect(
      outlook([{ configuration: { n: 1 }, state: 'infeasible', reason: 'out of memory' }]),
    ).toBeUndefined()
    expect(outlook(five.slice(0, 1))).toMatchObject({ minTrials: 1 })
    expect(outlook([read(1, 100), read(2, 120)])).toMatchObject({ minTrials: 1 })
    expect(outlook([read(1, 120), read(2, 100)])).toMatchObject({ minTrials: 0 })
    expect(outlook(five)!.gain).toBe(gain(five))
    expect(outlook(five)!.regret).toBeGreaterThan(0)
  })

  test('is larger where measurements differ from the predictions', () => {
    const wrong = five.map((o) => ({ ...o, predicted: { value: 60, logSd: 0.1 } }))
    expect(gain(wrong)!).toBeCloseTo(byHand(five, { n: 6 }, 2), 9)
  })

  test('calibration ratio: root mean square of standardised residuals with one residual of 1 added, between 1 and 2', () => {
    const predictedAs = (value: number, more: object = {}) =>
      read(1, value, { predicted: { value: 100, logSd: 0.12 }, ...more })
    const sd = Math.hypot(0.05, 0.12)
    const off = (deviations: number) => predictedAs(100 * Math.exp(deviations * sd))
    expect(computeCalibrationRatio([])).toBe(1)
    expect(computeCalibrationRatio([off(0.1), off(0.2)])).toBe(1)
    expect(computeCalibrationRatio([off(1.5), off(-2)])).toBeCloseTo(
      Math.sqrt((1.5 ** 2 + 2 ** 2 + 1) / 3),
      9,
    )
    expect(computeCalibrationRatio([off(9)])).toBe(2)
    // Without a deviation of its own a measurement is exact, as a prediction is; of two that are nothing
    // can be said.
    const bare = (value: number, measurement: object, prediction: object) =>
      read(1, value, { rate: { value, ...measurement }, predicted: { value: 100, ...prediction } })
    expect(computeCalibrationRatio([bare(100 * Math.exp(0.2), {}, { logSd: 0.1 })])).toBeCloseTo(
      Math.sqrt((4 + 1) / 2),
      9,
    )
    expect(computeCalibrationRatio([bare(100 * Math.exp(0.2), { logSd: 0.1 }, {})])).toBeCloseTo(
      Math.sqrt((4 + 1) / 2),
      9,
    )
    expect(computeCalibrationRatio([bare(150, {}, {}), off(2)])).toBeCloseTo(
      Math.sqrt((4 + 1) / 2),
      9,
    )
    // Half a request a second is a rate; none is none.
    expect(computeCalibrationRatio([bare(0.5, { logSd: 0.1 }, { logSd: 0.1 })])).toBe(2)
    expect(computeCalibrationRatio([bare(0, { logSd: 0.1 }, { logSd: 0.1 })])).toBe(1)
    // Without a prediction, or with a censored rate above it, there is no residual.
    expect(
      computeCalibrationRatio([
        read(1, 1),
        predictedAs(100 * Math.exp(2 * sd), { censored: true }),
      ]),
    ).toBe(1)
    expect(
      computeCalibrationRatio([predictedAs(100 * Math.exp(-2 * sd), { censored: true })]),
    ).toBeGreaterThan(1.5)
  })
})
