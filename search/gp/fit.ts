/**
 * The fit of a Gaussian process: hyperparameters of greatest posterior density, under priors scaled
 * with the dimension.
 */

import { type Evaluation, minimise } from './lbfgs.ts'
import { logNormalLogPdf } from './normal.ts'
import { condition, type Gp, geometry, likelihood, pack, unpack } from './regression.ts'
import { type GpData, type GpShape, type Hyperparameters, NOISE_FLOOR } from './types.ts'

/** LogNormal(mu, sigma) priors. */
export interface HyperPriors {
  readonly signal: readonly [mu: number, sigma: number]
  readonly lengthscale: readonly [mu: number, sigma: number]
  readonly noise: readonly [mu: number, sigma: number]
}

/**
 * Lengthscales LogNormal(√2 + ln(G)/2, √3), scaled with the dimension (Hvarfner, Hellsten and
 * Nardi, 'Vanilla Bayesian optimization performs great in high dimensions', ICML 2024, §4), noise
 * LogNormal(-4, 1), signal LogNormal(-1, 1), for targets of about unit variance of which the trend
 * takes a part.
 */
export const defaultPriors = (groups: number): HyperPriors => ({
  signal: [-1, 1],
  lengthscale: [Math.SQRT2 + Math.log(groups) / 2, Math.sqrt(3)],
  noise: [-4, 1],
})

/**
 * ln prior density at θ, and its gradient with respect to θ: d/dln x of LogNormal(μ, σ) is -1 - (ln
 * x - μ)/σ².
 */
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

/** θ at the modes of the priors, exp(μ - σ²), the signal at its median. */
function startingPoint(priors: HyperPriors, G: number): Float64Array {
  const mode = ([mu, sigma]: readonly [number, number]) => mu - sigma * sigma
  const noise = Math.max(Math.log(NOISE_FLOOR) + 1, mode(priors.noise))
  return Float64Array.from([
    priors.signal[0],
    ...new Array<number>(G).fill(mode(priors.lengthscale)),
    noise,
  ])
}

/** Beyond this many observations fewer evaluations will do: the likelihood has one clear mode. */
const FEW = 30
/**
 * Hyperparameters are fitted to at most this many observations, evenly chosen; the process is
 * conditioned on all.
 */
const FITTED = 48

function thinned(data: GpData): GpData {
  const n = data.X.rows
  if (n <= FITTED) return data
  const rows = Array.from({ length: FITTED }, (_, i) => Math.floor((i * n) / FITTED))
  return {
    X: data.X.subMatrixRow(rows),
    y: Float64Array.from(rows, (i) => data.y[i]!),
    ...(data.knownNoise
      ? { knownNoise: Float64Array.from(rows, (i) => data.knownNoise![i]!) }
      : {}),
  }
}

interface FitOptions {
  readonly priors?: HyperPriors
  /** Hyperparameters to start from: of a fit to nearly the same readings. */
  readonly from?: Hyperparameters
}

/**
 * The process at the maximum a posteriori hyperparameters. Safe for one point, duplicates and
 * constant targets; a fit that cannot be computed falls back to the prior modes and says so in
 * `warning`.
 */
export function fitGp(shape: GpShape, data: GpData, options: FitOptions = {}): Gp {
  const g = geometry(shape, data)
  const priors = options.priors ?? defaultPriors(g.G)
  const fitted = thinned(data)
  const few = fitted === data ? g : geometry(shape, fitted)
  const start = options.from ? pack(options.from) : startingPoint(priors, g.G)
  const bounds = {
    low: Float64Array.from([-9, ...new Array<number>(g.G).fill(-4), Math.log(NOISE_FLOOR)]),
    high: Float64Array.from([6, ...new Array<number>(g.G).fill(6), 3]),
  }
  const loss = (theta: Float64Array): Evaluation | undefined => {
    const fit = likelihood(few, theta, fitted.knownNoise)
    if (!fit || !Number.isFinite(fit.value)) return undefined
    const prior = logPrior(theta, priors)
    return {
      value: -fit.value - prior.value,
      gradient: fit.gradient.map((v, i) => -v - prior.gradient[i]!),
    }
  }
  const best = minimise(loss, start, bounds, { maxEvaluations: few.n > FEW ? 25 : 40 })
  if (best) return condition(shape, data, unpack(best.x), g)
  const warning = `the fit of ${g.n} observations failed; the model uses the prior's hyperparameters and noise variance 1`
  return { ...condition(shape, data, { ...unpack(start), noiseVariance: 1 }, g), warning }
}
