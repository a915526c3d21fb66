import { fitCensoredGp } from '../gp/censored.ts'
import { defaultPriors, type HyperPriors } from '../gp/fit.ts'
import { logCdf } from '../gp/normal.ts'
import { minPosteriorVariance } from '../gp/posterior.ts'
import { conditionGp, type Gp } from '../gp/regression.ts'
import {
  createFantasies,
  createTrainingPoint,
  type TrainingPoint,
  toGpData,
} from '../gp/training-points.ts'
import type { Marginals } from '../gp/types.ts'
import { memoise, memoiseLastTrial } from '../memoise.ts'
import type { Configuration, Observation, Problem, Rng } from '../types.ts'
import { createConstraintPoints } from './constraint.ts'
import { createDesign, type Design, type Quantity } from './design-matrix.ts'
import { createConstraintPrior, createRatePrior } from './device-model-prior.ts'
import { createEarlierTrialsPrior } from './earlier-trials.ts'
import { conditionMemoryFit, minServesProbability, type Predictions } from './feasibility.ts'
import type { InformativePrior } from './informative-prior.ts'
import { drawJoint, type JointNormal } from './joint-draws.ts'
import { quantileOffset, type SaturatingPredictive, saturate } from './saturating-predictive.ts'

/**
 * The surrogate of a problem after some trials. It has one Gaussian process for ln rate, one for
 * the constraint, and one for whether a configuration serves.
 */
export interface Surrogate {
  /**
   * Marginal predictions of m configurations. Approximate ones use a subset of many observations,
   * and ignore saturation.
   */
  predict(configurations: readonly Configuration[], accuracy?: 'approximate'): Predictions
  /**
   * Joint posterior draws of the noise-free functions.
   * @param widths factor on the deviation of each configuration from its mean; absent: 1
   */
  sampleJoint(
    configurations: readonly Configuration[],
    rng: Rng,
    widths?: readonly number[],
  ): JointDraws
  readonly warnings: readonly string[]
  /** An informative prior of ln rate (else of the constraint) is part of the model. */
  readonly priorAccepted: boolean
}

/** One draw of ln rate and of the constraint, m; undefined for an unmeasured quantity. */
interface JointDraw {
  readonly rate?: Float64Array
  readonly constraint?: Float64Array
}
interface JointDraws {
  /** The next draw; it overwrites the arrays of the last one. */
  next(): JointDraw
  /** ln P(serves), m; independent of the draws. */
  readonly logServes: Float64Array
}

/** Options of ablations and of the second model. */
export interface SurrogateOptions {
  /** Uses the exact value of constraint measurements far from the limit. */
  readonly withoutBounds?: boolean
  /** Nugget variance of ln rate and ln constraint. Absent: 0. */
  readonly nuggetVariance?: number
}

/**
 * The latent function f of whether a configuration serves: likelihood Φ(± f / s), and the LogNormal
 * prior of its variance.
 */
const servesLatent = { s: 0.3, signal: [-1, 1] as const }

export const defaultSurrogateOptions: SurrogateOptions = {}

/** Fits the surrogate. Memoised for the last trial, with default options and nothing pending. */
export function fitSurrogate(
  problem: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[],
  options: SurrogateOptions = defaultSurrogateOptions,
): Surrogate {
  return pending.length > 0 || options !== defaultSurrogateOptions
    ? buildSurrogate(problem, observations, pending, options)
    : buildDefaultSurrogate(problem, observations)
}

const buildDefaultSurrogate = memoiseLastTrial((problem, observations) =>
  buildSurrogate(problem, observations, [], defaultSurrogateOptions),
)

/** Fits the models. Pending configurations enter at their predicted mean (kriging believer). */
function buildSurrogate(
  problem: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[],
  options: SurrogateOptions,
): Surrogate {
  const { nuggetVariance } = options
  const ratePoints = createRatePoints(observations)
  const rate = fitBestModel(
    problem,
    'rate',
    ratePoints,
    pending,
    [
      createRatePrior(problem, ratePoints),
      problem.earlier && createEarlierTrialsPrior(problem.earlier, problem.space),
    ],
    nuggetVariance,
  )
  const constraint = fitBestModel(
    problem,
    'constraint',
    createConstraintPoints(problem, observations, options),
    pending,
    [createConstraintPrior(problem)],
    nuggetVariance,
  )
  const logServes = fitServes(problem, observations)

  const predict = (
    method: 'predict' | 'predictFromSubset',
    configurations: readonly Configuration[],
  ): Predictions => {
    const marginals = rate?.gp[method](rate.rows(configurations))
    return {
      rate:
        marginals &&
        (method === 'predict' ? saturateRate(rate!, configurations, marginals) : marginals),
      constraint: constraint?.gp[method](constraint.rows(configurations)),
      logServes: logServes.logProbability(configurations),
    }
  }
  // The stop rule predicts the same list twice.
  const predictApproximately = memoise((configurations: readonly Configuration[]) =>
    predict('predictFromSubset', configurations),
  )
  const predictExactly = memoise((configurations: readonly Configuration[]) =>
    predict('predict', configurations),
  )
  return {
    predict: (configurations, accuracy) =>
      (accuracy === 'approximate' ? predictApproximately : predictExactly)(configurations),
    sampleJoint: (configurations, rng, widths) => {
      const drawsOf = (model: FittedModel | undefined, stream: string) => {
        const joint = model?.gp.joint(model.rows(configurations))
        return joint && drawSaturating(model!, configurations, joint, widths, rng.fork(stream))
      }
      const nextRate = drawsOf(rate, 'rate')
      const nextConstraint = drawsOf(constraint, 'constraint')
      return {
        next: () => ({ rate: nextRate?.(), constraint: nextConstraint?.() }),
        logServes: logServes.logProbability(configurations),
      }
    },
    warnings: [rate?.gp, constraint?.gp, logServes.gp].flatMap((gp) => gp?.warning ?? []),
    priorAccepted: (rate ?? constraint)?.hasPrior ?? problem.priorLogRate !== undefined,
  }
}

