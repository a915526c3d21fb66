import { describe, expect, test } from 'vitest'
import { cdf } from '../gp/normal.ts'
import { computeQuantileOffset, type SaturatingPredictive } from '../model/saturating-predictive.ts'
import type { Problem } from '../types.ts'
import { computeLogAcquisition } from './expected-improvement.ts'

test('a lower price, a higher P(serves) or a higher P(limit met) scores more, all else equal', () => {
  const problem: Problem = {
    space: { parameters: [], constraints: [] },
    objective: { kind: 'price-per-request' },
    constraintLimit: 10,
    pricePerHour: () => 1,
  }
  const predictions = {
    rate: { mean: new Float64Array(4), variance: new Float64Array(4).fill(0.1) },
    constraint: {
      mean: Float64Array.of(-0.1, -0.1, -0.1, 0.2),
      variance: new Float64Array(4).fill(0.1),
    },
    logServes: Float64Array.of(0, 0, Math.log(0.5), 0),
  }
  const [equal, cheap, uncertain, slow] = computeLogAcquisition(
    problem,
    [1, 0.5, 1, 1].map((pricePerHour) => ({ pricePerHour })),
    predictions,
    0,
  )
  expect(cheap).toBeGreaterThan(equal!)
  expect(uncertain).toBeLessThan(equal!)
  expect(slow).toBeLessThan(equal!)
})

