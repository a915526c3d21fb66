import { fitReadings } from '../gp/censored.ts'
import { defaultPriors, type HyperPriors } from '../gp/fit.ts'
import { cholesky, dot } from '../gp/linalg.ts'
import { logCdf } from '../gp/normal.ts'
import { LEAST_VARIANCE } from '../gp/posterior.ts'
import { condition, type Gp } from '../gp/regression.ts'
import { believedReadings, type Datum, datum, gpDataOf } from '../gp/training-points.ts'
import type { Marginals } from '../gp/types.ts'
import { remembered, rememberedPerTrial } from '../memoise.ts'
import { learnsOf } from '../objective.ts'
import { logMetric } from '../observed-cost.ts'
import type { Configuration, Observation, Problem, Rng } from '../types.ts'
import { calibratePhysics } from './calibration.ts'
import {
  createDesign,
  type Design,
  type Knowledge,
  type Quantity,
  representatives,
} from './design-matrix.ts'
import { earlierKnowledge } from './earlier-trials.ts'
import type { Beliefs } from './feasibility.ts'
import { above, type BentNormal, bent } from './saturating-predictive.ts'

/**
 * The models of a problem after some trials: one Gaussian process for ln rate, one for the
 * constraint, one that tells what cannot serve.
 */
export interface Surrogate {
  /**
   * Marginal beliefs about m configurations; roughly: as wide above their mean as below it, and
   * from some of the trials where there are many.
   */
  believe(configurations: readonly Configuration[], how?: 'roughly'): Beliefs
  /**
   * Joint draws of the noise-free functions, one after the other. @param widths times as wide as is
   * believed that deviations of each are taken; absent: 1
   */
  draw(configurations: readonly Configuration[], rng: Rng, widths?: readonly number[]): Draws
  readonly warnings: readonly string[]
  /** Physics or earlier trials inform the model, and the data do not contradict them. */
  readonly informed: boolean
}
/**
 * ln rate and constraint of each configuration, undefined where nothing was ever measured of it.
 */
interface Drawn {
  readonly rate?: Float64Array
  readonly constraint?: Float64Array
}
interface Draws {
  /** Another each time. */
  next(): Drawn
  readonly logServes: Float64Array
}

/** Parts that can be taken out, for the ablation. */
export interface SurrogateOptions {
  /** Models the constraint's figure however far from the limit. */
  readonly withoutBounds?: boolean
  /**
   * Variance of what a configuration has of its own in ln(rate) and ln(constraint), beyond what
   * those beside it tell. Absent: 0.
   */
  readonly ownVariance?: number
}

/**
 * A latent quantity is positive where a configuration serves; s of its likelihood Φ(± f / s), and
 * the prior of its variance (LogNormal).
 */
const SERVING = { s: 0.3, signal: [-1, 1] as const }
/**
 * Where only the limit is asked about, a constraint missed or met by more than a factor e is known
 * to be that much: figures far off would bend the boundary.
 */
const FAR = 1
/** How sharp that is, as a standard deviation of ln(metric). */
const FAR_SD = 0.05

/** The modelled constraint: ln(metric / limit), met where ≤ 0; plain ln(metric) without a limit. */
const constraintTarget = (problem: Problem, logValue: number): number =>
  logValue - Math.log(problem.constraintLimit ?? 1)

/** Whether the metric is beyond a factor e of its limit, and no more. */
function bounded(reading: Datum): Datum {
  if (Math.abs(reading.target) <= FAR) return reading
  const [target, bound] = reading.target > 0 ? ([FAR, 'least'] as const) : ([-FAR, 'most'] as const)
  return { at: reading.at, target, bound, noise: FAR_SD ** 2 }
}

const serves = (o: Observation): boolean => o.state === 'complete' && o.rate?.value !== 0
const label = (o: Observation): Datum => ({
  at: o.configuration,
  target: 0,
  bound: serves(o) ? 'least' : 'most',
  noise: SERVING.s ** 2,
})