/** ln rate of each trial that served; the rate of a pruned trial is an upper bound. */
const createRatePoints = (observations: readonly Observation[]): TrainingPoint[] =>
  observations.flatMap((o) =>
    o.state === 'complete' && o.rate && o.rate.value > 0
      ? createTrainingPoint(
          o.configuration,
          Math.log(o.rate.value),
          o.rate,
          o.censored ? 'upper' : undefined,
        )
      : [],
  )

const hasServed = (o: Observation): boolean => o.state === 'complete' && o.rate?.value !== 0

/** Probit regression of whether a configuration serves, from the first failure on. */
function fitServes(
  problem: Problem,
  observations: readonly Observation[],
): {
  readonly gp?: Gp
  readonly logProbability: (configurations: readonly Configuration[]) => Float64Array
} {
  const logFits = conditionMemoryFit(problem, observations)
  const model = observations.every(hasServed)
    ? undefined
    : fitBestModel(
        problem,
        'serves',
        observations.map(
          (o): TrainingPoint => ({
            at: o.configuration,
            target: 0,
            bound: hasServed(o) ? 'lower' : 'upper',
            noise: servesLatent.s ** 2,
          }),
        ),
        [],
        [],
      )
  if (model === undefined)
    return { logProbability: (configurations) => Float64Array.from(configurations, logFits) }
  return {
    gp: model.gp,
    logProbability(configurations) {
      const latent = model.gp.predict(model.rows(configurations))
      // All three estimates come from the same trials, so that their minimum counts, not their
      // product.
      return latent.mean.map((mean, i) =>
        Math.min(
          logCdf(mean / Math.sqrt(servesLatent.s ** 2 + latent.variance[i]!)),
          Math.log(
            Math.max(minServesProbability, problem.servesProbability?.(configurations[i]!) ?? 1),
          ),
          logFits(configurations[i]!),
        ),
      )
    },
  }
}

const saturateRate = (
  { gp, saturation }: FittedModel,
  configurations: readonly Configuration[],
  marginals: Marginals,
): SaturatingPredictive =>
  saturation
    ? saturate(marginals, configurations, gp.hyperparameters.signalVariance, saturation)
    : marginals

/** Joint draws whose deviations are widened, and then saturate above the mean. */
function drawSaturating(
  model: FittedModel,
  configurations: readonly Configuration[],
  joint: JointNormal,
  widths: readonly number[] | undefined,
  rng: Rng,
): () => Float64Array {
  const { mean, covariance } = joint
  const variance = mean.map((_, i) =>
    Math.max(minPosteriorVariance, covariance[i * (mean.length + 1)]!),
  )
  const prediction = saturateRate(model, configurations, { mean, variance })
  const zPerUnit = variance.map((v, i) => (widths?.[i] ?? 1) / Math.sqrt(v))
  const next = drawJoint(joint, rng)
  return () =>
    next().map(
      (value, i) => mean[i]! + quantileOffset(prediction, i, zPerUnit[i]! * (value - mean[i]!)),
    )
}

/** A fitted Gaussian process with the design of its rows. */
interface FittedModel extends Pick<InformativePrior, 'saturation'> {
  readonly gp: Gp
  rows: Design['rows']
  readonly hasPrior: boolean
}

/**
 * The model with the informative prior of the highest evidence, unless its Bayes factor against the
 * model without one is too small. A wrong prior therefore costs a few trials at most.
 */
function fitBestModel(
  problem: Problem,
  quantity: Quantity,
  points: readonly TrainingPoint[],
  pending: readonly Configuration[],
  priors: readonly (InformativePrior | undefined)[],
  nuggetVariance?: number,
): FittedModel | undefined {
  const designFor = (prior?: InformativePrior) =>
    withNugget(createDesign(problem, quantity, prior), nuggetVariance)
  const informed = priors.flatMap((prior) => {
    if (!prior) return []
    const model = fitModel(quantity, designFor(prior), points, pending, prior)
    return [{ model, score: model.gp.logLikelihood - prior.minLogBayesFactor }]
  })
  const best = informed.sort((a, b) => b.score - a.score)[0]
  if (points.length === 0) return best?.model
  const uninformed = fitModel(quantity, designFor(), points, pending)
  return best && best.score >= uninformed.gp.logLikelihood ? best.model : uninformed
}

const withNugget = (design: Design, nuggetVariance: number | undefined): Design =>
  nuggetVariance === undefined ? design : { ...design, spec: { ...design.spec, nuggetVariance } }

function fitModel(
  quantity: Quantity,
  { spec, groups, rows }: Design,
  points: readonly TrainingPoint[],
  pending: readonly Configuration[],
  prior?: InformativePrior,
): FittedModel {
  const encode = (some: readonly TrainingPoint[]) => rows(some.map((p) => p.at))
  const { gp, sites } = fitCensoredGp(
    spec,
    encode(points),
    points,
    createHyperPriors(quantity, groups, prior),
  )
  const model = { rows, hasPrior: prior !== undefined, saturation: prior?.saturation }
  if (pending.length === 0) return { gp, ...model }
  const all = [...sites, ...createFantasies(pending, gp.predict(rows(pending)).mean)]
  return {
    gp: {
      ...conditionGp(spec, toGpData(encode(all), all), gp.hyperparameters),
      warning: gp.warning,
    },
    ...model,
  }
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
