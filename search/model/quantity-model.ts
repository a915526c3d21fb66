/** The Gaussian process of one modelled quantity, with the informative prior that suits it best. */
import { fitCensoredGp } from '../gp/censored.ts'
import { defaultPriors, type HyperPriors } from '../gp/fit.ts'
import { minPosteriorVariance } from '../gp/posterior.ts'
import { conditionGp, type Gp } from '../gp/regression.ts'
import { createFantasies, type TrainingPoint, toGpData } from '../gp/training-points.ts'
import type { Marginals } from '../gp/types.ts'
import type { Configuration, Problem, Rng } from '../types.ts'
import { createDesign, type Design, type Quantity } from './design-matrix.ts'
import type { InformativePrior } from './informative-prior.ts'
import { drawJoint } from './joint-draws.ts'
import { quantileOffset, type SaturatingPredictive, saturate } from './saturating-predictive.ts'

interface QuantityModel {
  /** An informative prior is part of the model. */
  readonly hasPrior: boolean
  readonly warning?: string
  /**
   * Predictions of the noise-free quantity. Approximate ones use a subset of many observations, and
   * ignore saturation.
   */
  predict(configurations: readonly Configuration[], accuracy?: 'approximate'): SaturatingPredictive
  /** Joint posterior draws of the noise-free quantity. */
  draw(configurations: readonly Configuration[], rng: Rng): (widening?: Widening) => Float64Array
}

/** Multiplies the deviations of a draw from the mean, for configurations from an index on. */
export interface Widening {
  readonly factor: number
  readonly from: number
}

/**
 * The latent function f of whether a configuration serves: likelihood Φ(± f / s), and the LogNormal
 * prior of its variance.
 */
export const servesLatent = { s: 0.3, signal: [-1, 1] as const }

/**
 * The model with the informative prior of the highest evidence, unless its Bayes factor against the
 * model without one is too small. A wrong prior therefore costs a few trials at most. Undefined
 * without data and prior. Pending configurations enter at their predicted mean (kriging believer).
 */
export function fitQuantityModel(
  problem: Problem,
  quantity: Quantity,
  points: readonly TrainingPoint[],
  pending: readonly Configuration[],
  priors: readonly (InformativePrior | undefined)[],
): QuantityModel | undefined {
  const fit = (prior?: InformativePrior) =>
    fitModel(quantity, createDesign(problem, quantity, prior), points, prior)
  const informed = priors.flatMap((prior) => {
    if (!prior) return []
    const model = fit(prior)
    return [{ model, score: model.gp.logLikelihood - prior.minLogBayesFactor }]
  })
  const best = informed.sort((a, b) => b.score - a.score)[0]
  if (points.length === 0) return best && createModel(best.model, pending)
  const uninformed = fit()
  const isAccepted = best && best.score >= uninformed.gp.logLikelihood
  return createModel(isAccepted ? best.model : uninformed, pending)
}

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
  const priors = defaultPriors(groups)
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
    draw(configurations, rng) {
      const joint = gp.joint(rows(configurations))
      const { mean, covariance } = joint
      const variance = mean.map((_, i) =>
        Math.max(minPosteriorVariance, covariance[i * (mean.length + 1)]!),
      )
      const prediction = saturateAll(configurations, { mean, variance })
      const next = drawJoint(joint, rng)
      return ({ factor, from } = { factor: 1, from: 0 }) =>
        next().map((value, i) => {
          const z = (value - mean[i]!) / Math.sqrt(variance[i]!)
          return mean[i]! + quantileOffset(prediction, i, i >= from ? factor * z : z)
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
