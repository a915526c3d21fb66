/**
 * Gaussian process of one modelled quantity: ln rate, ln constraint, or whether a configuration
 * serves. It includes the informative prior with the highest evidence, if that prior is accepted.
 */
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
  ): (inflation?: DeviationInflation) => Float64Array
}

/**
 * Inflation of the deviations of a draw from the mean: by `factor`, for configurations from index
 * `from` on. The stop rule gives untried configurations wider tails by it (stopping/regret.ts).
 */
export interface DeviationInflation {
  readonly factor: number
  readonly from: number
}

/**
 * Latent function f of the binary quantity 'serves': P = Φ(± f / probitScale), with the LogNormal
 * prior of the variance of f. Assumed.
 */
export const servesLatent = { probitScale: 0.3, signalVariance: [-1, 1] as const }

/** An informative prior as the training points calibrate it. */
type CreatePrior = (points: readonly TrainingPoint[]) => InformativePrior | undefined

/**
 * Fits three models and keeps the one with the highest score:
 * 1. without an informative prior;
 * 2. with the informative prior of the highest score;
 * 3. with that prior, and one observation as an outlier.
 *
 * A score is the evidence minus the prior's `minLogBayesFactor`, and minus a penalty for an outlier.
 * So the data can reject a wrong prior, which costs a few trials at most. One disturbed measurement
 * neither rejects the prior nor moves its predictions elsewhere. Undefined without data and prior.
 */
export function fitQuantityModel(
  problem: Problem,
  quantity: Quantity,
  points: readonly TrainingPoint[],
  pending: readonly Configuration[],
  priors: readonly CreatePrior[],
): QuantityModel | undefined {
  const scoreModel = (
    prior?: InformativePrior,
    evidencePenalty = prior?.minLogBayesFactor ?? 0,
  ) => {
    const model = fitModel(quantity, createDesign(problem, quantity, prior), points, prior)
    return { model, score: model.gp.logLikelihood - evidencePenalty }
  }
  const selectBest = (scored: readonly ReturnType<typeof scoreModel>[]) =>
    scored.reduce((best, one) => (one.score > best.score ? one : best))
  const modelsWithPrior = priors.flatMap((createPrior) => {
    const prior = createPrior(points)
    return prior ? [{ ...scoreModel(prior), createPrior }] : []
  })
  const withPrior = modelsWithPrior.sort((a, b) => b.score - a.score)[0]
  if (points.length === 0) return withPrior && createModel(withPrior.model, pending)
  const withoutPrior = scoreModel()
  if (withPrior === undefined) return createModel(withoutPrior.model, pending)
  const outlier = configurationKey(findLargestResidual(withPrior.model, points).configuration)
  const others = points.filter(({ configuration }) => configurationKey(configuration) !== outlier)
  // The outlier does not calibrate the prior either.
  const prior = allowOutlier(withPrior.createPrior(others)!, outlier)
  const withOutlier = scoreModel(prior, prior.minLogBayesFactor + outlierEvidencePenalty)
  return createModel(selectBest([withoutPrior, withPrior, withOutlier]).model, pending)
}

/** Finds the point with the largest standardised residual from its leave-one-out prediction. */
function findLargestResidual({ gp }: FittedModel, points: readonly TrainingPoint[]): TrainingPoint {
  const { mean, variance } = gp.predictLeaveOneOut()
  const residuals = points.map(({ target, noise, bound }, i) => {
    const residual = target - mean[i]!
    // A censored observation has no residual on the permitted side of its bound.
    const satisfiesBound = bound === 'upper' ? residual >= 0 : bound === 'lower' && residual <= 0
    const noiseVariance = Number.isNaN(noise) ? gp.hyperparameters.noiseVariance : noise
    return satisfiesBound ? 0 : Math.abs(residual) / Math.sqrt(variance[i]! + noiseVariance)
  })
  return points[residuals.indexOf(Math.max(...residuals))]!
}

/** Prior standard deviation of an outlier's shift in ln: a factor e. Assumed. */
const shiftSd = 1
/** ln of the prior odds against an outlier, 20 : 1. Assumed. */
const outlierEvidencePenalty = Math.log(20)

/**
 * Adds an indicator column for one configuration, whose slope absorbs the residual of an outlier
 * there (mean-shift outlier model; Cook and Weisberg, Residuals and Influence in Regression, 1982,
 * §2.2).
 */
const allowOutlier = (prior: InformativePrior, outlier: string): InformativePrior => ({
  ...prior,
  slopes: [...prior.slopes, [0, shiftSd]],
  computeColumns: (configurations) =>
    prior
      .computeColumns(configurations)
      .map((row, i) => [...row, configurationKey(configurations[i]!) === outlier ? 1 : 0]),
})

/** A fitted Gaussian process with its design, its training points and its informative prior. */
interface FittedModel {
  readonly gp: Gp
  readonly design: Design
  /** Training points; Gaussian sites stand for censored ones (gp/censored.ts). */
  readonly sites: readonly TrainingPoint[]
  readonly prior?: InformativePrior
}

function fitModel(
  quantity: Quantity,
  design: Design,
  points: readonly TrainingPoint[],
  prior?: InformativePrior,
): FittedModel {
  const X = design.encodeRows(points.map(({ configuration }) => configuration))
  const priors = createHyperPriors(quantity, design.groups, prior)
  return { ...fitCensoredGp(design.spec, X, points, priors), design, prior }
}

/**
 * Creates the default priors, with the signal variance that the prior or the latent function sets.
 */
function createHyperPriors(
  quantity: Quantity,
  groups: number,
  prior?: InformativePrior,
): HyperPriors {
  const priors = createDefaultPriors(groups)
  if (quantity === 'serves') return { ...priors, signal: servesLatent.signalVariance }
  return prior?.signalVariance ? { ...priors, signal: prior.signalVariance } : priors
}

function createModel(model: FittedModel, pending: readonly Configuration[]): QuantityModel {
  const { encodeRows } = model.design
  const gp = addFantasies(model, pending)
  const { signalVariance } = gp.hyperparameters
  const saturation = model.prior?.saturation
  const saturateAll = (configurations: readonly Configuration[], marginals: Marginals) =>
    saturation ? saturate(marginals, configurations, signalVariance, saturation) : marginals
  return {
    hasPrior: model.prior !== undefined,
    warning: model.gp.warning,
    predict: (configurations, accuracy) =>
      accuracy === 'approximate'
        ? gp.predictFromSubset(encodeRows(configurations))
        : saturateAll(configurations, gp.predict(encodeRows(configurations))),
    createSampler(configurations, rng) {
      const joint = gp.predictJoint(encodeRows(configurations))
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

/**
 * Conditions the process on pending configurations too, with their predicted mean as the target
 * (kriging believer).
 */
function addFantasies({ gp, design, sites }: FittedModel, pending: readonly Configuration[]): Gp {
  if (pending.length === 0) return gp
  const { spec, encodeRows } = design
  const points = [...sites, ...createFantasies(pending, gp.predict(encodeRows(pending)).mean)]
  const X = encodeRows(points.map(({ configuration }) => configuration))
  return conditionGp(spec, toGpData(X, points), gp.hyperparameters)
}
