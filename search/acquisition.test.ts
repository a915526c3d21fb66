import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { logAcquisition, logMetWhereBetter } from './acquisition.ts'
import { cdf } from './normal.ts'
import type { Problem } from './types.ts'

const between = (min: number, max: number) => fc.double({ min, max, noNaN: true })

/** P(constraint ≤ 0) under the density ∝ (r - threshold)⁺ N(r), by the trapezoidal rule. */
function integrated(rate: [number, number], constraint: [number, number], covariance: number, threshold: number): number {
  let mass = 0
  let met = 0
  const [mean, variance] = rate
  const sd = Math.sqrt(variance)
  const steps = 3_000
  const from = Math.max(threshold, mean - 10 * sd)
  const to = Math.max(threshold + 12 * sd, mean + 10 * sd)
  const left = constraint[1] - covariance ** 2 / variance
  for (let i = 1; i < steps; i++) {
    const r = from + ((to - from) * i) / steps
    const density = (r - threshold) * Math.exp(-0.5 * ((r - mean) / sd) ** 2)
    mass += density
    met += density * cdf(-(constraint[0] + (covariance / variance) * (r - mean)) / Math.sqrt(left))
  }
  return met / mass
}

describe('logMetWhereBetter', () => {
  test('agrees with the integral', () => {
    fc.assert(
      fc.property(
        between(-1, 1),
        between(0.05, 1),
        between(-1, 1),
        between(0.05, 1),
        between(-0.95, 0.95),
        between(-1.5, 1.5),
        (r, rsd, u, usd, rho, away) => {
          const covariance = rho * rsd * usd
          const threshold = r + away * rsd
          const beliefs = {
            rate: { mean: Float64Array.of(r), variance: Float64Array.of(rsd ** 2) },
            constraint: { mean: Float64Array.of(u), variance: Float64Array.of(usd ** 2) },
            covariance: Float64Array.of(covariance),
            logServes: Float64Array.of(0),
          }
          const exact = integrated([r, rsd ** 2], [u, usd ** 2], covariance, threshold)
          expect(Math.abs(Math.exp(logMetWhereBetter(beliefs, 0, threshold)) - exact)).toBeLessThan(0.06)
        },
      ),
      { numRuns: 40, endOnFailure: true },
    )
  })
  test('stays finite where an improvement would be a miracle', () => {
    const beliefs = {
      rate: { mean: Float64Array.of(0), variance: Float64Array.of(1e-4) },
      constraint: { mean: Float64Array.of(-1), variance: Float64Array.of(0.01) },
      covariance: Float64Array.of(-5e-4),
      logServes: Float64Array.of(0),
    }
    for (const threshold of [0.05, 0.081, 0.5, 5]) expect(logMetWhereBetter(beliefs, 0, threshold)).toBeGreaterThan(-50)
  })
})

test('of equals, the cheaper, the likelier to serve and the likelier to meet the limit scores more', () => {
  const problem: Problem = {
    space: { parameters: [], constraints: [] },
    objective: { kind: 'price-per-request' },
    constraintLimit: 10,
    pricePerHour: () => 1,
  }
  const beliefs = {
    rate: { mean: new Float64Array(4), variance: new Float64Array(4).fill(0.1) },
    constraint: { mean: Float64Array.of(-0.1, -0.1, -0.1, 0.2), variance: new Float64Array(4).fill(0.1) },
    logServes: Float64Array.of(0, 0, Math.log(0.5), 0),
  }
  const [equal, cheap, doubtful, slow] = logAcquisition(problem, Float64Array.of(1, 0.5, 1, 1), beliefs, 0, {
    objective: 0.6,
    feasibility: 1,
  })
  expect(cheap).toBeGreaterThan(equal!)
  expect(doubtful).toBeLessThan(equal!)
  expect(slow).toBeLessThan(equal!)
})

