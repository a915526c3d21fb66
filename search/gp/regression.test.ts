import { Matrix } from 'ml-matrix'
import { describe, expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import { createDefaultPriors, fitGp } from './fit.ts'
import reference from './fixtures/gp-bo.json' with { type: 'json' }
import { computeGeometry, computeLogLikelihood, conditionGp } from './regression.ts'
import type { GpData, GpSpec } from './types.ts'

const X = new Matrix(reference.X)
const Z = reference.Z.map((z) => Float64Array.from(z))
const y = Float64Array.from(reference.y)
const plain: GpSpec = {
  groups: [0, 1, 2, 3],
  slopeMean: new Float64Array(4),
  slopeVariance: new Float64Array(4),
}
const hyperparameters = {
  signalVariance: reference.outputscale,
  lengthscales: Float64Array.from(reference.lengthscales),
  noiseVariance: reference.noise_var,
}
const theta = Float64Array.from(
  [reference.outputscale, ...reference.lengthscales, reference.noise_var].map(Math.log),
)
const logMarginalLikelihood = (spec: GpSpec, data: GpData, at: Float64Array) =>
  computeLogLikelihood(computeGeometry(spec, data), at, data.knownNoise)
const relative = (a: number, b: number) => Math.abs(a - b) / Math.max(1e-3, Math.abs(b))

describe('agrees with scikit-learn', () => {
  const expected = reference.matern52
  test('log marginal likelihood and gradient', () => {
    const fit = logMarginalLikelihood(plain, { X, y }, theta)!
    expect(relative(fit.value, expected.lml)).toBeLessThan(1e-6)
    for (const [i, g] of expected.grad_wrt_log_params.values.entries())
      expect(relative(fit.gradient[i]!, g)).toBeLessThan(1e-6)
  })
  test('posterior mean, standard deviation and covariance', () => {
    const gp = conditionGp(plain, { X, y }, hyperparameters)
    const { mean, variance } = gp.predict(Z)
    const joint = gp.predictJoint(Z)
    for (let i = 0; i < Z.length; i++) {
      expect(relative(mean[i]!, expected.mean[i]!)).toBeLessThan(1e-6)
      expect(relative(Math.sqrt(variance[i]!), expected.latent_std[i]!)).toBeLessThan(1e-6)
      expect(relative(joint.mean[i]!, expected.mean[i]!)).toBeLessThan(1e-6)
      for (let j = 0; j < Z.length; j++)
        expect(
          relative(joint.covariance[i * Z.length + j]!, expected.latent_cov[i]![j]!),
        ).toBeLessThan(1e-6)
    }
  })
})

test('the gradient matches finite differences with a trend, shared lengthscales and known noise', () => {
  const spec: GpSpec = {
    groups: [0, 1, 1, -1],
    slopeMean: Float64Array.from([0.2, 0, 0, 0.5]),
    slopeVariance: Float64Array.from([0.3, 0, 0.1, 2]),
  }
  const knownNoise = Float64Array.from(reference.y, (_, i) => (i % 3 === 0 ? 0.01 : Number.NaN))
  const at = Float64Array.from([0.1, -0.5, 0.3, -3])
  const { gradient } = logMarginalLikelihood(spec, { X, y, knownNoise }, at)!
  for (let i = 0; i < at.length; i++) {
    const value = (step: number) =>
      logMarginalLikelihood(
        spec,
        { X, y, knownNoise },
        at.map((t, j) => (i === j ? t + step : t)),
      )!.value
    expect(gradient[i]).toBeCloseTo((value(1e-5) - value(-1e-5)) / 2e-5, 5)
  }
})

test('the trend equals explicit Bayesian linear regression when the Matérn part vanishes', () => {
  const slopeVariance = Float64Array.from([1, 2, 0.5, 1])
  const slopeMean = Float64Array.from([0.1, -0.2, 0, 0.3])
  const spec: GpSpec = { groups: [0, 0, 0, 0], slopeMean, slopeVariance }
  const noiseVariance = 0.05
  const gp = conditionGp(
    spec,
    { X, y },
    { signalVariance: 1e-14, lengthscales: Float64Array.of(1), noiseVariance },
  )
  const precision = X.transpose()
    .mmul(X)
    .div(noiseVariance)
    .add(Matrix.diag(Array.from(slopeVariance, (v) => 1 / v)))
  const evidence = X.transpose().mmul(Matrix.columnVector(y)).div(noiseVariance)
  evidence.add(Matrix.columnVector(slopeMean.map((b, c) => b / slopeVariance[c]!)))
  const slopes = precision.clone()
  const solved = solve(slopes, evidence)
  const expected = new Matrix(Z).mmul(solved).to1DArray()
  const { mean } = gp.predict(Z)
  for (const [i, value] of expected.entries()) expect(mean[i]).toBeCloseTo(value, 8)
})

function solve(a: Matrix, b: Matrix): Matrix {
  const n = a.rows
  const m = Matrix.zeros(n, n + 1)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) m.set(i, j, a.get(i, j))
    m.set(i, n, b.get(i, 0))
  }
  for (let i = 0; i < n; i++)
    for (let k = 0; k < n; k++) {
      if (k === i) continue
      const f = m.get(k, i) / m.get(i, i)
      for (let j = i; j <= n; j++) m.set(k, j, m.get(k, j) - f * m.get(i, j))
    }
  return Matrix.columnVector(Array.from({ length: n }, (_, i) => m.get(i, n) / m.get(i, i)))
}

