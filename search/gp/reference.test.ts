/**
 * The process against matrices written down in full: every kernel entry by its formula, every solve
 * by ml-matrix.
 */
import { determinant, inverse, Matrix } from 'ml-matrix'
import { describe, expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import { createDefaultPriors, fitGp } from './fit.ts'
import { createCrossKernel, matern52, matern52Weight } from './kernel.ts'
import { computeGeometry, computeLogLikelihood, conditionGp } from './regression.ts'
import type { GpData, GpSpec, Hyperparameters } from './types.ts'

const logMarginalLikelihood = (spec: GpSpec, data: GpData, at: Float64Array) =>
  computeLogLikelihood(computeGeometry(spec, data), at, data.knownNoise)

const rng = createRng('gp reference')
/** Some zeros among them, as names have. */
const rowsOf = (count: number, d = 5) =>
  Array.from({ length: count }, () =>
    Float64Array.from({ length: d }, (_, c) => (c === 2 && rng.next() < 0.5 ? 0 : rng.normal())),
  )
const n = 9
const rows = rowsOf(n)
const Z = rowsOf(7)
const y = Float64Array.from({ length: n }, () => rng.normal())
const knownNoise = y.map((_, i) => (i % 3 === 0 ? 0.02 * (i + 1) : Number.NaN))
const data: GpData = { X: new Matrix(rows), y, knownNoise }
const h: Hyperparameters = {
  signalVariance: 0.7,
  lengthscales: Float64Array.of(0.8, 1.7),
  noiseVariance: 0.05,
}
const theta = Float64Array.of(Math.log(0.7), Math.log(0.8), Math.log(1.7), Math.log(0.05))
const shapes: Readonly<Record<string, GpSpec>> = {
  'a trend and groups': {
    groups: [0, 1, 1, -1, -1],
    slopeMean: Float64Array.of(0.2, 0, -0.3, 0.5, 1),
    slopeVariance: Float64Array.of(0.3, 0, 0.1, 2, 0.5),
  },
}

describe.each(Object.entries(shapes))('%s', (_, spec) => {
  const kernel = (x: Float64Array, z: Float64Array, squaredScale = 1) => {
    let squared = 0
    let linear = 0
    for (const [c, g] of spec.groups.entries()) {
      if (g >= 0) squared += ((x[c]! - z[c]!) / h.lengthscales[g]!) ** 2
      linear += spec.slopeVariance[c]! * x[c]! * z[c]!
    }
    const r = Math.sqrt(5 * squared * squaredScale)
    return h.signalVariance * (1 + r + r ** 2 / 3) * Math.exp(-r) + linear
  }
  const mean = (x: Float64Array) => x.reduce((sum, v, c) => sum + v * spec.slopeMean[c]!, 0)
  const noise = (i: number) => (Number.isNaN(knownNoise[i]!) ? h.noiseVariance : knownNoise[i]!)
  const of = (which: readonly number[]) => {
    const at = which.map((i) => rows[i]!)
    const K = new Matrix(
      at.map((x, a) => at.map((z, b) => kernel(x, z) + (a === b ? noise(which[a]!) : 0))),
    )
    const residual = which.map((i) => y[i]! - mean(rows[i]!))
    const Kinv = inverse(K)
    const alpha = Kinv.mmul(Matrix.columnVector(residual))
    const k = (z: Float64Array) => Matrix.columnVector(at.map((x) => kernel(x, z)))
    return {
      mean: (z: Float64Array) => mean(z) + k(z).transpose().mmul(alpha).get(0, 0),
      covariance: (a: Float64Array, b: Float64Array) =>
        kernel(a, b) - k(a).transpose().mmul(Kinv).mmul(k(b)).get(0, 0),
      logLikelihood:
        -0.5 * Matrix.rowVector(residual).mmul(alpha).get(0, 0) -
        0.5 * Math.log(determinant(K)) -
        0.5 * which.length * Math.log(2 * Math.PI),
    }
  }
  const everything = of(rows.map((_, i) => i))
  const gp = conditionGp(spec, data, h)
  const close = (value: number) => expect.closeTo(value, 8)

  test('likelihood', () => {
    expect(gp.logLikelihood).toBeCloseTo(everything.logLikelihood, 8)
    expect(logMarginalLikelihood(spec, data, theta)!.value).toBeCloseTo(everything.logLikelihood, 8)
    expect(gp.hyperparameters).toEqual(h)
  })
  test('its gradient, by differences', () => {
    const { gradient } = logMarginalLikelihood(spec, data, theta)!
    const value = (i: number, step: number) =>
      logMarginalLikelihood(spec, data, theta.with(i, theta[i]! + step))!.value
    expect([...gradient]).toEqual(
      [0, 1, 2, 3].map((i) => expect.closeTo((value(i, 1e-5) - value(i, -1e-5)) / 2e-5, 5)),
    )
  })
  test('marginals, for any number of rows', () => {
    for (const count of [7, 4, 1, 0]) {
      const given = Z.slice(0, count)
      const { mean, variance } = gp.predict(given)
      expect([...mean]).toEqual(given.map((z) => close(everything.mean(z))))
      expect([...variance]).toEqual(given.map((z) => close(everything.covariance(z, z))))
    }
  })
  test('a joint distribution', () => {
    const joint = gp.predictJoint(Z)
    expect([...joint.mean]).toEqual(Z.map((z) => close(everything.mean(z))))
    expect([...joint.covariance]).toEqual(
      Z.flatMap((a) => Z.map((b) => close(everything.covariance(a, b)))),
    )
  })
  test('leave-one-out predictions equal refits without the observation', () => {
    const { mean, variance } = gp.predictLeaveOneOut()
    for (const [i, x] of rows.entries()) {
      const others = of(rows.flatMap((_, j) => (i === j ? [] : [j])))
      expect(mean[i]).toBeCloseTo(others.mean(x), 8)
      expect(variance[i]).toBeCloseTo(others.covariance(x, x), 8)
    }
  })
  test('the cross kernel', () => {
    const cross = createCrossKernel(spec, h, rows)
    const out = new Float64Array(3)
    for (const z of Z) {
      cross.writeRow(z, out, Int32Array.of(4, 0, 8))
      expect([...out]).toEqual([4, 0, 8].map((j) => close(kernel(rows[j]!, z))))
      expect(cross.computeVariance(z)).toBeCloseTo(kernel(z, z), 8)
    }
    cross.writeRow(rows[4]!, out, Int32Array.of(4, 4, 4))
    expect(out[0]).toBeCloseTo(kernel(rows[4]!, rows[4]!), 8)
  })
})

describe('approximate', () => {
  const spec = shapes['a trend and groups']!
  const many = rowsOf(80)
  const targets = Float64Array.from({ length: 80 }, () => rng.normal())
  const at = (which: readonly number[]): GpData => ({
    X: new Matrix(which.map((i) => many[i]!)),
    y: Float64Array.from(which, (i) => targets[i]!),
  })
  const all = many.map((_, i) => i)

  test('uses 32 evenly spaced observations', () => {
    const some = Array.from({ length: 32 }, (_, i) => Math.floor((i * 80) / 32))
    const expected = conditionGp(spec, at(some), h).predict(Z)
    const { mean, variance } = conditionGp(spec, at(all), h).predictFromSubset(Z)
    expect([...mean, ...variance]).toEqual(
      [...expected.mean, ...expected.variance].map((v) => expect.closeTo(v, 8)),
    )
  })
  test('is exactly, up to 64', () => {
    const gp = conditionGp(spec, at(all.slice(0, 64)), h)
    expect(gp.predictFromSubset(Z)).toEqual(gp.predict(Z))
  })
})

test('the Matérn kernel and its slope', () => {
  expect(matern52(0)).toBe(1)
  // r = 1: (1 + √5 + 5/3) exp(-√5).
  expect(matern52(1)).toBeCloseTo(0.52399411, 8)
  expect(matern52(0.25)).toBeCloseTo(
    (1 + Math.sqrt(5) / 2 + 5 / 12) * Math.exp(-Math.sqrt(5) / 2),
    12,
  )
  for (const squared of [0.01, 0.5, 3])
    expect(matern52Weight(squared)).toBeCloseTo(
      (-2 * (matern52(squared + 1e-6) - matern52(squared - 1e-6))) / 2e-6,
      6,
    )
})

describe('failures', () => {
  const spec = shapes['a trend and groups']!
  test('a kernel matrix that is not positive definite is computed with noise variance 1', () => {
    const broken = conditionGp(spec, { ...data, knownNoise: y.map(() => -3) }, h)
    const { mean } = conditionGp(spec, { X: data.X, y }, { ...h, noiseVariance: 1 }).predict(Z)
    expect([...broken.predict(Z).mean]).toEqual([...mean].map((v) => expect.closeTo(v, 10)))
    expect(
      logMarginalLikelihood(spec, { ...data, knownNoise: y.map(() => -3) }, theta),
    ).toBeUndefined()
  })
  test('at all is reported', () => {
    const X = data.X.clone()
    X.set(2, 1, Number.NaN)
    expect(() => conditionGp(spec, { X, y }, h)).toThrow(/kernel matrix of 9 observations/)
  })
  test('a fit falls back to the modes of the priors', () => {
    const one: GpSpec = {
      groups: [0],
      slopeMean: new Float64Array(1),
      slopeVariance: new Float64Array(1),
    }
    const { hyperparameters, warning } = fitGp(one, {
      X: new Matrix([[0], [1]]),
      y: Float64Array.of(1e200, -1e200),
    })
    expect(warning).toMatch(/2 observations failed/)
    const { signalVariance, lengthscales, noiseVariance } = hyperparameters
    expect([signalVariance, ...lengthscales]).toEqual(
      [Math.exp(-1), Math.exp(Math.SQRT2 - 3)].map((v) => expect.closeTo(v, 12)),
    )
    expect(noiseVariance).toBe(1)
  })
})

describe('a fit', () => {
  const spec: GpSpec = {
    groups: [0, 1],
    slopeMean: new Float64Array(2),
    slopeVariance: new Float64Array(2),
  }
  const smooth = (count: number, noise = 0): GpData => {
    const x = Array.from({ length: count }, () => [rng.next(), rng.next()])
    return {
      X: new Matrix(x),
      y: Float64Array.from(x, ([a, b]) => Math.sin(5 * a!) + 0.3 * b! + noise * rng.normal()),
    }
  }
  test('has the published priors, with longer lengthscales in more dimensions', () => {
    expect(createDefaultPriors(1)).toEqual({
      signal: [-1, 1],
      lengthscale: [Math.SQRT2, Math.sqrt(3)],
      noise: [-4, 1],
    })
    expect(createDefaultPriors(9).lengthscale[0]).toBeCloseTo(Math.SQRT2 + Math.log(3), 12)
  })
  test('of many observations fits 48 of them, and conditions on all', () => {
    const all = smooth(100, 0.05)
    const which = Array.from({ length: 48 }, (_, i) => Math.floor((i * 100) / 48))
    const known = Float64Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? 0.01 : Number.NaN))
    const some = { X: all.X.subMatrixRow(which), y: Float64Array.from(which, (i) => all.y[i]!) }
    for (const more of [undefined, known]) {
      const few = fitGp(spec, {
        ...some,
        ...(more ? { knownNoise: Float64Array.from(which, (i) => more[i]!) } : {}),
      })
      const gp = fitGp(spec, { ...all, ...(more ? { knownNoise: more } : {}) })
      expect(gp.hyperparameters).toEqual(few.hyperparameters)
      expect(gp.logLikelihood).toBeCloseTo(
        conditionGp(spec, { ...all, ...(more ? { knownNoise: more } : {}) }, gp.hyperparameters)
          .logLikelihood,
        9,
      )
    }
  })
  test('has a noise variance of at least 1e-4', () => {
    expect(fitGp(spec, smooth(25)).hyperparameters.noiseVariance).toBeGreaterThanOrEqual(
      1e-4 * (1 - 1e-9),
    )
  })
  test('recovers a simulated noise', () => {
    expect(Math.sqrt(fitGp(spec, smooth(48, 0.3)).hyperparameters.noiseVariance)).toBeGreaterThan(
      0.2,
    )
  })
  test('starts from given hyperparameters, and reaches a larger posterior', () => {
    const all = smooth(20, 0.05)
    const start = { signalVariance: 3, lengthscales: Float64Array.of(2, 0.1), noiseVariance: 0.5 }
    const from = fitGp(spec, all, { from: start })
    const fresh = fitGp(spec, all)
    expect(from.logLikelihood).toBeGreaterThan(conditionGp(spec, all, start).logLikelihood + 1)
    expect(Math.abs(from.logLikelihood - fresh.logLikelihood)).toBeLessThan(1)
  })
})
