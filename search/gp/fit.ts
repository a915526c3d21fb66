/** Maximum a posteriori fit of a Gaussian process, with priors scaled to the dimension. */

import { type Evaluation, minimise } from './lbfgs.ts'
import { logNormalLogPdf } from './normal.ts'
import {
  computeGeometry,
  computeLogLikelihood,
  conditionGp,
  type Gp,
  pack,
  unpack,
} from './regression.ts'
import { type GpData, type GpSpec, type Hyperparameters, minNoiseVariance } from './types.ts'

/** LogNormal(mu, sigma) priors of the hyperparameters. */
export interface HyperPriors {
  readonly signal: readonly [mu: number, sigma: number]
  readonly lengthscale: readonly [mu: number, sigma: number]
  readonly noise: readonly [mu: number, sigma: number]
}

/**
 * Priors for targets of about unit variance, part of which the trend explains. Lengthscales
 * LogNormal(√2 + ln(G)/2, √3) scale with the dimension (Hvarfner, Hellsten and Nardi, 'Vanilla
 * Bayesian optimization performs great in high dimensions', ICML 2024, §4); noise LogNormal(-4, 1);
 * signal LogNormal(-1, 1).
 * @param groups number of column groups, each with its own lengthscale (G)
 */
export const createDefaultPriors = (groups: number): HyperPriors => ({
  signal: [-1, 1],
  lengthscale: [Math.SQRT2 + Math.log(groups) / 2, Math.sqrt(3)],
  noise: [-4, 1],
})

/**
 * Computes the ln prior density at θ and its gradient: d/dln x of LogNormal(μ, σ) is
 * -1 - (ln x - μ)/σ².
 */
function computeLogPrior(theta: Float64Array, priors: HyperPriors): Evaluation {
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

/**
 * Creates θ at the modes of the priors of lengthscales and noise, exp(μ - σ²), and at the median of
 * the signal's prior.
 */
function createStartingPoint(priors: HyperPriors, groups: number): Float64Array {
  const findMode = ([mu, sigma]: readonly [number, number]) => mu - sigma * sigma
  const noise = Math.max(Math.log(minNoiseVariance) + 1, findMode(priors.noise))
  return Float64Array.from([
    priors.signal[0],
    ...new Array<number>(groups).fill(findMode(priors.lengthscale)),
    noise,
  ])
}

/**
 * Evaluations of the likelihood, for up to `maxObservationsForLongFit` observations and for more,
 * whose likelihood has one clear mode. Assumed.
 */
const maxEvaluations = { fewObservations: 40, manyObservations: 25 }
const maxObservationsForLongFit = 30
/**
 * Hyperparameters are fitted to at most this many observations, evenly spaced; the process is
 * conditioned on all. That changed no probability of the stop rule in 280 assessments on recorded
 * tables (docs/research/search.md, speed).
 */
const maxFittedObservations = 48
/** Bounds of θ, assumed to be wide enough that the priors decide. */
const logBounds = { signal: [-9, 6], lengthscale: [-4, 6], maxNoise: 3 } as const

/** Selects an evenly spaced subset of at most `maxFittedObservations`. */
function thinData(data: GpData): GpData {
  const n = data.X.rows
  if (n <= maxFittedObservations) return data
  const rows = Array.from({ length: maxFittedObservations }, (_, i) =>
    Math.floor((i * n) / maxFittedObservations),
  )
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
  /** Hyperparameters to start from, of a fit to similar data. */
  readonly from?: Hyperparameters
}

/**
 * Fits the process at the maximum a posteriori hyperparameters. One point, duplicates and constant
 * targets are safe. A failed fit falls back to its starting point, with noise variance 1, and sets
 * `warning`.
 */
export function fitGp(spec: GpSpec, data: GpData, options: FitOptions = {}): Gp {
  const g = computeGeometry(spec, data)
  const priors = options.priors ?? createDefaultPriors(g.G)
  const fittedData = thinData(data)
  const fittedGeometry = fittedData === data ? g : computeGeometry(spec, fittedData)
  const start = options.from ? pack(options.from) : createStartingPoint(priors, g.G)
  const { signal, lengthscale, maxNoise } = logBounds
  const fillGroups = (value: number) => new Array<number>(g.G).fill(value)
  const bounds = {
    low: Float64Array.from([signal[0], ...fillGroups(lengthscale[0]), Math.log(minNoiseVariance)]),
    high: Float64Array.from([signal[1], ...fillGroups(lengthscale[1]), maxNoise]),
  }
  const computeLoss = (theta: Float64Array): Evaluation | undefined => {
    const fit = computeLogLikelihood(fittedGeometry, theta, fittedData.knownNoise)
    if (!fit || !Number.isFinite(fit.value)) return undefined
    const prior = computeLogPrior(theta, priors)
    return {
      value: -fit.value - prior.value,
      gradient: fit.gradient.map((v, i) => -v - prior.gradient[i]!),
    }
  }
  const best = minimise(computeLoss, start, bounds, {
    maxEvaluations:
      fittedGeometry.n > maxObservationsForLongFit
        ? maxEvaluations.manyObservations
        : maxEvaluations.fewObservations,
  })
  if (best) return conditionGp(spec, data, unpack(best.x), g)
  const warning = `the fit of ${g.n} observations failed; the model uses the starting hyperparameters and noise variance 1`
  return { ...conditionGp(spec, data, { ...unpack(start), noiseVariance: 1 }, g), warning }
}
