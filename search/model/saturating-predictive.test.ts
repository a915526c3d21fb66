import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { logExpectedImprovement } from '../gp/normal.ts'
import { createSampler } from '../index.ts'
import { createRng } from '../rng.ts'
import { likeliestAnswer } from '../stopping/best-trial.ts'
import { expectedGain } from '../stopping/expected-gain.ts'
import type { Configuration, Observation, PriorFactors, Problem } from '../types.ts'
import {
  above,
  type BentNormal,
  bent,
  logExpectedExcess,
  luckFor,
  widened,
} from './saturating-predictive.ts'
import { fitSurrogate } from './surrogate.ts'

const bentBy = (variance: number, residual: number, rise: (by: number) => number): BentNormal =>
  bent(
    { mean: Float64Array.of(3), variance: Float64Array.of(variance) },
    [{ n: 1 }],
    residual,
    () => rise,
  )
const rises = (...of: Parameters<typeof bentBy>) =>
  [1, 2, 3, 4].map((luck) => above(bentBy(...of), 0, luck))
const close = (found: readonly number[], expected: readonly number[]) =>
  expected.forEach((value, i) => {
    expect(found[i]).toBeCloseTo(value, 12)
  })

describe('what luck brings above the mean', () => {
  test('is as many deviations where nothing bends', () => {
    close(
      rises(0.25, 0, (by) => by),
      [0.5, 1, 1.5, 2],
    )
    close(
      rises(0.25, 0.09, (by) => by),
      [0.5, 1, 1.5, 2],
    )
  })
  test('is what the inputs bring, and never less for more of it', () => {
    close(
      rises(0.25, 0, (by) => Math.min(by, 0.7)),
      [0.5, 0.7, 0.7, 0.7],
    )
    close(
      rises(0.25, 0, (by) => (by < 0.8 ? by : 0.2)),
      [0.5, 0.5, 0.5, 0.5],
    )
    close(
      rises(0.25, 0, () => -0.01),
      [0, 0, 0, 0],
    )
    close(
      rises(0.25, 0, (by) => 3 * by),
      [0.5, 1, 1.5, 2],
    )
  })
  test('has all of what is not of the inputs', () => {
    close(
      rises(0.25, 0.09, () => 0),
      [0.3, 0.6, 0.9, 1.2],
    )
    close(
      rises(0.04, 0.09, () => 0),
      [0.2, 0.4, 0.6, 0.8],
    )
  })
  test('goes on beyond as it did before the last, and below the mean is not bent', () => {
    const belief = bentBy(0.25, 0, (by) => Math.min(by, 0.6 + by / 10))
    close(
      [5, 6.5, -1, -3].map((luck) => above(belief, 0, luck)),
      [0.85, 0.925, -0.5, -1.5],
    )
  })
})

/** As different as they come: steps up at each deviation, of which some may be none. */
const anyBelief = fc
  .tuple(
    fc.double({ min: 0.01, max: 3, noNaN: true }),
    fc.array(fc.double({ min: 0, max: 2, noNaN: true }), { minLength: 4, maxLength: 4 }),
  )
  .map(([sd, steps]): BentNormal => {
    let risen = 0
    return {
      mean: Float64Array.of(0),
      variance: Float64Array.of(sd ** 2),
      rises: Float64Array.from(steps, (step) => {
        risen += step
        return risen
      }),
    }
  })

