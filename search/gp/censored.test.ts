import { Matrix } from 'ml-matrix'
import { describe, expect, test } from 'vitest'
import { fitCensoredGp } from './censored.ts'
import { cdf } from './normal.ts'
import { conditionGp } from './regression.ts'
import type { TrainingPoint } from './training-points.ts'
import type { GpSpec } from './types.ts'

const spec: GpSpec = {
  groups: [0, -1],
  slopeMean: Float64Array.of(0, 0),
  slopeVariance: Float64Array.of(0, 4),
}
const at = (x: number) => Float64Array.of(x, 1)
const exact = (x: number, target: number): TrainingPoint => ({
  configuration: { x },
  target,
  noise: 0.01,
})
const least = (x: number, target: number): TrainingPoint => ({
  configuration: { x },
  target,
  noise: 0.04,
  bound: 'lower',
})
const most = (x: number, target: number): TrainingPoint => ({
  configuration: { x },
  target,
  noise: 0.04,
  bound: 'upper',
})
const priors = { signal: [0, 1], lengthscale: [0, 1], noise: [-4, 1] } as const
const fit = (measurements: readonly TrainingPoint[]) =>
  fitCensoredGp(
    spec,
    measurements.map((r) => at(Number(r.configuration.x))),
    measurements,
    priors,
  )

/**
 * Evidence and posterior mean at two points by the trapezoidal rule: prior of the process times Φ
 * of each measurement.
 */
function integrated(
  hyperparameters: Parameters<typeof conditionGp>[2],
  measurements: readonly [TrainingPoint, TrainingPoint],
): { logEvidence: number; mean: number } {
  const X = new Matrix(measurements.map((r) => at(Number(r.configuration.x))))
  const nothing = { X, y: Float64Array.of(0, 0), knownNoise: Float64Array.of(1e9, 1e9) }
  const { covariance: k } = conditionGp(spec, nothing, hyperparameters).predictJoint(
    measurements.map((r) => at(Number(r.configuration.x))),
  )
  const [a, b, c] = [k[0]!, k[1]!, k[3]!]
  const determinant = a * c - b * b
  const step = 0.1
  let mass = 0
  let first = 0
  for (let f = -15; f <= 15; f += step)
    for (let g = -15; g <= 15; g += step) {
      const prior =
        Math.exp((-0.5 * (c * f * f - 2 * b * f * g + a * g * g)) / determinant) /
        (2 * Math.PI * Math.sqrt(determinant))
      const likely = [f, g].reduce((product, value, i) => {
        const r = measurements[i]!
        return (
          product * cdf(((r.bound === 'lower' ? 1 : -1) * (value - r.target)) / Math.sqrt(r.noise))
        )
      }, 1)
      mass += prior * likely * step * step
      first += f * prior * likely * step * step
    }
  return { logEvidence: Math.log(mass), mean: first / mass }
}

describe('fitCensoredGp', () => {
  test('evidence and posterior agree with the integral', () => {
    for (const measurements of [
      [least(0, 1), most(1, -0.5)],
      [least(0, 1), least(0.3, 2)],
      [most(0, 0), least(1, 0)],
    ] as const) {
      const { gp } = fit(measurements)
      const expected = integrated(gp.hyperparameters, measurements)
      expect(gp.logLikelihood).toBeCloseTo(expected.logEvidence, 1)
      expect(gp.predict([at(0)]).mean[0]).toBeCloseTo(expected.mean, 1)
    }
  })
  test('a bound that the other points satisfy anyway carries almost no information', () => {
    const others = [exact(0, 0), exact(0.5, 0.1), exact(1, 0)]
    const { sites } = fit([...others, least(0.25, -5)])
    expect(sites[3]!.noise).toBeGreaterThan(100)
  })
  test('a bound moves the posterior where the other points would violate it', () => {
    const { gp } = fit([exact(0, 0), exact(0.5, 0.1), exact(1, 0), least(0.25, 2)])
    expect(gp.predict([at(0.25)]).mean[0]).toBeGreaterThan(1.5)
    const below = fit([exact(0, 0), exact(0.5, 0.1), exact(1, 0), most(0.25, -2)])
    expect(below.gp.predict([at(0.25)]).mean[0]).toBeLessThan(-1.5)
  })
  test('bounds leave a wide posterior beyond them', () => {
    const sure = fit([exact(0, 0), exact(1, 1)]).gp.predict([at(1)]).variance[0]!
    const open = fit([exact(0, 0), least(1, 1)]).gp.predict([at(1)]).variance[0]!
    expect(open).toBeGreaterThan(4 * sure)
  })
})