describe('the score is ln of expected improvement times probability of feasibility', () => {
  const asBelieved = { objective: 1, feasibility: 1 }
  const base: Problem = { space: { parameters: [], constraints: [] }, objective: { kind: 'price-per-request' }, pricePerHour: () => 1 }
  const rate = { mean: Float64Array.of(4, 5, 5.5), variance: Float64Array.of(0.04, 0.09, 0.25) }
  const constraint = { mean: Float64Array.of(-0.2, 0.3, 0), variance: Float64Array.of(0.01, 0.16, 0.04) }
  const logServes = Float64Array.of(0, Math.log(0.9), Math.log(0.2))
  const prices = Float64Array.of(1, 2, 4)
  const phi = (z: number) => Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI)
  /** E max(0, best - Y), Y normal. */
  const improvement = (mean: number, sd: number, best: number) => {
    const z = (best - mean) / sd
    return (best - mean) * cdf(z) + sd * phi(z)
  }
  const perMillion = (i: number) => Math.log((prices[i]! / 3600) * 1e6)
  const met = (i: number, by = 1) => Math.exp(logServes[i]!) * cdf(-constraint.mean[i]! / (by * Math.sqrt(constraint.variance[i]!)))
  const scored = (
    change: Partial<Problem>,
    best: number,
    choice = asBelieved,
    beliefs: Partial<Parameters<typeof logAcquisition>[2]> = {},
  ) => [...logAcquisition({ ...base, ...change }, prices, { rate, constraint, logServes, ...beliefs }, best, choice)].map(Math.exp)
  const close = (values: readonly number[], digits = 12) => values.map((v) => expect.closeTo(v, digits))
  const each = (of: (i: number) => number) => close([0, 1, 2].map(of))

  test('for a price per request, each deviation at what it is asked at', () => {
    const best = 1.6
    const expected = (objective: number, feasibility: number) =>
      each((i) => improvement(perMillion(i) - rate.mean[i]!, objective * Math.sqrt(rate.variance[i]!), best) * met(i, feasibility))
    for (const [objective, feasibility] of [
      [1, 1],
      [0.6, 1],
      [1.5, 2],
    ] as const)
      expect(scored({ constraintLimit: 10 }, best, { objective, feasibility })).toEqual(expected(objective, feasibility))
  })

  test('without a limit, for what serves alone', () => {
    expect(scored({}, 1.6)).toEqual(
      each((i) => improvement(perMillion(i) - rate.mean[i]!, Math.sqrt(rate.variance[i]!), 1.6) * Math.exp(logServes[i]!)),
    )
  })

  test('for a price alone, the improvement that is known', () => {
    const objective = { kind: 'price' } as const
    expect(scored({ objective, constraintLimit: 10 }, Math.log(3))).toEqual(each((i) => Math.max(0, Math.log(3 / prices[i]!)) * met(i)))
  })

  test('for a rate or a latency within a price, nothing beyond it', () => {
    const rates = { kind: 'max-rate', maxPricePerHour: 2 } as const
    expect(scored({ objective: rates, constraintLimit: 10 }, -4.5)).toEqual([
      ...[0, 1].map((i) => expect.closeTo(improvement(-rate.mean[i]!, Math.sqrt(rate.variance[i]!), -4.5) * met(i), 12)),
      0,
    ])
    const latencies = { kind: 'min-latency', maxPricePerHour: 2 } as const
    expect(scored({ objective: latencies }, 0.1, { objective: 0.5, feasibility: 1 })).toEqual([
      ...[0, 1].map((i) => {
        const sd = 0.5 * Math.sqrt(constraint.variance[i]!)
        return expect.closeTo(improvement(constraint.mean[i]!, sd, 0.1) * Math.exp(logServes[i]!), 12)
      }),
      0,
    ])
  })

  test('for a demand, over whole replicas', () => {
    const demand = { kind: 'price-for-demand', demandRps: 400, headroom: 0.2 } as const
    const best = Math.log(9)
    /** The mean over ln rate of what ceil(500 / rate) replicas save, by the rectangle rule. */
    const integrated = (i: number) => {
      const sd = Math.sqrt(rate.variance[i]!)
      let sum = 0
      const step = 16 / 200_000
      for (let z = -8 + step / 2; z < 8; z += step) {
        const replicas = Math.max(1, Math.ceil(500 / Math.exp(rate.mean[i]! + sd * z)))
        sum += phi(z) * step * Math.max(0, best - Math.log(prices[i]! * replicas))
      }
      return sum
    }
    expect(scored({ objective: demand, constraintLimit: 10 }, best)).toEqual(
      close(
        [0, 1, 2].map((i) => integrated(i) * met(i)),
        4,
      ),
    )
  })

  test('for a demand of very many replicas, over their number as if it were real', () => {
    const demandRps = 1e6
    const demand = { kind: 'price-for-demand', demandRps, headroom: 0.5 } as const
    const best = Math.log(2e4)
    expect(scored({ objective: demand }, best)).toEqual(
      each(
        (i) =>
          improvement(Math.log(prices[i]! * 2 * demandRps) - rate.mean[i]!, Math.sqrt(rate.variance[i]!), best) * Math.exp(logServes[i]!),
      ),
    )
    // Where the seams meet: 64 and 65 replicas at two deviations above the mean differ by no more than the ceiling itself.
    const sd = 0.2
    const at = (replicas: number) =>
      scored({ objective: { ...demand, headroom: 0, demandRps: (replicas - 0.5) * Math.exp(4 + 2 * sd) } }, Math.log(90))[0]!
    expect(at(65) / at(64)).toBeGreaterThan(0.8)
    expect(at(65) / at(64)).toBeLessThan(1.25)
  })

  test('with nothing feasible yet, over twice the cost of what likeliest is', () => {
    // The first is likeliest: .98, .20, .10.
    const reference = perMillion(0) - rate.mean[0]! + Math.LN2
    expect(scored({ constraintLimit: 10 }, Infinity)).toEqual(
      each((i) => improvement(perMillion(i) - rate.mean[i]!, Math.sqrt(rate.variance[i]!), reference) * met(i)),
    )
  })

  test('whichever that is', () => {
    const lastServes = { logServes: Float64Array.of(Math.log(0.01), Math.log(0.02), 0) }
    const reference = perMillion(2) - rate.mean[2]! + Math.LN2
    expect(scored({}, Infinity, asBelieved, lastServes)).toEqual(
      each((i) => improvement(perMillion(i) - rate.mean[i]!, Math.sqrt(rate.variance[i]!), reference) * Math.exp(lastServes.logServes[i]!)),
    )
  })

  test('is the probability of feasibility where nothing was measured of what costs', () => {
    expect(scored({ constraintLimit: 10 }, Infinity, asBelieved, { rate: undefined })).toEqual(each((i) => met(i)))
    expect(scored({ constraintLimit: 10 }, 1, asBelieved, { rate: undefined })).toEqual(each((i) => met(i)))
  })

  describe('where rate and constraint go together', () => {
    const covariance = Float64Array.of(-0.01, 0.05, -0.06)
    const limited = { constraintLimit: 10 }

    test('the constraint counts where the rate improves', () => {
      const best = 1.6
      expect(scored(limited, best, asBelieved, { covariance })).toEqual(
        each((i) => {
          const beliefs = { rate, constraint, covariance, logServes }
          const gain = improvement(perMillion(i) - rate.mean[i]!, Math.sqrt(rate.variance[i]!), best)
          return gain * Math.exp(logServes[i]! + logMetWhereBetter(beliefs, i, perMillion(i) - best))
        }),
      )
    })

    test('what the constraint shares with the rate takes the deviation of the objective, the rest its own', () => {
      const best = 1.6
      const choice = { objective: 0.6, feasibility: 2 }
      const scaled = {
        rate: { mean: rate.mean, variance: rate.variance.map((v) => 0.36 * v) },
        constraint: {
          mean: constraint.mean,
          variance: constraint.variance.map((v, i) => {
            const shared = covariance[i]! ** 2 / rate.variance[i]!
            return 4 * (v - shared) + 0.36 * shared
          }),
        },
        covariance: covariance.map((v) => 0.36 * v),
        logServes,
      }
      expect(scored(limited, best, choice, { covariance })).toEqual(
        scored(limited, best, asBelieved, scaled).map((v) => expect.closeTo(v, 12)),
      )
    })

    test('but not for a demand, nor without a limit', () => {
      const demand = { kind: 'price-for-demand', demandRps: 400, headroom: 0.2 } as const
      for (const change of [{ ...limited, objective: demand }, {}])
        expect(scored(change, Math.log(9), asBelieved, { covariance })).toEqual(close(scored(change, Math.log(9))))
    })
  })
})