describe('a normal that bends', () => {
  test('takes as much luck to be somewhere as leads there', () => {
    fc.assert(
      fc.property(anyBelief, fc.double({ min: -4, max: 9, noNaN: true }), (belief, far) => {
        const luck = luckFor(belief, 0, far)
        if (luck < Infinity) expect(above(belief, 0, luck)).toBeCloseTo(far, 9)
        else expect(above(belief, 0, 100)).toBeLessThanOrEqual(far)
      }),
    )
    expect(luckFor({ mean: Float64Array.of(0), variance: Float64Array.of(4) }, 0, 3)).toBe(1.5)
  })

  test('has an expected excess as by adding it up over the luck', () => {
    fc.assert(
      fc.property(anyBelief, fc.double({ min: -3, max: 5, noNaN: true }), (belief, least) => {
        const [from, step] = [-9, 1e-3]
        let summed = 0
        for (let luck = from; luck < -from; luck += step) {
          const at = luck + step / 2
          summed +=
            Math.max(0, above(belief, 0, at) - least) *
            Math.exp(-0.5 * at ** 2) *
            (step / Math.sqrt(2 * Math.PI))
        }
        const excess = Math.exp(logExpectedExcess(belief, 0, least))
        expect(Math.abs(excess - summed)).toBeLessThan(1e-5 * summed + 1e-9)
      }),
      { numRuns: 40 },
    )
  })
  test('is the plain one where nothing is known to bend, and far in the tail too', () => {
    const plain: BentNormal = { mean: Float64Array.of(0), variance: Float64Array.of(0.09) }
    const straight = { ...plain, rises: Float64Array.of(0.3, 0.6, 0.9, 1.2) }
    for (const least of [-2, 0, 0.1, 0.95, 3, 30]) {
      expect(logExpectedExcess(plain, 0, least)).toBe(logExpectedImprovement(least, 0.3, 0))
      expect(logExpectedExcess(straight, 0, least)).toBeCloseTo(
        logExpectedImprovement(least, 0.3, 0),
        9,
      )
    }
    expect(
      logExpectedExcess({ ...plain, rises: Float64Array.of(0.3, 0.4, 0.4, 0.4) }, 0, 0.41),
    ).toBe(-Infinity)
  })
  test('of deviations twice as wide is where twice the luck leads', () => {
    const belief = bentBy(0.25, 0.01, (by) => Math.min(by, 0.6 + by / 10))
    const wide = widened(belief, 2)
    expect([...wide.variance]).toEqual([1])
    close(
      [1, 2, 3, 4, -1].map((luck) => above(wide, 0, luck)),
      [2, 4, 6, 8, -2].map((luck) => above(belief, 0, luck)),
    )
    expect(widened({ mean: belief.mean, variance: belief.variance }, 2).rises).toBeUndefined()
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
    at: ([slower]) => ({
      logRate: (c) =>
        Math.log(
          c.hidden === 'tried' ? 100 : Math.min(coresRate(c), deviceRate * Math.exp(-slower!)),
        ),
      sensitivities: (c) => [c.hidden === 'tried' ? 0 : -1],
    }),
  }
  const asked = (hidden: 'near' | 'far'): Problem => ({
    space: {
      parameters: [
        { name: 'hidden', category: 'server', kind: 'categorical', values: ['tried', hidden] },
      ],
      constraints: [],
    },
    objective: { kind: 'price-per-request' },
    pricePerHour: () => 1,
    priorLogRate: priorFactors.at([0]).logRate,
    priorFactors,
  })
  const tried: Observation = {
    configuration: { hidden: 'tried' },
    state: 'complete',
    rate: { value: 100, logSd: 0.02 },
  }
  const believed = (hidden: 'near' | 'far') =>
    fitSurrogate(asked(hidden), [tried], []).believe([{ hidden }]).rate!

  test('luck is worth no more than what the other one lets through', () => {
    const [near, far] = [believed('near'), believed('far')]
    expect(Math.sqrt(near.variance[0]!)).toBeGreaterThan(0.7)
    expect(Math.sqrt(far.variance[0]!)).toBeGreaterThan(0.7)
    expect(above(near, 0, 1)).toBeLessThan(0.2)
    expect(above(far, 0, 1)).toBeCloseTo(Math.sqrt(far.variance[0]!), 1)
  })
  test('neither the next trial nor all to come are expected to gain what it does not let through', () => {
    const gain = (hidden: 'near' | 'far') =>
      expectedGain(asked(hidden), [tried], [{ hidden }])!.share
    const regret = (hidden: 'near' | 'far') =>
      likeliestAnswer(asked(hidden), [tried], createRng(1))!.expectedRegret
    expect(gain('far')).toBeGreaterThan(0.05)
    expect(gain('near')).toBeLessThan(0.001)
    expect(regret('far')).toBeGreaterThan(0.1)
    expect(regret('near')).toBeLessThan(0.01)
  })
  test('what is foretold of it reaches further down than up', () => {
    const { predicted } = createSampler('gp').suggest(asked('near'), [tried], [], createRng(1))!
    expect(Math.log(predicted!.rate / predicted!.low)).toBeGreaterThan(
      4 * Math.log(predicted!.high / predicted!.rate),
    )
  })
})
