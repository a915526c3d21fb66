/**
 * Gaussian process regression with a Matérn-5/2 kernel on grouped lengthscales plus a Bayesian linear trend.
 *
 *   symbol    meaning                                                        shape
 *   n         observations
 *   m         points to predict
 *   d         columns of the design matrix
 *   G         groups of columns, one lengthscale each
 *   X         design matrix, rows are encoded configurations                 n×d  (Matrix)
 *   Z         points to predict                                              m×d  (Matrix)
 *   y         targets                                                        n
 *   s²        signal variance of the Matérn part
 *   ℓ         lengthscales                                                   G
 *   σ²        noise variance, one for all observations whose noise is unknown
 *   τ         noise variances that are known (NaN where unknown)             n
 *   b0, v     prior mean and variance of the trend's slope on each column    d
 *   θ         ln of [s², ℓ…, σ²]                                             G+2
 *   K         s² M(r) + X diag(v) Xᵀ + noise                                 n×n
 *   L         Cholesky factor, K = L Lᵀ                                      n×n
 *   α         K⁻¹ (y - X b0)                                                 n
 *
 *   r² = Σ_g |x_g - x'_g|² / ℓ_g²,   M(r) = (1 + √5 r + 5 r²/3) exp(-√5 r)
 *
 * The trend is integrated out (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, §2.7): slopes b ~ N(b0, diag v) give the mean
 * X b0 and the kernel X diag(v) Xᵀ. A column of ones with a wide v is an unknown offset; a given prior mean as a column is one whose scale is learned.
 */
import type { Matrix } from 'ml-matrix'
import { type Evaluation, minimise } from './lbfgs.ts'
import { backwardSolve, cholesky, forwardSolve, inverseFromFactor } from './linalg.ts'
import { logNormalLogPdf } from './normal.ts'

export type KernelName = 'matern52' | 'matern32' | 'rbf'

/** What the columns mean to the model. */
export interface GpShape {
  /** Column → group, or -1 for a column of the trend alone. */
  readonly groups: readonly number[]
  /** b0, one a column. */
  readonly slopeMean: Float64Array
  /** v, one a column; 0 keeps a column out of the trend. */
  readonly slopeVariance: Float64Array
  readonly kernel?: KernelName
}

export interface Hyperparameters {
  readonly signalVariance: number
  readonly lengthscales: Float64Array
  readonly noiseVariance: number
}

/** LogNormal(mu, sigma) priors. */
export interface HyperPriors {
  readonly signal: readonly [mu: number, sigma: number]
  readonly lengthscale: readonly [mu: number, sigma: number]
  readonly noise: readonly [mu: number, sigma: number]
}

/**
 * Lengthscales LogNormal(√2 + ln(G)/2, √3), scaled with the dimension (Hvarfner, Hellsten and Nardi, 'Vanilla Bayesian optimization performs great in
 * high dimensions', ICML 2024, §4), noise LogNormal(-4, 1), signal LogNormal(-1, 1), for targets of about unit
 * variance of which the trend takes a part.
 */
export const defaultPriors = (groups: number): HyperPriors => ({
  signal: [-1, 1],
  lengthscale: [Math.SQRT2 + Math.log(groups) / 2, Math.sqrt(3)],
  noise: [-4, 1],
})

export const NOISE_FLOOR = 1e-4

export interface GpData {
  /** n×d. */
  readonly X: Matrix
  readonly y: Float64Array
  /** τ. */
  readonly knownNoise?: Float64Array
}

export interface Gp {
  readonly hyperparameters: Hyperparameters
  /** ln p(y | X, θ). */
  readonly logLikelihood: number
  /** ln p(y | X, θ) p(θ) at the fitted θ; for comparing models of the same data. -Infinity where θ was given or the fit fell back. */
  readonly logPosterior: number
  /** Marginal mean and variance of the noise-free function at the rows of Z (m×d). */
  predict(Z: Matrix): { mean: Float64Array; variance: Float64Array }
  /** Mean (m) and covariance (m×m, row-major) of the noise-free function at the rows of Z. */
  joint(Z: Matrix): { mean: Float64Array; covariance: Float64Array }
  /** Set when the fit fell back to default hyperparameters. */
  readonly warning?: string
}

const SQRT5 = Math.sqrt(5)
const SQRT3 = Math.sqrt(3)