describe('the score is ln of expected improvement times probability of feasibility', () => {
  const base: Problem = {
    space: { parameters: [], constraints: [] },
    objective: { kind: 'price-per-request' },
    pricePerHour: () => 1,
  }
  const rate = { mean: Float64Array.of(4, 5, 5.5), variance: Float64Array.of(0.04, 0.09, 0.25) }
  const constraint = {
    mean: Float64Array.of(-0.2, 0.3, 0),
    variance: Float64Array.of(0.01, 0.16, 0.04),
  }
  const logServes = Float64Array.of(0, Math.log(0.9), Math.log(0.2))
  const prices = [1, 2, 4]
  const phi = (z: number) => Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI)
  /** E max(0, best - Y), Y normal. */
  const improvement = (mean: number, sd: number, best: number) => {
    const z = (best - mean) / sd
    return (best - mean) * cdf(z) + sd * phi(z)
  }
  const perMillion = (i: number) => Math.log((prices[i]! / 3600) * 1e6)
  const met = (i: number) =>
    Math.exp(logServes[i]!) * cdf(-constraint.mean[i]! / Math.sqrt(constraint.variance[i]!))
  const scored = (
    change: Partial<Problem>,
    best: number,
    predictions: Partial<Parameters<typeof computeLogAcquisition>[2]> = {},
  ) =>
    [
      ...computeLogAcquisition(
        { ...base, ...change },
        prices.map((pricePerHour) => ({ pricePerHour })),
        { rate, constraint, logServes, ...predictions },
        best,
      ),
    ].map(Math.exp)
  const close = (values: readonly number[], digits = 12) =>
    values.map((v) => expect.closeTo(v, digits))
  const each = (of: (i: number) => number) => close([0, 1, 2].map(of))

  test('for a price per request', () => {
    const best = 1.6
    expect(scored({ constraintLimit: 10 }, best)).toEqual(
      each(
        (i) =>
          improvement(perMillion(i) - rate.mean[i]!, Math.sqrt(rate.variance[i]!), best) * met(i),
      ),
    )
  })

  test('without a limit, with P(serves) alone', () => {
    expect(scored({}, 1.6)).toEqual(
      each(
        (i) =>
          improvement(perMillion(i) - rate.mean[i]!, Math.sqrt(rate.variance[i]!), 1.6) *
          Math.exp(logServes[i]!),
      ),
    )
  })

  test('for a price, the exact improvement', () => {
    const objective = { kind: 'price' } as const
    expect(scored({ objective, constraintLimit: 10 }, Math.log(3))).toEqual(
      each((i) => Math.max(0, Math.log(3 / prices[i]!)) * met(i)),
    )
  })

  test('for a rate or a latency within a price bound, zero above it', () => {
    const rates = { kind: 'max-rate', maxPricePerHour: 2 } as const
    expect(scored({ objective: rates, constraintLimit: 10 }, -4.5)).toEqual([
      ...[0, 1].map((i) =>
        expect.closeTo(
          improvement(-rate.mean[i]!, Math.sqrt(rate.variance[i]!), -4.5) * met(i),
          12,
        ),
      ),
      0,
    ])
    const latencies = { kind: 'min-latency', maxPricePerHour: 2 } as const
    expect(scored({ objective: latencies }, 0.1)).toEqual([
      ...[0, 1].map((i) => {
        const sd = Math.sqrt(constraint.variance[i]!)
        return expect.closeTo(
          improvement(constraint.mean[i]!, sd, 0.1) * Math.exp(logServes[i]!),
          12,
        )
      }),
      0,
    ])
  })

  const normal: SaturatingPredictive = rate
  // The first saturates at one standard deviation, the last gradually.
  const saturating: SaturatingPredictive = {
    ...rate,
    upperOffsets: Float64Array.of(0.2, 0.2, 0.2, 0.2, 0.3, 0.6, 0.9, 1.2, 0.4, 0.6, 0.7, 0.75),
  }
  test.each([
    ['normal', normal],
    ['saturating', saturating],
  ])('for a demand, over whole replicas, %s', (_, prediction) => {
    const demand = { kind: 'price-for-demand', demandRps: 400, headroom: 0.2 } as const
    const best = Math.log(9)
    /** The mean over ln rate of what ceil(500 / rate) replicas save, by the rectangle rule. */
    const integrated = (i: number) => {
      let sum = 0
      const step = 16 / 200_000
      for (let z = -8 + step / 2; z < 8; z += step) {
        const replicas = Math.max(
          1,
          Math.ceil(500 / Math.exp(rate.mean[i]! + computeQuantileOffset(prediction, i, z))),
        )
        sum += phi(z) * step * Math.max(0, best - Math.log(prices[i]! * replicas))
      }
      return sum
    }
    expect(scored({ objective: demand, constraintLimit: 10 }, best, { rate: prediction })).toEqual(
      close(
        [0, 1, 2].map((i) => integrated(i) * met(i)),
        4,
      ),
    )
  })

  test('for a demand of very many replicas, over a continuous number of them', () => {
    const demandRps = 1e6
    const demand = { kind: 'price-for-demand', demandRps, headroom: 0.5 } as const
    const best = Math.log(2e4)
    expect(scored({ objective: demand }, best)).toEqual(
      each(
        (i) =>
          improvement(
            Math.log(prices[i]! * 2 * demandRps) - rate.mean[i]!,
            Math.sqrt(rate.variance[i]!),
            best,
          ) * Math.exp(logServes[i]!),
      ),
    )
    // Where the seams meet: 64 and 65 replicas at two deviations above the mean differ by no more
    // than the ceiling itself.
    const sd = 0.2
    const at = (replicas: number) =>
      scored(
        {
          objective: { ...demand, headroom: 0, demandRps: (replicas - 0.5) * Math.exp(4 + 2 * sd) },
        },
        Math.log(90),
      )[0]!
    expect(at(65) / at(64)).toBeGreaterThan(0.8)
    expect(at(65) / at(64)).toBeLessThan(1.25)
  })

  test('without an incumbent, over twice the cost of the most probably feasible one', () => {
    // The first is likeliest: .98, .20, .10.
    const reference = perMillion(0) - rate.mean[0]! + Math.LN2
    expect(scored({ constraintLimit: 10 }, Infinity)).toEqual(
      each(
        (i) =>
          improvement(perMillion(i) - rate.mean[i]!, Math.sqrt(rate.variance[i]!), reference) *
          met(i),
      ),
    )
  })

  test('whichever that is', () => {
    const lastServes = { logServes: Float64Array.of(Math.log(0.01), Math.log(0.02), 0) }
    const reference = perMillion(2) - rate.mean[2]! + Math.LN2
    expect(scored({}, Infinity, lastServes)).toEqual(
      each(
        (i) =>
          improvement(perMillion(i) - rate.mean[i]!, Math.sqrt(rate.variance[i]!), reference) *
          Math.exp(lastServes.logServes[i]!),
      ),
    )
  })

  test('is P(feasible) where the quantity of the cost was never measured', () => {
    expect(scored({ constraintLimit: 10 }, Infinity, { rate: undefined })).toEqual(
      each((i) => met(i)),
    )
    expect(scored({ constraintLimit: 10 }, 1, { rate: undefined })).toEqual(each((i) => met(i)))
  })
})