/** Nothing taken out. */
export const asShipped: SurrogateOptions = {}

/** `fitModels`, remembered for each trial unless something is pending or taken out. */
export function fitSurrogate(
  problem: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[],
  options: SurrogateOptions = asShipped,
): Surrogate {
  return pending.length > 0 || options !== asShipped
    ? fitModels(problem, observations, pending, options)
    : fitAsShipped(problem, observations)
}

const fitAsShipped = rememberedPerTrial((problem, observations) =>
  fitModels(problem, observations, [], asShipped),
)

/** Fits the models. Pending configurations are believed to turn out at their predicted mean. */
function fitModels(
  problem: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[],
  options: SurrogateOptions,
): Surrogate {
  const complete = observations.filter((o) => o.state === 'complete')
  const rates = complete.flatMap((o) =>
    o.rate && o.rate.value > 0
      ? datum(o.configuration, Math.log(o.rate.value), o.rate, o.censored ? 'most' : undefined)
      : [],
  )
  const readings = complete.flatMap((o) =>
    o.constraint
      ? datum(
          o.configuration,
          constraintTarget(problem, logMetric(problem, o.constraint.value)),
          o.constraint,
        )
      : [],
  )
  const boundaryAlone =
    learnsOf(problem.objective) === 'nothing' &&
    problem.constraintLimit !== undefined &&
    !options.withoutBounds
  const constraints = boundaryAlone ? readings.map(bounded) : readings
  const labels = observations.map(label)
  const earlier = problem.earlier && earlierKnowledge(problem.earlier, problem.space)
  const { ownVariance } = options
  const rate = fitBest(
    problem,
    'rate',
    rates,
    pending,
    [ratePhysics(problem, rates), earlier],
    ownVariance,
  )
  const constraint = fitBest(
    problem,
    'constraint',
    constraints,
    pending,
    [constraintPhysics(problem)],
    ownVariance,
  )
  const serving = observations.every(serves)
    ? undefined
    : fitBest(problem, 'serves', labels, [], [])
  const logFits = logFitsMemory(problem, observations)
  const logServes = (configurations: readonly Configuration[]): Float64Array => {
    const latent = serving?.gp.predict(serving.rows(configurations))
    if (latent === undefined) return Float64Array.from(configurations, logFits)
    // All were taught by the same trials: the one that doubts most is believed, not their product.
    return latent.mean.map((mean, i) =>
      Math.min(
        logCdf(mean / Math.sqrt(SERVING.s ** 2 + latent.variance[i]!)),
        Math.log(Math.max(LEAST_SERVES, problem.probablyServes?.(configurations[i]!) ?? 1)),
        logFits(configurations[i]!),
      ),
    )
  }
  const beliefs = (
    how: 'predict' | 'predictRoughly',
    configurations: readonly Configuration[],
  ): Beliefs => {
    const marginals = rate?.gp[how](rate.rows(configurations))
    return {
      rate:
        marginals && (how === 'predict' ? bending(rate!, configurations, marginals) : marginals),
      constraint: constraint?.gp[how](constraint.rows(configurations)),
      logServes: logServes(configurations),
    }
  }
  // Of the same list the stop rule asks twice.
  const roughly = remembered((configurations: readonly Configuration[]) =>
    beliefs('predictRoughly', configurations),
  )
  const exactly = remembered((configurations: readonly Configuration[]) =>
    beliefs('predict', configurations),
  )
  return {
    believe: (configurations, how) => (how === 'roughly' ? roughly : exactly)(configurations),
    draw: (configurations, rng, widths) => {
      const of = (model: Model | undefined, seed: string) => {
        const drawn = model?.gp.joint(model.rows(configurations))
        return drawn && bentDraws(model!, configurations, drawn, widths, rng.fork(seed))
      }
      const nextRate = of(rate, 'rate')
      const nextConstraint = of(constraint, 'constraint')
      return {
        next: () => ({ rate: nextRate?.(), constraint: nextConstraint?.() }),
        logServes: logServes(configurations),
      }
    },
    warnings: [rate, constraint, serving].flatMap((model) => model?.gp.warning ?? []),
    informed: (rate ?? constraint)?.informed ?? problem.priorLogRate !== undefined,
  }
}