/** [k(r²), -2 dk/d(r²)] of a unit-variance kernel; the second is what ∂k/∂ln ℓ_g = weight · D_g/ℓ_g² needs. */
function radial(kernel: KernelName, squared: number): [value: number, weight: number] {
  if (kernel === 'rbf') {
    const e = Math.exp(-0.5 * squared)
    return [e, e]
  }
  const r = Math.sqrt(squared)
  if (kernel === 'matern32') {
    const e = Math.exp(-SQRT3 * r)
    return [(1 + SQRT3 * r) * e, 3 * e]
  }
  const e = Math.exp(-SQRT5 * r)
  return [(1 + SQRT5 * r + (5 / 3) * squared) * e, (5 / 3) * (1 + SQRT5 * r) * e]
}

function matern52(squared: number): number {
  const r = SQRT5 * Math.sqrt(squared)
  return (1 + r + (5 / 3) * squared) * Math.exp(-r)
}

/** Squared distances of the training rows by group: pairs (i > j) in row order, G numbers a pair; and the trend's part of K. */
interface Geometry {
  readonly n: number
  readonly G: number
  readonly distances: Float64Array
  readonly trend: Float64Array
  readonly residual: Float64Array
}

const groupCount = (shape: GpShape): number => Math.max(...shape.groups, -1) + 1

function geometry(shape: GpShape, { X, y }: GpData): Geometry {
  const n = X.rows
  const G = groupCount(shape)
  const rows = X.to2DArray()
  const distances = new Float64Array(((n * (n - 1)) / 2) * G)
  const trend = new Float64Array(n * n)
  for (let i = 0, pair = 0; i < n; i++) {
    const xi = rows[i]!
    for (let j = 0; j <= i; j++) {
      const xj = rows[j]!
      let linear = 0
      for (let c = 0; c < xi.length; c++) linear += shape.slopeVariance[c]! * xi[c]! * xj[c]!
      trend[i * n + j] = linear
      if (j === i) continue
      for (let c = 0; c < xi.length; c++) {
        const g = shape.groups[c]!
        if (g >= 0) distances[pair * G + g] = distances[pair * G + g]! + (xi[c]! - xj[c]!) ** 2
      }
      pair++
    }
  }
  return { n, G, distances, trend, residual: y.map((v, i) => v - meanAt(shape, rows[i]!)) }
}

function meanAt({ slopeMean }: GpShape, row: ArrayLike<number>): number {
  let sum = 0
  for (let c = 0; c < slopeMean.length; c++) sum += slopeMean[c]! * row[c]!
  return sum
}

interface Factor {
  readonly l: Float64Array
  readonly alpha: Float64Array
  readonly logLikelihood: number
}

/** Unit kernel values and weights of the training pairs, in the order of `Geometry.distances`. */
interface Pairs {
  readonly values: Float64Array
  readonly weights: Float64Array
}

function kernelPairs(shape: GpShape, { n, G, distances }: Geometry, lengthscales: Float64Array): Pairs {
  const kernel = shape.kernel ?? 'matern52'
  const inverse = lengthscales.map((v) => 1 / (v * v))
  const count = (n * (n - 1)) / 2
  const values = new Float64Array(count)
  const weights = new Float64Array(count)
  for (let pair = 0; pair < count; pair++) {
    let squared = 0
    for (let c = 0; c < G; c++) squared += distances[pair * G + c]! * inverse[c]!
    const [value, weight] = radial(kernel, squared)
    values[pair] = value
    weights[pair] = weight
  }
  return { values, weights }
}

const isUnknown = (known: number | undefined): boolean => known === undefined || Number.isNaN(known)

/** K, its factor and α; undefined where K is not positive definite. */
function factorise(g: Geometry, h: Hyperparameters, pairs: Pairs, knownNoise?: Float64Array): Factor | undefined {
  const { n } = g
  const k = Float64Array.from(g.trend)
  for (let i = 0, pair = 0; i < n; i++) {
    for (let j = 0; j < i; j++, pair++) k[i * n + j] = k[i * n + j]! + h.signalVariance * pairs.values[pair]!
    const known = knownNoise?.[i]
    k[i * n + i] = k[i * n + i]! + h.signalVariance + (isUnknown(known) ? h.noiseVariance : known!)
  }
  const l = cholesky(k, n)
  if (!l) return undefined
  const half = forwardSolve(l, n, g.residual)
  let logLikelihood = -0.5 * n * Math.log(2 * Math.PI)
  for (let i = 0; i < n; i++) logLikelihood -= 0.5 * half[i]! * half[i]! + Math.log(l[i * n + i]!)
  return { l, alpha: backwardSolve(l, n, half), logLikelihood }
}

/** θ → hyperparameters. */
const unpack = (theta: Float64Array): Hyperparameters => ({
  signalVariance: Math.exp(theta[0]!),
  lengthscales: theta.slice(1, -1).map(Math.exp),
  noiseVariance: Math.exp(theta[theta.length - 1]!),
})

