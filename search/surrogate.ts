import { type CoupledModel, fitCoupled } from './coupled.ts'
import { believedReadings, type Datum, datum, gpDataOf, priorsOf } from './datum.ts'
import { createDesign, type Design, type Knowledge, type Quantity } from './design.ts'
import { type Beliefs, logFeasible, monotoneDoubt } from './feasibility.ts'
import { condition, type Gp } from './gp-regression.ts'
import { cholesky } from './linalg.ts'
import { logCdf } from './normal.ts'
import { learnsOf } from './objective.ts'
import { logMetric } from './observed-cost.ts'
import { fitReadings } from './one-sided.ts'
import { calibratePhysics } from './physics-prior.ts'
import { rememberedPerTrial } from './remembered.ts'
import { pastKnowledge } from './transfer.ts'
import type { Configuration, Observation, Problem, Rng } from './types.ts'

/** The models of a problem after some trials: one Gaussian process for ln rate, one for the constraint, one that tells what cannot serve. */
export interface Surrogate {
  /** Marginal beliefs about m configurations. */
  believe(configurations: readonly Configuration[], how?: 'exactly' | 'roughly'): Beliefs
  /** Joint draws of the noise-free functions: ln rate and constraint, each `count` rows of m, undefined where nothing was ever measured of it. */
  draw(configurations: readonly Configuration[], count: number, rng: Rng): Draws
  readonly warnings: readonly string[]
  /** Physics or past experiments inform the model, and the data do not contradict them. */
  readonly informed: boolean
}
export interface Draws {
  readonly rate?: readonly Float64Array[]
  readonly constraint?: readonly Float64Array[]
  readonly logServes: Float64Array
}

/** Parts that can be taken out, for the ablation. */
export interface SurrogateOptions {
  /** More of a resource may well hurt. */
  readonly withoutMonotone?: boolean
  /** Models rate and latency apart. */
  readonly withoutLittle?: boolean
  /** Models the constraint's figure however far from the limit. */
  readonly withoutBounds?: boolean
}

/** A latent quantity is positive where a configuration serves; s of its likelihood Φ(± f / s), and the prior of its variance (LogNormal). */
const SERVING = { s: 0.3, signal: [-1, 1] as const }
/** Where only the limit is asked about, a constraint missed or met by more than a factor e is known to be that much: figures far off would bend the boundary. */
const FAR = 1
/** How sharp that is, as a standard deviation of ln(metric). */
const FAR_SD = 0.05
/** More observations than this are modelled apart: each alone then tells enough, and two outputs cost four to eight times as much. */
const COUPLED = 40
/** ln of how much likelier the data must be under Little's law. */
const COUPLED_ODDS = 3

/** The modelled constraint: ln(metric / limit), met where ≤ 0; plain ln(metric) without a limit. */
const constraintTarget = (problem: Problem, logValue: number): number => logValue - Math.log(problem.constraintLimit ?? 1)

/** Whether the metric is beyond a factor e of its limit, and no more. */
function bounded(reading: Datum): Datum {
  if (Math.abs(reading.target) <= FAR) return reading
  const [target, bound] = reading.target > 0 ? ([FAR, 'least'] as const) : ([-FAR, 'most'] as const)
  return { at: reading.at, target, bound, noise: FAR_SD ** 2 }
}

const serves = (o: Observation): boolean => o.state === 'complete' && o.rate?.value !== 0
const label = (o: Observation): Datum => ({ at: o.configuration, target: 0, bound: serves(o) ? 'least' : 'most', noise: SERVING.s ** 2 })

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

const fitAsShipped = rememberedPerTrial((problem, observations) => fitModels(problem, observations, [], asShipped))

