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
