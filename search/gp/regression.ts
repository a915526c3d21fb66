/**
 * Gaussian process regression with a Matérn-5/2 kernel on grouped lengthscales plus a Bayesian
 * linear trend.
 *
 *   symbol    meaning                                                        shape
 *   n         observations
 *   m         points to predict
 *   d         columns of the design matrix
 *   G         groups of columns, one lengthscale each
 *   X         design matrix, rows are encoded configurations                 n×d  (Matrix)
 *   Z         points to predict                                              m×d
 *   y         targets                                                        n
 *   s²        signal variance of the Matérn part
 *   ℓ         lengthscales                                                   G
 *   σ²        noise variance, one for all observations whose noise is unknown
 *   τ         noise variances that are known (NaN where unknown)             n
 *   o         variance of what a configuration has of its own                (given)
 *   b0, v     prior mean and variance of the trend's slope on each column    d
 *   θ         ln of [s², ℓ…, σ²]                                             G+2
 *   K         s² M(r) + X diag(v) Xᵀ + o where rows are the same + noise     n×n
 *   L         Cholesky factor, K = L Lᵀ                                      n×n
 *   α         K⁻¹ (y - X b0)                                                 n
 *
 *   r² = Σ_g |x_g - x'_g|² / ℓ_g²,   M(r) = (1 + √5 r + 5 r²/3) exp(-√5 r)
 *
 * The trend is integrated out (Rasmussen and Williams, Gaussian Processes for Machine Learning,
 * 2006, §2.7): slopes b ~ N(b0, diag v) give the mean X b0 and the kernel X diag(v) Xᵀ. A column of
 * ones with a wide v is an unknown offset; a given prior mean as a column is one whose scale is
 * learned.
 */
import { crossKernel, matern52, matern52Weight } from './kernel.ts'
import type { Evaluation } from './lbfgs.ts'
import { backwardSolve, cholesky, forwardSolve, inverseFromFactor } from './linalg.ts'
import { jointCovariance, LEAST_VARIANCE, Posterior, type Whitening } from './posterior.ts'
import {
  type GpData,
  type GpShape,
  type Hyperparameters,
  isSameRow,
  type Marginals,
  meanAt,
  type Rows,
} from './types.ts'

export interface Gp {
  readonly hyperparameters: Hyperparameters
  /** ln p(y | X, θ). */
  readonly logLikelihood: number
  /** Marginal mean and variance of the noise-free function at the rows of Z (m×d). */
  predict(Z: Rows): Marginals
  /**
   * The same from some of the observations: where there are many, quicker, and good enough for a
   * shortlist.
   */
  predictRoughly(Z: Rows): Marginals
  /** Mean (m) and covariance (m×m, row-major) of the noise-free function at the rows of Z. */
  joint(Z: Rows): { mean: Float64Array; covariance: Float64Array }
  /**
   * The noise-free function at each observation as the others lead one to expect it, n (Rasmussen
   * and Williams, eq. 5.12).
   */
  leaveOneOut(): Marginals
  /** Set when the fit fell back to default hyperparameters. */
  readonly warning?: string
}

/**
 * Squared distances of the training rows by group: pairs (i > j) in row order, G numbers a pair;
 * and the part of K that no hyperparameter moves.
 */
interface Geometry {
  readonly n: number
  readonly G: number
  readonly distances: Float64Array
  readonly fixed: Float64Array
  readonly residual: Float64Array
}

const groupCount = (shape: GpShape): number => Math.max(...shape.groups, -1) + 1

export function geometry(shape: GpShape, { X, y }: GpData): Geometry {
  const n = X.rows
  const G = groupCount(shape)
  const rows = X.to2DArray()
  const distances = new Float64Array(((n * (n - 1)) / 2) * G)
  const { ownVariance = 0 } = shape
  const fixed = new Float64Array(n * n)
  for (let i = 0, pair = 0; i < n; i++) {
    const xi = rows[i]!
    for (let j = 0; j <= i; j++) {
      const xj = rows[j]!
      let linear = 0
      for (let c = 0; c < xi.length; c++) linear += shape.slopeVariance[c]! * xi[c]! * xj[c]!
      fixed[i * n + j] = linear + (ownVariance > 0 && isSameRow(xi, xj) ? ownVariance : 0)
      if (j === i) continue
      for (let c = 0; c < xi.length; c++) {
        const g = shape.groups[c]!
        if (g >= 0) distances[pair * G + g] = distances[pair * G + g]! + (xi[c]! - xj[c]!) ** 2
      }
      pair++
    }
  }
  return {
    n,
    G,
    distances,
    fixed,
    residual: y.map((v, i) => v - meanAt(shape, rows[i]!)),
  }
}

interface Factor {
  readonly k: Float64Array
  readonly l: Float64Array
  readonly alpha: Float64Array
  readonly logLikelihood: number
}

/** Unit kernel values and weights of the training pairs, in the order of `Geometry.distances`. */
interface Pairs {
  readonly values: Float64Array
  readonly weights: Float64Array
}

function kernelPairs({ n, G, distances }: Geometry, lengthscales: Float64Array): Pairs {
  const inverse = lengthscales.map((v) => 1 / (v * v))
  const count = (n * (n - 1)) / 2
  const values = new Float64Array(count)
  const weights = new Float64Array(count)
  for (let i = 0, pair = 0; i < n; i++)
    for (let j = 0; j < i; j++, pair++) {
      let squared = 0
      for (let c = 0; c < G; c++) squared += distances[pair * G + c]! * inverse[c]!
      values[pair] = matern52(squared)
      weights[pair] = matern52Weight(squared)
    }
  return { values, weights }
}