/** Fits the models. Pending configurations are believed to turn out at their predicted mean. */
function fitModels(
  problem: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[],
  options: SurrogateOptions,
): Surrogate {
  const complete = observations.filter((o) => o.state === 'complete')
  const rates = complete.flatMap((o) =>
    o.rate && o.rate.value > 0 ? datum(o.configuration, Math.log(o.rate.value), o.rate, o.censored ? 'most' : undefined) : [],
  )
  const readings = complete.flatMap((o) =>
    o.constraint ? datum(o.configuration, constraintTarget(problem, logMetric(problem, o.constraint.value)), o.constraint) : [],
  )
  const boundaryAlone = learnsOf(problem.objective) === 'nothing' && problem.constraintLimit !== undefined && !options.withoutBounds
  const constraints = boundaryAlone ? readings.map(bounded) : readings
  const labels = observations.map(label)
  const past = problem.history ? pastKnowledge(problem.history, problem.space, rates) : undefined
  const rate = fitBest(problem, 'rate', rates, pending, [ratePhysics(problem, rates), past])
  const constraint = fitBest(problem, 'constraint', constraints, pending, [constraintPhysics(problem)])
  const apart = (rate?.gp.logLikelihood ?? 0) + (constraint?.gp.logLikelihood ?? 0)
  const little = littleModel(problem, rates, constraints, pending, options)
  const coupled = little && little.logLikelihood - COUPLED_ODDS >= apart ? little : undefined
  const serving = observations.every(serves) ? undefined : fitBest(problem, 'serves', labels, [], [])
  const logServes = (configurations: readonly Configuration[]): Float64Array => {
    const latent = serving?.gp.predict(serving.rows(configurations))
    return Float64Array.from(configurations, (_, i) =>
      latent ? logCdf(latent.mean[i]! / Math.sqrt(SERVING.s ** 2 + latent.variance[i]!)) : 0,
    )
  }
  const of = (model: Model | undefined, configurations: readonly Configuration[], how: 'exactly' | 'roughly') =>
    how === 'exactly' ? model?.gp.predict(model.rows(configurations)) : model?.gp.predictRoughly(model.rows(configurations))
  const byModels = (configurations: readonly Configuration[], how: 'exactly' | 'roughly'): Beliefs => ({
    ...(coupled?.predict(configurations) ?? { rate: of(rate, configurations, how), constraint: of(constraint, configurations, how) }),
    logServes: logServes(configurations),
  })
  const doubt = options.withoutMonotone
    ? () => undefined
    : monotoneDoubt(problem, observations, (tried) => logFeasible(problem, byModels(tried, 'exactly')))
  const believe = (configurations: readonly Configuration[], how: 'exactly' | 'roughly' = 'exactly'): Beliefs => {
    const beliefs = byModels(configurations, how)
    const doubts = doubt(configurations, logFeasible(problem, beliefs))
    return doubts ? { ...beliefs, logServes: beliefs.logServes.map((v, i) => v + doubts[i]!) } : beliefs
  }
  return {
    believe,
    draw(configurations, count, rng) {
      const { logServes } = believe(configurations)
      if (coupled) {
        const m = configurations.length
        const both = drawJoint(coupled.joint(configurations), count, rng.fork('coupled'))
        return { rate: both.map((row) => row.subarray(0, m)), constraint: both.map((row) => row.subarray(m)), logServes }
      }
      return {
        rate: rate && drawJoint(rate.gp.joint(rate.rows(configurations)), count, rng.fork('rate')),
        constraint: constraint && drawJoint(constraint.gp.joint(constraint.rows(configurations)), count, rng.fork('constraint')),
        logServes,
      }
    },
    warnings: [coupled?.warning, ...(coupled ? [] : [rate?.gp.warning, constraint?.gp.warning]), serving?.gp.warning].flatMap(
      (w) => w ?? [],
    ),
    informed: coupled ? false : ((rate ?? constraint)?.informed ?? problem.priorLogRate !== undefined),
  }
}

function drawJoint({ mean, covariance }: { mean: Float64Array; covariance: Float64Array }, count: number, rng: Rng): Float64Array[] {
  const m = mean.length
  for (let i = 0; i < m; i++) covariance[i * m + i] = covariance[i * m + i]! * (1 + 1e-6) + 1e-8
  const l = cholesky(covariance, m)
  if (!l) throw new Error(`the joint posterior of ${m} configurations is not positive definite`)
  return Array.from({ length: count }, () => {
    const z = Float64Array.from({ length: m }, () => rng.normal())
    return mean.map((value, i) => {
      let sum = value
      for (let k = 0; k <= i; k++) sum += l[i * m + k]! * z[k]!
      return sum
    })
  })
}

