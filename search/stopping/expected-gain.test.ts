import { describe, expect, test } from 'vitest'
import { logExpectedImprovement } from '../gp/normal.ts'
import { fitSurrogate } from '../model/surrogate.ts'
import { createRng } from '../rng.ts'
import type { Configuration, Observation, Problem } from '../types.ts'
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
  const read = (n: number, value: number): Observation => ({
    configuration: { n },
    state: 'complete',
    rate: { value, logSd: 0.05 },
  })
  /** Once there is enough to go by. */
  const gain = (observations: readonly Observation[], problem = given) => {
    const { outlook } = assessStop(problem, observations, createRng(1))
    return outlook?.minTrials === 0 ? outlook.gain : undefined
  }
  /** Expected gain of the only candidate by the formula. */
  const byHand = (observations: readonly Observation[], left: Configuration) => {
    const { rate } = fitSurrogate(given, observations, []).predict([
      ...observations.map((o) => o.configuration),
      left,
    ])
    const best = -Math.max(...rate!.mean.slice(0, observations.length))
    const at = observations.length
    return (
      1 -
      Math.exp(
        -Math.exp(logExpectedImprovement(-rate!.mean[at]!, Math.sqrt(rate!.variance[at]!), best)),
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
})