const isUnknown = (known: number | undefined): boolean => known === undefined || Number.isNaN(known)

/** K, its factor and α; undefined where K is not positive definite. */
function factorise(
  g: Geometry,
  h: Hyperparameters,
  pairs: Pairs,
  knownNoise?: Float64Array,
): Factor | undefined {
  const { n } = g
  const k = Float64Array.from(g.fixed)
  for (let i = 0, pair = 0; i < n; i++) {
    for (let j = 0; j < i; j++, pair++)
      k[i * n + j] = k[i * n + j]! + h.signalVariance * pairs.values[pair]!
    const known = knownNoise?.[i]
    k[i * n + i] = k[i * n + i]! + h.signalVariance + (isUnknown(known) ? h.noiseVariance : known!)
  }
  const l = cholesky(k, n)
  if (!l) return undefined
  const half = forwardSolve(l, n, g.residual)
  let logLikelihood = -0.5 * n * Math.log(2 * Math.PI)
  for (let i = 0; i < n; i++) logLikelihood -= 0.5 * half[i]! * half[i]! + Math.log(l[i * n + i]!)
  return { k, l, alpha: backwardSolve(l, n, half), logLikelihood }
}

/** θ → hyperparameters. */
export const unpack = (theta: Float64Array): Hyperparameters => ({
  signalVariance: Math.exp(theta[0]!),
  lengthscales: theta.slice(1, -1).map(Math.exp),
  noiseVariance: Math.exp(theta[theta.length - 1]!),
})

/** Hyperparameters → θ. */
export const pack = ({
  signalVariance,
  lengthscales,
  noiseVariance,
}: Hyperparameters): Float64Array =>
  Float64Array.from([signalVariance, ...lengthscales, noiseVariance], Math.log)

/**
 * ln p(y | X, θ) and its gradient with respect to θ = ln [s², ℓ…, σ²] (Rasmussen and Williams, eq.
 * 5.9: ½ tr((ααᵀ - K⁻¹) ∂K/∂θ)). Returns undefined where K is not positive definite.
 */
export function likelihood(
  g: Geometry,
  theta: Float64Array,
  knownNoise?: Float64Array,
): Evaluation | undefined {
  const { n, G, distances } = g
  const h = unpack(theta)
  const pairs = kernelPairs(g, h.lengthscales)
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

/**
 * The process conditioned on data with given hyperparameters.
 * @throws Error where the kernel matrix is not positive definite even with a noise variance raised
 * to 1.
 */
export function condition(
  shape: GpShape,
  data: GpData,
  hyperparameters: Hyperparameters,
  g = geometry(shape, data),
): Gp {
  const pairs = kernelPairs(g, hyperparameters.lengthscales)
  const factor =
    factorise(g, hyperparameters, pairs, data.knownNoise) ??
    factorise(g, { ...hyperparameters, noiseVariance: 1 }, pairs)
  if (!factor)
    throw new Error(
      `the kernel matrix of ${g.n} observations is not positive definite: are all targets and columns finite?`,
    )
  const { n } = g
  const observed = data.X.to2DArray().map((row) => Float64Array.from(row))
  const cross = crossKernel(shape, hyperparameters, observed)
  const from: Whitening = { ...factor, at: Int32Array.from({ length: n }, (_, i) => i) }
  const posterior = new Posterior(shape, cross)
  return {
    hyperparameters,
    logLikelihood: factor.logLikelihood,
    predict: (Z) => posterior.marginals(Z, from),
    predictRoughly: (Z) => posterior.marginals(Z, n > MANY ? someOf(factor, g) : from),
    joint(Z) {
      const { mean, rows } = posterior.whitened(Z, from)
      return { mean, covariance: jointCovariance(crossKernel(shape, hyperparameters, Z), Z, rows) }
    },
    leaveOneOut() {
      const inverse = inverseFromFactor(factor.l, n)
      return {
        mean: data.y.map((y, i) => y - factor.alpha[i]! / inverse[i * n + i]!),
        variance: data.y.map((_, i) => {
          const known = data.knownNoise?.[i]
          return Math.max(
            LEAST_VARIANCE,
            1 / inverse[i * n + i]! - (isUnknown(known) ? hyperparameters.noiseVariance : known!),
          )
        }),
      }
    },
  }
}

/**
 * Observations that a rough prediction is made from, and more than how many there must be for it to
 * be worth it.
 */
const ROUGHLY = 32
const MANY = 64

/** Evenly chosen observations. */
function someOf({ k }: Factor, { n, residual }: Geometry): Whitening {
  const at = Int32Array.from({ length: ROUGHLY }, (_, i) => Math.floor((i * n) / ROUGHLY))
  const some = Float64Array.from({ length: ROUGHLY ** 2 }, (_, i) => {
    const [row, column] = [at[Math.floor(i / ROUGHLY)]!, at[i % ROUGHLY]!]
    return row >= column ? k[row * n + column]! : 0
  })
  const l = cholesky(some, ROUGHLY)!
  const targets = Float64Array.from(at, (i) => residual[i]!)
  return { l, at, alpha: backwardSolve(l, ROUGHLY, forwardSolve(l, ROUGHLY, targets)) }
}