/**
 * ln p(y | X, θ) and its gradient with respect to θ = ln [s², ℓ…, σ²] (Rasmussen and Williams, eq. 5.9: ½ tr((ααᵀ - K⁻¹) ∂K/∂θ)).
 * Returns undefined where K is not positive definite.
 */
export const logMarginalLikelihood = (shape: GpShape, data: GpData, theta: Float64Array): Evaluation | undefined =>
  likelihood(shape, geometry(shape, data), theta, data.knownNoise)

function likelihood(shape: GpShape, g: Geometry, theta: Float64Array, knownNoise?: Float64Array): Evaluation | undefined {
  const { n, G, distances } = g
  const h = unpack(theta)
  const pairs = kernelPairs(shape, g, h.lengthscales)
  const factor = factorise(g, h, pairs, knownNoise)
  if (!factor) return undefined
  const { l, alpha } = factor
  const k = inverseFromFactor(l, n)
  const gradient = new Float64Array(theta.length)
  for (let i = 0, pair = 0; i < n; i++) {
    for (let j = 0; j < i; j++, pair++) {
      const a = h.signalVariance * (alpha[i]! * alpha[j]! - k[i * n + j]!)
      gradient[0] = gradient[0]! + a * pairs.values[pair]!
      const w = a * pairs.weights[pair]!
      for (let c = 0; c < G; c++) gradient[c + 1] = gradient[c + 1]! + w * distances[pair * G + c]!
    }
    const a = 0.5 * (alpha[i]! * alpha[i]! - k[i * n + i]!)
    gradient[0] = gradient[0]! + a * h.signalVariance
    if (isUnknown(knownNoise?.[i])) gradient[G + 1] = gradient[G + 1]! + a * h.noiseVariance
  }
  for (let c = 0; c < G; c++) gradient[c + 1] = gradient[c + 1]! / h.lengthscales[c]! ** 2
  return { value: factor.logLikelihood, gradient }
}

/** ln prior density at θ, and its gradient with respect to θ: d/dln x of LogNormal(μ, σ) is -1 - (ln x - μ)/σ². */
function logPrior(theta: Float64Array, priors: HyperPriors): Evaluation {
  const last = theta.length - 1
  const gradient = new Float64Array(theta.length)
  let value = 0
  for (const [i, t] of theta.entries()) {
    const [mu, sigma] = i === 0 ? priors.signal : i === last ? priors.noise : priors.lengthscale
    value += logNormalLogPdf(Math.exp(t), mu, sigma)
    gradient[i] = -1 - (t - mu) / (sigma * sigma)
  }
  return { value, gradient }
}

/** θ at the modes of the priors, exp(μ - σ²), and at two lengthscales more: about the medians of short and long. */
function startingPoints(priors: HyperPriors, G: number): Float64Array[] {
  const mode = ([mu, sigma]: readonly [number, number]) => mu - sigma * sigma
  const start = (lengthscale: number) =>
    Float64Array.from([
      priors.signal[0],
      ...new Array<number>(G).fill(lengthscale),
      Math.max(Math.log(NOISE_FLOOR) + 1, mode(priors.noise)),
    ])
  return [start(mode(priors.lengthscale)), start(mode(priors.lengthscale) + 1.5)]
}

/** Beyond this many observations one start is enough: the likelihood has one clear mode. */
const FEW = 30
/** Hyperparameters are fitted to at most this many observations, evenly chosen; the process is conditioned on all. */
const FITTED = 60

function thinned(data: GpData): GpData {
  const n = data.X.rows
  if (n <= FITTED) return data
  const rows = Array.from({ length: FITTED }, (_, i) => Math.floor((i * n) / FITTED))
  return {
    X: data.X.subMatrixRow(rows),
    y: Float64Array.from(rows, (i) => data.y[i]!),
    ...(data.knownNoise ? { knownNoise: Float64Array.from(rows, (i) => data.knownNoise![i]!) } : {}),
  }
}

export interface FitOptions {
  readonly priors?: HyperPriors
  readonly maxEvaluations?: number
}

/**
 * The process at the maximum a posteriori hyperparameters. Safe for one point, duplicates and constant targets; a fit that cannot be
 * computed falls back to the prior modes and says so in `warning`.
 */
