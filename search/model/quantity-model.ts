/** The Gaussian process of one modelled quantity, with the informative prior that suits it best. */
import { fitCensoredGp } from '../gp/censored.ts'
import { createDefaultPriors, type HyperPriors } from '../gp/fit.ts'
import { minPosteriorVariance } from '../gp/posterior.ts'
import { conditionGp, type Gp } from '../gp/regression.ts'
import { createFantasies, type TrainingPoint, toGpData } from '../gp/training-points.ts'
import type { Marginals } from '../gp/types.ts'
import { configurationKey } from '../space/space.ts'
import type { Configuration, Problem, Rng } from '../types.ts'
import { createDesign, type Design, type Quantity } from './design-matrix.ts'
import type { InformativePrior } from './informative-prior.ts'
import { createJointSampler } from './joint-draws.ts'
import {
  computeQuantileOffset,
  type SaturatingPredictive,
  saturate,
} from './saturating-predictive.ts'

interface QuantityModel {
  /** An informative prior is part of the model. */
  readonly hasPrior: boolean
  readonly warning?: string
  /**
   * Predictions of the noise-free quantity. Approximate ones use a subset of many observations, and
   * ignore saturation (saturating-predictive.ts).
   */
  predict(configurations: readonly Configuration[], accuracy?: 'approximate'): SaturatingPredictive
  /** Joint posterior draws of the noise-free quantity. */
  createSampler(
    configurations: readonly Configuration[],
    rng: Rng,
  ): (widening?: Widening) => Float64Array
}

/** Multiplies the deviations of a draw from the mean, for configurations from an index on. */
export interface Widening {
  readonly factor: number
  readonly from: number
}

/**
 * The latent function f of whether a configuration serves: likelihood Φ(± f / s), and the LogNormal
 * prior of its variance. Assumed.
 */
export const servesLatent = { s: 0.3, signal: [-1, 1] as const }

/** An informative prior as the training points calibrate it. */
type CreatePrior = (points: readonly TrainingPoint[]) => InformativePrior | undefined

/**
 * The most probable of these models: without an informative prior; with the prior of the highest
 * evidence; with that prior and one outlier. The prior is kept unless its Bayes factor is too
 * small, so that a wrong one costs a few trials at most. One disturbed measurement neither rejects
 * the prior nor moves its predictions elsewhere. Undefined without data and prior.
 */
export function fitQuantityModel(
  problem: Problem,
  quantity: Quantity,
  points: readonly TrainingPoint[],
  pending: readonly Configuration[],
  priors: readonly CreatePrior[],
): QuantityModel | undefined {
  const fit = (prior?: InformativePrior, minLogBayesFactor = prior?.minLogBayesFactor ?? 0) => {
    const fitted = fitModel(quantity, createDesign(problem, quantity, prior), points, prior)
    return { fit: fitted, score: fitted.gp.logLikelihood - minLogBayesFactor }
  }
  const findBest = (fits: readonly ReturnType<typeof fit>[]) =>
    fits.reduce((best, one) => (one.score > best.score ? one : best))
  const fitsWithPrior = priors.flatMap((createPrior) => {
    const prior = createPrior(points)
    return prior ? [{ ...fit(prior), createPrior }] : []
  })
  const withPrior = fitsWithPrior.sort((a, b) => b.score - a.score)[0]
  if (points.length === 0) return withPrior && createModel(withPrior.fit, pending)
  if (withPrior === undefined) return createModel(fit().fit, pending)
  const outlier = configurationKey(findMostContradicting(withPrior.fit, points).at)
  const others = points.filter(({ at }) => configurationKey(at) !== outlier)
  const prior = allowShift(withPrior.createPrior(others)!, outlier)
  const withOutlier = fit(prior, prior.minLogBayesFactor + minLogBayesFactorOfOutlier)
  return createModel(findBest([fit(), withPrior, withOutlier]).fit, pending)
}