const LEAST_SERVES = 1e-9

/**
 * ln P(the memory suffices), given that it did for those that served: what is likelier to have
 * enough than one that had has it too.
 */
function logFitsMemory(
  { fitsMemory }: Problem,
  observations: readonly Observation[],
): (configuration: Configuration) => number {
  if (fitsMemory === undefined) return () => 0
  const logFits = (c: Configuration) => Math.log(Math.max(LEAST_SERVES, fitsMemory(c)))
  const least = observations.reduce(
    (low, o) => (o.state === 'complete' ? Math.min(low, logFits(o.configuration)) : low),
    0,
  )
  return (c) => Math.min(0, logFits(c) - least)
}

const bending = (
  { gp, rise }: Model,
  configurations: readonly Configuration[],
  marginals: Marginals,
): BentNormal =>
  rise ? bent(marginals, configurations, gp.hyperparameters.signalVariance, rise) : marginals

/**
 * `jointDraws`, deviations so many times as wide, and as far above the mean as the model allows.
 */
function bentDraws(
  model: Model,
  configurations: readonly Configuration[],
  joint: Joint,
  widths: readonly number[] | undefined,
  rng: Rng,
): () => Float64Array {
  const { mean, covariance } = joint
  const variance = mean.map((_, i) => Math.max(LEAST_VARIANCE, covariance[i * (mean.length + 1)]!))
  const belief = bending(model, configurations, { mean, variance })
  const luckPerUnit = variance.map((v, i) => (widths?.[i] ?? 1) / Math.sqrt(v))
  const next = jointDraws(joint, rng)
  return () =>
    next().map((drawn, i) => mean[i]! + above(belief, i, luckPerUnit[i]! * (drawn - mean[i]!)))
}

interface Joint {
  readonly mean: Float64Array
  readonly covariance: Float64Array
}

/**
 * One draw after the other, all of them into one array. @throws Error where the posterior is not
 * positive definite
 */
function jointDraws({ mean, covariance }: Joint, rng: Rng): () => Float64Array {
  const m = mean.length
  for (let i = 0; i < m; i++) covariance[i * m + i] = covariance[i * m + i]! * (1 + 1e-6) + 1e-8
  const l = cholesky(covariance, m)
  if (!l) throw new Error(`the joint posterior of ${m} configurations is not positive definite`)
  const z = new Float64Array(m)
  const drawn = new Float64Array(m)
  return () => {
    for (let i = 0; i < m; i++) z[i] = rng.normal()
    for (let i = 0; i < m; i++) drawn[i] = mean[i]! + dot(l, i * m, z, 0, i + 1)
    return drawn
  }
}

interface Model extends Pick<Knowledge, 'rise'> {
  readonly gp: Gp
  rows: Design['rows']
  /** Outside knowledge is part of it. */
  readonly informed: boolean
}

/**
 * The model with outside knowledge under which the data are likeliest, unless they are much
 * likelier without any: wrong knowledge must not cost more than a few trials.
 */
function fitBest(
  problem: Problem,
  quantity: Quantity,
  data: readonly Datum[],
  pending: readonly Configuration[],
  knowledge: readonly (Knowledge | undefined)[],
  ownVariance?: number,
): Model | undefined {
  const designed = (known?: Knowledge) =>
    withOwn(createDesign(problem, quantity, known), ownVariance)
  const informed = knowledge.flatMap((known) => {
    if (!known) return []
    const model = fitModel(quantity, designed(known), data, pending, known)
    return [{ model, odds: model.gp.logLikelihood - known.burden }]
  })
  const best = informed.sort((a, b) => b.odds - a.odds)[0]
  if (data.length === 0) return best?.model
  const plain = fitModel(quantity, designed(), data, pending)
  return best && best.odds >= plain.gp.logLikelihood ? best.model : plain
}

