/** The Gaussian process of one modelled quantity, with the informative prior that suits it best. */
import { fitCensoredGp } from '../gp/censored.ts'
import { defaultPriors, type HyperPriors, modalHyperparameters } from '../gp/fit.ts'
import { logCdf } from '../gp/normal.ts'
import { conditionGp, type Gp } from '../gp/regression.ts'
import { createFantasies, type TrainingPoint, toGpData } from '../gp/training-points.ts'
import type { Hyperparameters } from '../gp/types.ts'
import { memoise } from '../memoise.ts'
import { createRng } from '../rng.ts'
import type { Configuration, Problem, Rng } from '../types.ts'
import { createDesign, type Design, type Quantity } from './design-matrix.ts'
import { sampleFactorPosterior } from './factor-posterior.ts'
import type { InformativePrior, UncertainMean } from './informative-prior.ts'
import { drawJoint } from './joint-draws.ts'
import { mix, type Predictive } from './predictive.ts'

interface QuantityModel {
  /** An informative prior is part of the model. */
  readonly hasPrior: boolean
  /** ln evidence of the training points. */
  readonly logEvidence: number
  readonly warning?: string
  /** Predictions of the noise-free quantity. Approximate ones use a subset of the data and draws. */
  predict(configurations: readonly Configuration[], accuracy?: 'approximate'): Predictive
  /** Joint posterior draws of the noise-free quantity. */
  draw(configurations: readonly Configuration[], rng: Rng): (widening?: Widening) => Float64Array
}

/**
 * Widens a joint draw: the Gaussian process deviates from its mean by `factor` times as much, for
 * configurations from the index `from` on. Draws of a device model's factors stay as they are.
 */
export interface Widening {
  readonly factor: number
  readonly from: number
}

const widenAt = (widening: Widening | undefined, i: number): number =>
  widening && i >= widening.from ? widening.factor : 1

/**
 * The latent function f of whether a configuration serves: likelihood Φ(± f / s), and the LogNormal
 * prior of its variance.
 */
export const servesLatent = { s: 0.3, signal: [-1, 1] as const }

/**
 * The model with the informative prior of the highest evidence, unless its Bayes factor against the
 * model without one is too small. A wrong prior therefore costs a few trials at most. Undefined
 * without data and prior.
 */
export function fitQuantityModel(
  problem: Problem,
  quantity: Quantity,
  points: readonly TrainingPoint[],
  pending: readonly Configuration[],
  priors: readonly (InformativePrior | undefined)[],
): QuantityModel | undefined {
  const fit = (prior?: InformativePrior) =>
    fitModel(quantity, createDesign(problem, quantity, prior), points, pending, prior)
  const informed = priors.flatMap((prior) => {
    if (!prior) return []
    const model = fit(prior)
    return [{ model, score: model.logEvidence - prior.minLogBayesFactor }]
  })
  const best = informed.sort((a, b) => b.score - a.score)[0]
  if (points.length === 0) return best?.model
  const uninformed = fit()
  return best && best.score >= uninformed.logEvidence ? best.model : uninformed
}

function fitModel(
  quantity: Quantity,
  design: Design,
  points: readonly TrainingPoint[],
  pending: readonly Configuration[],
  prior?: InformativePrior,
): QuantityModel {
  const priors = createHyperPriors(quantity, design.groups, prior)
  if (prior?.mean) return fitWithUncertainMean(design, points, pending, priors, prior.mean)
  const { gp, sites } = fitCensoredGp(
    design.spec,
    design.rows(points.map(({ at }) => at)),
    points,
    priors,
  )
  const { gp: conditioned } = addFantasies(design, gp, sites, pending)
  const { rows } = design
  return {
    hasPrior: prior !== undefined,
    logEvidence: gp.logLikelihood,
    warning: gp.warning,
    predict: (configurations, accuracy) =>
      accuracy === 'approximate'
        ? conditioned.predictFromSubset(rows(configurations))
        : conditioned.predict(rows(configurations)),
    draw(configurations, rng) {
      const joint = conditioned.joint(rows(configurations))
      const { mean } = joint
      const next = drawJoint(joint, rng)
      return (widening) => next().map((v, i) => mean[i]! + widenAt(widening, i) * (v - mean[i]!))
    },
  }
}

/** Every so many of the posterior draws of the factors make up an approximate prediction. */
const approximateStride = 8

/**
 * The model whose mean is a device model with uncertain factors. The Gaussian process models the
 * residual:
 *
 *   y = g(f) + δ + noise,   f ~ N(0, diag sd²),   δ ~ GP
 *
 * 1. Draws of f from the posterior at the modes of the hyperparameters' priors.
 * 2. Hyperparameters fitted to the mean residual of these draws.
 * 3. Draws of f from the posterior at these hyperparameters, with δ integrated out.
 * 4. One residual process for each draw. They share their covariance, so that only means differ.
 */