/** The point with the largest standardised residual from its leave-one-out prediction. */
function findMostContradicting({ gp }: Fit, points: readonly TrainingPoint[]): TrainingPoint {
  const { mean, variance } = gp.predictLeaveOneOut()
  const residuals = points.map(({ target, noise, bound }, i) => {
    const residual = target - mean[i]!
    const satisfiesBound = bound === 'upper' ? residual >= 0 : bound === 'lower' && residual <= 0
    const noiseVariance = Number.isNaN(noise) ? gp.hyperparameters.noiseVariance : noise
    return satisfiesBound ? 0 : Math.abs(residual) / Math.sqrt(variance[i]! + noiseVariance)
  })
  return points[residuals.indexOf(Math.max(...residuals))]!
}

/** Prior standard deviation of an outlier's shift in ln: a factor e. Assumed. */
const shiftSd = 1
/** ln of the odds against an outlier before any is measured: 1 in 20. Assumed. */
const minLogBayesFactorOfOutlier = Math.log(20)

/**
 * The prior beside a shift of one configuration, for which it then predicts nothing (mean-shift
 * outlier model; Cook and Weisberg, Residuals and Influence in Regression, 1982, §2.2).
 */
const allowShift = (prior: InformativePrior, outlier: string): InformativePrior => ({
  ...prior,
  slopes: [...prior.slopes, [0, shiftSd]],
  columns: (configurations) =>
    prior
      .columns(configurations)
      .map((row, i) => [...row, configurationKey(configurations[i]!) === outlier ? 1 : 0]),
})

/** A fitted Gaussian process with its design, its training points and its informative prior. */
interface Fit {
  readonly gp: Gp
  readonly design: Design
  readonly sites: readonly TrainingPoint[]
  readonly prior?: InformativePrior
}

function fitModel(
  quantity: Quantity,
  design: Design,
  points: readonly TrainingPoint[],
  prior?: InformativePrior,
): Fit {
  const X = design.rows(points.map(({ at }) => at))
  const priors = createHyperPriors(quantity, design.groups, prior)
  return { ...fitCensoredGp(design.spec, X, points, priors), design, prior }
}

/** The default priors, with the signal variance that the prior or the latent function sets. */
function createHyperPriors(
  quantity: Quantity,
  groups: number,
  prior?: InformativePrior,
): HyperPriors {
  const priors = createDefaultPriors(groups)
  if (quantity === 'serves') return { ...priors, signal: servesLatent.signal }
  return prior?.signalVariance ? { ...priors, signal: prior.signalVariance } : priors
}

function createModel(fit: Fit, pending: readonly Configuration[]): QuantityModel {
  const { rows } = fit.design
  const gp = addFantasies(fit, pending)
  const { signalVariance } = gp.hyperparameters
  const saturation = fit.prior?.saturation
  const saturateAll = (configurations: readonly Configuration[], marginals: Marginals) =>
    saturation ? saturate(marginals, configurations, signalVariance, saturation) : marginals
  return {
    hasPrior: fit.prior !== undefined,
    warning: fit.gp.warning,
    predict: (configurations, accuracy) =>
      accuracy === 'approximate'
        ? gp.predictFromSubset(rows(configurations))
        : saturateAll(configurations, gp.predict(rows(configurations))),
    createSampler(configurations, rng) {
      const joint = gp.predictJoint(rows(configurations))
      const { mean, covariance } = joint
      const variance = mean.map((_, i) =>
        Math.max(minPosteriorVariance, covariance[i * (mean.length + 1)]!),
      )
      const prediction = saturateAll(configurations, { mean, variance })
      const next = createJointSampler(joint, rng)
      return ({ factor, from } = { factor: 1, from: 0 }) =>
        next().map((value, i) => {
          const z = (value - mean[i]!) / Math.sqrt(variance[i]!)
          return mean[i]! + computeQuantileOffset(prediction, i, i >= from ? factor * z : z)
        })
    },
  }
}

/** The process conditioned on pending configurations too, at their predicted mean. */
function addFantasies({ gp, design, sites }: Fit, pending: readonly Configuration[]): Gp {
  if (pending.length === 0) return gp
  const { spec, rows } = design
  const all = [...sites, ...createFantasies(pending, gp.predict(rows(pending)).mean)]
  const X = rows(all.map(({ at }) => at))
  return conditionGp(spec, toGpData(X, all), gp.hyperparameters)
}