export function fitGp(shape: GpShape, data: GpData, options: FitOptions = {}): Gp {
  const g = geometry(shape, data)
  const priors = options.priors ?? defaultPriors(g.G)
  const fitted = thinned(data)
  const few = fitted === data ? g : geometry(shape, fitted)
  const starts = startingPoints(priors, g.G).slice(0, few.n > FEW ? 1 : 2)
  const bounds = {
    low: Float64Array.from([-9, ...new Array<number>(g.G).fill(-4), Math.log(NOISE_FLOOR)]),
    high: Float64Array.from([6, ...new Array<number>(g.G).fill(6), 3]),
  }
  const loss = (theta: Float64Array): Evaluation | undefined => {
    const fit = likelihood(shape, few, theta, fitted.knownNoise)
    if (!fit || !Number.isFinite(fit.value)) return undefined
    const prior = logPrior(theta, priors)
    return { value: -fit.value - prior.value, gradient: fit.gradient.map((v, i) => -v - prior.gradient[i]!) }
  }
  const fits = starts.flatMap(
    (x0) => minimise(loss, x0, bounds, { maxEvaluations: options.maxEvaluations ?? (few.n > FEW ? 25 : 40) }) ?? [],
  )
  const best = fits.sort((a, b) => a.value - b.value)[0]
  if (best) return { ...condition(shape, data, unpack(best.x), g), logPosterior: -best.value }
  const fallback = unpack(starts[0]!)
  const warning = `the fit of ${g.n} observations failed; the model uses the prior's hyperparameters and noise variance 1`
  return { ...condition(shape, data, { ...fallback, noiseVariance: 1 }, g), warning }
}

/**
 * The process conditioned on data with given hyperparameters.
 * @throws Error where the kernel matrix is not positive definite even with a noise variance raised to 1.
 */
export function condition(shape: GpShape, data: GpData, hyperparameters: Hyperparameters, g = geometry(shape, data)): Gp {
  const pairs = kernelPairs(shape, g, hyperparameters.lengthscales)
  const factor = factorise(g, hyperparameters, pairs, data.knownNoise) ?? factorise(g, { ...hyperparameters, noiseVariance: 1 }, pairs)
  if (!factor) throw new Error(`the kernel matrix of ${g.n} observations is not positive definite: are all targets and columns finite?`)
  const { n } = g
  const training = data.X.to2DArray().map((row) => Float64Array.from(row))
  const cross = crossKernel(shape, hyperparameters)

  /** Rows L⁻¹ k(X, z), m of n numbers, with the posterior mean. */
  const whiten = (Z: Matrix) => {
    const rows = Z.to2DArray().map((row) => Float64Array.from(row))
    const mean = new Float64Array(rows.length)
    const whitened = rows.map((z, i) => {
      const k = new Float64Array(n)
      let sum = meanAt(shape, z)
      for (let j = 0; j < n; j++) {
        k[j] = cross(training[j]!, z)
        sum += k[j]! * factor.alpha[j]!
      }
      mean[i] = sum
      return forwardSolve(factor.l, n, k)
    })
    return { rows, mean, whitened }
  }
  return {
    hyperparameters,
    logLikelihood: factor.logLikelihood,
    logPosterior: -Infinity,
    predict(Z) {
      const { rows, mean, whitened } = whiten(Z)
      const variance = Float64Array.from(rows, (z, i) => Math.max(1e-12, cross(z, z) - squaredNorm(whitened[i]!)))
      return { mean, variance }
    },
    joint(Z) {
      const { rows, mean, whitened } = whiten(Z)
      const m = rows.length
      const covariance = new Float64Array(m * m)
      for (let i = 0; i < m; i++)
        for (let j = 0; j <= i; j++) {
          let value = cross(rows[i]!, rows[j]!)
          const a = whitened[i]!
          const b = whitened[j]!
          for (let k = 0; k < n; k++) value -= a[k]! * b[k]!
          covariance[i * m + j] = value
          covariance[j * m + i] = value
        }
      return { mean, covariance }
    },
  }
}

const squaredNorm = (v: Float64Array): number => {
  let sum = 0
  for (let i = 0; i < v.length; i++) sum += v[i]! * v[i]!
  return sum
}

/** k(x, z) of one pair of rows: Matérn part and trend. */
function crossKernel(shape: GpShape, h: Hyperparameters): (x: Float64Array, z: Float64Array) => number {
  const kernel = shape.kernel ?? 'matern52'
  const scale = Float64Array.from(shape.groups, (g) => (g < 0 ? 0 : 1 / h.lengthscales[g]! ** 2))
  const v = shape.slopeVariance
  const d = v.length
  return (x, z) => {
    let squared = 0
    let linear = 0
    for (let c = 0; c < d; c++) {
      const difference = x[c]! - z[c]!
      squared += scale[c]! * difference * difference
      linear += v[c]! * x[c]! * z[c]!
    }
    return h.signalVariance * (kernel === 'matern52' ? matern52(squared) : radial(kernel, squared)[0]) + linear
  }
}