describe('fitting', () => {
  const spec = (d: number): GpSpec => ({
    groups: Array.from({ length: d }, (_, i) => i),
    slopeMean: new Float64Array(d),
    slopeVariance: new Float64Array(d),
  })
  test('ends at a stationary point of the posterior', () => {
    const gp = fitGp(plain, { X, y })
    const { signalVariance, lengthscales, noiseVariance } = gp.hyperparameters
    const at = Float64Array.from([signalVariance, ...lengthscales, noiseVariance].map(Math.log))
    const { gradient } = logMarginalLikelihood(plain, { X, y }, at)!
    const priors = createDefaultPriors(4)
    for (const [i, t] of at.entries()) {
      const [mu, sigma] = i === 0 ? priors.signal : i === 5 ? priors.noise : priors.lengthscale
      expect(gradient[i]! - 1 - (t - mu) / sigma ** 2).toBeCloseTo(0, 2)
    }
  })
  test.each([
    ['one point', [[0.3, 0.4]], [1]],
    [
      'duplicates',
      [
        [0.3, 0.4],
        [0.3, 0.4],
        [0.3, 0.4],
        [0.9, 0.1],
      ],
      [1, 1.02, 0.98, 3],
    ],
    [
      'constant targets',
      [
        [0, 0],
        [0.5, 0.5],
        [1, 1],
      ],
      [2, 2, 2],
    ],
    [
      'targets of 1e9',
      [
        [0, 0],
        [0.5, 0.5],
        [1, 1],
      ],
      [1e9, -1e9, 1e9],
    ],
  ])('is safe for %s', (_, x, targets) => {
    const gp = fitGp(spec(2), { X: new Matrix(x), y: Float64Array.from(targets) })
    const { mean, variance } = gp.predict([[0.2, 0.7], ...x].map((z) => Float64Array.from(z)))
    for (const v of [...mean, ...variance]) expect(v).toSatisfy(Number.isFinite)
  })
  test('is safe for 200 points', () => {
    const rng = createRng(1)
    const x = Array.from({ length: 200 }, () => [rng.next(), rng.next()])
    const targets = Float64Array.from(x, ([a, b]) => Math.sin(6 * a!) + b!)
    const gp = fitGp(spec(2), { X: new Matrix(x), y: targets })
    const { mean } = gp.predict([Float64Array.of(0.5, 0.5)])
    expect(mean[0]).toBeCloseTo(Math.sin(3) + 0.5, 1)
  })
  test('falls back and says so when the likelihood cannot be computed', () => {
    const gp = fitGp(spec(1), { X: new Matrix([[0], [1]]), y: Float64Array.of(1e200, -1e200) })
    expect(gp.warning).toMatch(/failed/)
  })
})