const withOwn = (design: Design, ownVariance: number | undefined): Design =>
  ownVariance === undefined ? design : { ...design, shape: { ...design.shape, ownVariance } }

function fitModel(
  quantity: Quantity,
  { shape, groups, rows }: Design,
  data: readonly Datum[],
  pending: readonly Configuration[],
  known?: Knowledge,
): Model {
  const rowsOf = (readings: readonly Datum[]) => rows(readings.map((r) => r.at))
  const priors = {
    ...priorsOf(groups, known),
    ...(quantity === 'serves' ? { signal: SERVING.signal } : {}),
  }
  const { gp, sites } = fitReadings(shape, rowsOf(data), data, priors)
  const informed = known !== undefined
  const { rise } = known ?? {}
  if (pending.length === 0) return { gp, rows, informed, rise }
  const all = [...sites, ...believedReadings(pending, gp.predict(rows(pending)).mean)]
  return {
    gp: {
      ...condition(shape, gpDataOf(rowsOf(all), all), gp.hyperparameters),
      warning: gp.warning,
    },
    rows,
    informed,
    rise,
  }
}

/**
 * The default priors, with the residual's variance where outside knowledge says how small it is.
 */
function priorsOf(groups: number, known?: Knowledge): HyperPriors {
  const priors = defaultPriors(groups)
  return known?.signal ? { ...priors, signal: known.signal } : priors
}

/**
 * Of a physics prior: its offset and scale, what it misses of the trend, and the residual's
 * variance (LogNormal).
 */
const PHYSICS = {
  burden: -2,
  offsetSd: 0.1,
  scaleSd: 0.05,
  correction: 0.1,
  signal: [Math.log(0.003), 1] as const,
}

/**
 * The physics of ln rate around its factors as the trials calibrate them: ln rate moves by
 * sensitivity × (ln factor - calibrated ln factor).
 */
function ratePhysics(problem: Problem, data: readonly Datum[]): Knowledge | undefined {
  const { priorLogRate, priorFactors } = problem
  if (!priorLogRate) return undefined
  const moved = priorFactors && calibratePhysics(priorFactors, data)
  const logRate = moved?.logRate ?? priorLogRate
  const { scaleSd, ...physics } = PHYSICS
  const centre = centreOf(problem)
  return {
    slopes: [CERTAIN, [0, scaleSd], ...(moved?.offsets ?? [])],
    columns: (configurations) =>
      configurations.map((c) => {
        const expected = logRate(c) ?? centre
        return [expected, expected - centre, ...(moved?.sensitivities(c) ?? [])]
      }),
    rise: moved?.rise,
    ...physics,
  }
}

/** A column that enters as it is. */
const CERTAIN = [1, 0] as const

/**
 * Mean of what physics expects of ln rate over the space: a scale that is off turns around it, and
 * shifts nothing as a whole.
 */
const centreOf = remembered((problem: Problem): number => {
  const expected = representatives(problem).flatMap((c) => problem.priorLogRate?.(c) ?? [])
  return expected.reduce((sum, value) => sum + value, 0) / Math.max(1, expected.length)
})

function constraintPhysics(problem: Problem): Knowledge | undefined {
  const { priorLogConstraint } = problem
  if (!priorLogConstraint) return undefined
  const { scaleSd, ...physics } = PHYSICS
  const expected = (c: Configuration) => {
    const logValue = priorLogConstraint(c)
    return logValue === undefined ? 0 : constraintTarget(problem, logValue)
  }
  return {
    slopes: [[1, scaleSd]],
    columns: (configurations) => configurations.map((c) => [expected(c)]),
    ...physics,
  }
}