function fitWithUncertainMean(
  design: Design,
  points: readonly TrainingPoint[],
  pending: readonly Configuration[],
  priors: HyperPriors,
  { sd, at }: UncertainMean,
): QuantityModel {
  const { spec, rows } = design
  const X = rows(points.map((point) => point.at))
  const rng = createRng('device-model factors')
  const sample = (hyperparameters: Hyperparameters) =>
    sampleFactorPosterior(
      sd,
      createFactorLikelihood(design, points, hyperparameters, at),
      rng.fork('draws'),
    )
  const average = (draws: readonly (readonly number[])[]) => {
    const means = draws.map(at)
    return (c: Configuration) => means.reduce((sum, mean) => sum + mean(c), 0) / means.length
  }
  const fitResidual = (mean: (c: Configuration) => number) =>
    fitCensoredGp(
      spec,
      X,
      points.map((point) => ({ ...point, target: point.target - mean(point.at) })),
      priors,
    )
  const first = sample(modalHyperparameters(priors, design.groups))
  const { gp: firstResidual } = fitResidual(average(first.draws))
  const { draws, logEvidence } = sample(firstResidual.hyperparameters)
  const { gp, sites } = fitResidual(average(draws))
  const { gp: residual, at: trained } = addFantasies(design, gp, sites, pending)

  const means = draws.map(at)
  const evaluate = (of: readonly ((c: Configuration) => number)[]) =>
    memoise((c: Configuration) => Float64Array.from(of, (mean) => mean(c)))
  const coarse = means.filter((_, i) => i % approximateStride === 0)
  const meansAt = { exact: evaluate(means), approximate: evaluate(coarse) }
  const averageAt = Float64Array.from(trained, average(draws))

  /** Posterior mean in each draw: g + the residual that the draw leaves, S arrays of m. */
  const componentMeans = (
    configurations: readonly Configuration[],
    residualMean: Float64Array,
    accuracy: keyof typeof meansAt,
  ): Float64Array[] => {
    const of = meansAt[accuracy]
    const count = (accuracy === 'exact' ? means : coarse).length
    const trainedAt = trained.map(of)
    const changes = residual.respond(
      rows(configurations),
      Array.from({ length: count }, (_, s) =>
        averageAt.map((value, j) => value - trainedAt[j]![s]!),
      ),
    )
    const here = configurations.map(of)
    return changes.map((change, s) => change.map((v, i) => v + residualMean[i]! + here[i]![s]!))
  }
  return {
    hasPrior: true,
    logEvidence,
    warning: gp.warning,
    predict(configurations, accuracy) {
      const Z = rows(configurations)
      const { mean, variance } = accuracy ? residual.predictFromSubset(Z) : residual.predict(Z)
      const components = componentMeans(configurations, mean, accuracy ?? 'exact')
      return components.length === 1
        ? { mean: components[0]!, variance }
        : mix(components, variance)
    },
    draw(configurations, rng) {
      const joint = residual.joint(rows(configurations))
      const { mean } = joint
      const components = componentMeans(configurations, mean, 'exact')
      const next = drawJoint(joint, rng)
      let drawn = 0
      return (widening) => {
        const component = components[drawn++ % components.length]!
        return next().map((v, i) => component[i]! + widenAt(widening, i) * (v - mean[i]!))
      }
    },
  }
}

/**
 * ln p(points | f) with the residual integrated out. Exact points are jointly normal; given them,
 * each bound counts with its own probability.
 */
function createFactorLikelihood(
  { spec, rows }: Design,
  points: readonly TrainingPoint[],
  hyperparameters: Hyperparameters,
  meanAt: UncertainMean['at'],
): (f: readonly number[]) => number {
  const exact = points.filter(({ bound }) => bound === undefined)
  const bounds = points.filter(({ bound }) => bound !== undefined)
  const gp = conditionGp(spec, toGpData(rows(exact.map(({ at }) => at)), exact), hyperparameters)
  const boundRows = rows(bounds.map(({ at }) => at))
  const { variance } = gp.predict(boundRows)
  return (f) => {
    const mean = meanAt(f)
    const residuals = Float64Array.from(exact, ({ at, target }) => target - mean(at))
    const logLikelihood = gp.logLikelihoodOf(residuals)
    if (bounds.length === 0) return logLikelihood
    const [expected] = gp.respond(boundRows, [residuals])
    return bounds.reduce((sum, { at, target, bound, noise }, i) => {
      const excess = mean(at) + expected![i]! - target
      const z = excess / Math.sqrt(variance[i]! + noise)
      return sum + logCdf(bound === 'lower' ? z : -z)
    }, logLikelihood)
  }
}

/** The process with pending configurations at their predicted mean, and its training points. */
function addFantasies(
  { spec, rows }: Design,
  gp: Gp,
  sites: readonly TrainingPoint[],
  pending: readonly Configuration[],
): { readonly gp: Gp; readonly at: readonly Configuration[] } {
  if (pending.length === 0) return { gp, at: sites.map(({ at }) => at) }
  const all = [...sites, ...createFantasies(pending, gp.predict(rows(pending)).mean)]
  const at = all.map((point) => point.at)
  return { gp: conditionGp(spec, toGpData(rows(at), all), gp.hyperparameters), at }
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