/** Rate and latency as one. */
function littleModel(
  problem: Problem,
  rates: readonly Datum[],
  constraints: readonly Datum[],
  pending: readonly Configuration[],
  { withoutLittle }: SurrogateOptions,
): CoupledModel | undefined {
  if (withoutLittle || !problem.constraintAtRate || problem.priorLogRate || rates.length === 0 || constraints.length === 0) return undefined
  if (rates.length > COUPLED || [...rates, ...constraints].some((d) => d.bound)) return undefined
  return fitCoupled(problem, rates, constraints, pending)
}

interface Model {
  readonly gp: Gp
  rows: Design['rows']
  /** Outside knowledge is part of it. */
  readonly informed: boolean
}

/** The model with outside knowledge under which the data are likeliest, unless they are much likelier without any: wrong knowledge must not cost more than a few trials. */
function fitBest(
  problem: Problem,
  quantity: Quantity,
  data: readonly Datum[],
  pending: readonly Configuration[],
  knowledge: readonly (Knowledge | undefined)[],
): Model | undefined {
  const informed = knowledge.flatMap((known) => {
    if (!known) return []
    const model = fitModel(quantity, createDesign(problem, quantity, known), data, pending, known)
    return [{ model, odds: model.gp.logLikelihood - known.burden }]
  })
  const best = informed.sort((a, b) => b.odds - a.odds)[0]
  if (data.length === 0) return best?.model
  const plain = fitModel(quantity, createDesign(problem, quantity), data, pending)
  return best && best.odds >= plain.gp.logLikelihood ? best.model : plain
}

function fitModel(
  quantity: Quantity,
  { shape, groups, rows }: Design,
  data: readonly Datum[],
  pending: readonly Configuration[],
  known?: Knowledge,
): Model {
  const rowsOf = (readings: readonly Datum[]) => rows(readings.map((r) => r.at))
  const priors = { ...priorsOf(groups, known), ...(quantity === 'serves' ? { signal: SERVING.signal } : {}) }
  const { gp, sites } = fitReadings(shape, rowsOf(data), data, priors)
  const informed = known !== undefined
  if (pending.length === 0) return { gp, rows, informed }
  const all = [...sites, ...believedReadings(pending, gp.predict(rows(pending)).mean)]
  return { gp: { ...condition(shape, gpDataOf(rowsOf(all), all), gp.hyperparameters), warning: gp.warning }, rows, informed }
}

/** Of a physics prior: its offset and scale, what it misses of the trend, and the residual's variance (LogNormal). */
const PHYSICS = { burden: -2, offsetSd: 0.2, scaleSd: 0.05, correction: 0.1, signal: [Math.log(0.003), 1] as const }

/** The physics of ln rate around its factors as the trials calibrate them: ln rate moves by sensitivity × (ln factor - calibrated ln factor). */
function ratePhysics(problem: Problem, data: readonly Datum[]): Knowledge | undefined {
  const { priorLogRate, priorFactors } = problem
  if (!priorLogRate) return undefined
  const moved = priorFactors && calibratePhysics(priorFactors, data)
  const logRate = moved?.logRate ?? priorLogRate
  const { scaleSd, ...physics } = PHYSICS
  return {
    slopes: [[1, scaleSd], ...(moved?.logFactors ?? []).map((v, i) => [-v, priorFactors!.sd[i]!] as const)],
    columns: (configurations) => configurations.map((c) => [logRate(c) ?? 0, ...(moved?.sensitivities(c) ?? [])]),
    ...physics,
  }
}

function constraintPhysics(problem: Problem): Knowledge | undefined {
  const { priorLogConstraint } = problem
  if (!priorLogConstraint) return undefined
  const { scaleSd, ...physics } = PHYSICS
  const expected = (c: Configuration) => {
    const logValue = priorLogConstraint(c)
    return logValue === undefined ? 0 : constraintTarget(problem, logValue)
  }
  return { slopes: [[1, scaleSd]], columns: (configurations) => configurations.map((c) => [expected(c)]), ...physics }
}
