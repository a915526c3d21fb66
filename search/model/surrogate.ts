import { logCdf } from '../gp/normal.ts'
import { createTrainingPoint, type TrainingPoint } from '../gp/training-points.ts'
import { memoise, memoiseLastTrial } from '../memoise.ts'
import type { Configuration, Observation, Problem, Rng } from '../types.ts'
import { createConstraintPoints } from './constraint.ts'
import { createConstraintPrior, createRatePrior } from './device-model-prior.ts'
import { createEarlierTrialsPrior } from './earlier-trials.ts'
import { createMemoryFitPredictor, minServesProbability, type Predictions } from './feasibility.ts'
import { type DeviationInflation, fitQuantityModel, servesLatent } from './quantity-model.ts'

/**
 * The surrogate of a problem after some trials. It has one Gaussian process for ln rate, one for
 * the constraint, and one for whether a configuration serves.
 */
export interface Surrogate {
  /**
   * Marginal predictions of m configurations. Approximate ones use a subset of many observations,
   * and ignore the limits on further gains of the rate (saturating-predictive.ts).
   */
  predict(configurations: readonly Configuration[], accuracy?: 'approximate'): Predictions
  /** Joint posterior draws of the noise-free functions. */
  sampleJoint(configurations: readonly Configuration[], rng: Rng): JointDraws
  readonly warnings: readonly string[]
  /** An informative prior of ln rate (else of the constraint) is part of the model. */
  readonly isPriorAccepted: boolean
}

/** One draw of ln rate and of the constraint, m; undefined for an unmeasured quantity. */
interface JointDraw {
  readonly rate?: Float64Array
  readonly constraint?: Float64Array
}
interface JointDraws {
  /** The next draw; `inflation` inflates its deviations from the mean. */
  next(inflation?: DeviationInflation): JointDraw
  /** ln P(serves), m; independent of the draws. */
  readonly logServes: Float64Array
}

/** Fits the surrogate. Memoised for the last trial where nothing is pending. */
export function fitSurrogate(
  problem: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[],
): Surrogate {
  return pending.length > 0
    ? buildSurrogate(problem, observations, pending)
    : buildLastSurrogate(problem, observations)
}

const buildLastSurrogate = memoiseLastTrial((problem, observations) =>
  buildSurrogate(problem, observations, []),
)

/** Fits the models. Pending configurations enter at their predicted mean (kriging believer). */
function buildSurrogate(
  problem: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[],
): Surrogate {
  const { earlier, space } = problem
  const rate = fitQuantityModel(problem, 'rate', createRatePoints(observations), pending, [
    (points) => createRatePrior(problem, points),
    () => earlier && createEarlierTrialsPrior(earlier, space),
  ])
  const constraint = fitQuantityModel(
    problem,
    'constraint',
    createConstraintPoints(problem, observations),
    pending,
    [() => createConstraintPrior(problem)],
  )
  const serves = fitServes(problem, observations)
  // The stop rule predicts the same list twice.
  const predictWith = (accuracy?: 'approximate') =>
    memoise(
      (configurations: readonly Configuration[]): Predictions => ({
        rate: rate?.predict(configurations, accuracy),
        constraint: constraint?.predict(configurations, accuracy),
        logServes: serves.computeLogProbability(configurations),
      }),
    )
  const predictors = { exact: predictWith(), approximate: predictWith('approximate') }
  return {
    predict: (configurations, accuracy) => predictors[accuracy ?? 'exact'](configurations),
    sampleJoint(configurations, rng) {
      const nextRate = rate?.createSampler(configurations, rng.fork('rate'))
      const nextConstraint = constraint?.createSampler(configurations, rng.fork('constraint'))
      return {
        next: (inflation) => ({
          rate: nextRate?.(inflation),
          constraint: nextConstraint?.(inflation),
        }),
        logServes: serves.computeLogProbability(configurations),
      }
    },
    warnings: [rate, constraint, serves].flatMap((model) => model?.warning ?? []),
    // Without data, nothing rejects the prior.
    isPriorAccepted: (rate ?? constraint)?.hasPrior ?? problem.priorLogRate !== undefined,
  }
}

/**
 * Creates points of the ln rate of each trial that served; the rate of a pruned trial is an upper
 * bound.
 */
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

/**
 * A trial whose rate is 0 does not serve within the SLO; its logarithm is no training point. A rate
 * that was not measured is no failure.
 */
const hasServed = (o: Observation): boolean => o.state === 'complete' && o.rate?.value !== 0

/** Fits a probit regression of whether a configuration serves, from the first failure on. */
function fitServes(
  problem: Problem,
  observations: readonly Observation[],
): {
  readonly warning?: string
  readonly computeLogProbability: (configurations: readonly Configuration[]) => Float64Array
} {
  const predictLogMemoryFit = createMemoryFitPredictor(problem, observations)
  const toPoint = (o: Observation): TrainingPoint => ({
    configuration: o.configuration,
    target: 0,
    bound: hasServed(o) ? 'lower' : 'upper',
    noise: servesLatent.probitScale ** 2,
  })
  const model = observations.every(hasServed)
    ? undefined
    : fitQuantityModel(problem, 'serves', observations.map(toPoint), [], [])
  if (model === undefined)
    return {
      computeLogProbability: (configurations) =>
        Float64Array.from(configurations, predictLogMemoryFit),
    }
  return {
    warning: model.warning,
    computeLogProbability(configurations) {
      const latent = model.predict(configurations)
      // All three estimates come from the same trials, so they are not independent: their minimum
      // counts, not their product.
      return latent.mean.map((mean, i) =>
        Math.min(
          logCdf(mean / Math.sqrt(servesLatent.probitScale ** 2 + latent.variance[i]!)),
          Math.log(
            Math.max(minServesProbability, problem.servesProbability?.(configurations[i]!) ?? 1),
          ),
          predictLogMemoryFit(configurations[i]!),
        ),
      )
    },
  }
}
