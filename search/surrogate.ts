import type { Matrix } from 'ml-matrix'
import { activeReadings } from './bounds.ts'
import { type CoupledModel, fitCoupled } from './coupled.ts'
import { believedReadings, type Datum, datum, gpDataOf, priorsOf } from './datum.ts'
import { createDesign, type Design, type DesignOptions, type Knowledge, type Quantity } from './design.ts'
import { hopeless } from './dominance.ts'
import { fitGp } from './gp-fit.ts'
import { condition, type Gp, type Marginals } from './gp-regression.ts'
import { cholesky } from './linalg.ts'
import { bilog, logCdf } from './normal.ts'
import { learnsOf } from './objective.ts'
import { logMetric } from './observed-cost.ts'
import { rememberedPerTrial } from './per-trial.ts'
import { calibratePhysics } from './physics-prior.ts'
import { pastKnowledge } from './transfer.ts'
import type { Configuration, Observation, Problem, Rng } from './types.ts'

/** Beliefs about m configurations: ln rate, transformed constraint (≤ 0 is met), and whether they serve at all. */
export interface Beliefs {
  readonly rate?: Marginals
  readonly constraint?: Marginals
  /** Covariance of ln rate and constraint of the same configuration, m; absent where they are modelled apart. */
  readonly covariance?: Float64Array
  /** ln P(serves: not out of memory, does get ready), m. */
  readonly logServes: Float64Array
}

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
export interface SurrogateOptions extends DesignOptions {
  /** Models bilog(ln(metric / limit)) instead of ln(metric / limit). */
  readonly bilog?: boolean
  readonly withoutHistory?: boolean
  /** Models rate and latency apart. */
  readonly withoutLittle?: boolean
  readonly withoutDominance?: boolean
  /** Models the constraint's figure however far from the limit. */
  readonly withoutBounds?: boolean
}

const LABEL_NOISE = 0.1
/** ln of how much likelier the data must be without outside knowledge before it is dropped: it is right far more often than not. */
const LOG_ODDS = 2

/** Where only the limit is asked about, a constraint missed or met by more than a factor e is known to be that much: figures far off would bend the boundary. */
const FAR = 1
/** ln P(serves) of what dominance excludes: all but certain. */
const EXCLUDED = -20
/** More observations than this are modelled apart: each alone then tells enough, and two outputs cost four to eight times as much. */
const COUPLED = 40
/** ln of how much likelier the data must be under Little's law. */
const COUPLED_ODDS = 3

/** The modelled constraint: ln(metric / limit), met where ≤ 0; plain ln(metric) without a limit. */
const constraintTarget = (problem: Problem, logValue: number, options: SurrogateOptions): number => {
  const excess = logValue - Math.log(problem.constraintLimit ?? 1)
  return options.bilog ? bilog(excess) : excess
}

function bounded(reading: Datum): Datum {
  if (Math.abs(reading.target) <= FAR) return reading
  return reading.target > 0 ? { ...reading, target: FAR, bound: 'least' } : { ...reading, target: -FAR, bound: 'most' }
}

/** Nothing taken out. */
export const asShipped: SurrogateOptions = {}

const remembered = rememberedPerTrial<Surrogate>()

/** `fitModels`, remembered for each trial unless something is pending or taken out. */
export function fitSurrogate(
  problem: Problem,
  observations: readonly Observation[],
  pending: readonly Configuration[],
  options: SurrogateOptions = asShipped,
): Surrogate {
  const fit = () => fitModels(problem, observations, pending, options)
  return pending.length > 0 || options !== asShipped ? fit() : remembered(problem, observations, undefined, fit)
}

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
  const target = (logValue: number) => constraintTarget(problem, logValue, options)
  const readings = complete.flatMap((o) =>
    o.constraint ? datum(o.configuration, target(logMetric(problem, o.constraint.value)), o.constraint) : [],
  )
  const boundaryAlone = learnsOf(problem.objective) === 'nothing' && problem.constraintLimit !== undefined && !options.withoutBounds
  const constraints = boundaryAlone ? readings.map(bounded) : readings
  const labels = observations.map((o) => datum(o.configuration, o.state === 'complete' && o.rate?.value !== 0 ? 1 : -1))
  const past = (quantity: Quantity, trials: readonly Datum[]) =>
    problem.history && !options.withoutHistory ? pastKnowledge(problem.history, problem.space, quantity, trials) : undefined
  const pastConstraint = past('constraint', constraints)
  const rate = fitBest(problem, 'rate', rates, pending, [ratePhysics(problem, rates), past('rate', rates)], options)
  const constraint = fitBest(
    problem,
    'constraint',
    constraints,
    pending,
    [constraintPhysics(problem, target), pastConstraint && mapColumns(pastConstraint, target)],
    options,
  )
  const apart = (rate?.gp.logLikelihood ?? 0) + (constraint?.gp.logLikelihood ?? 0)
  const little = littleModel(problem, rates, constraints, pending, pastConstraint && mapColumns(pastConstraint, target), options)
  const coupled = little && little.logLikelihood - COUPLED_ODDS >= apart ? little : undefined
  const pastServes = past('serves', labels)
  const serves = pastServes || labels.some((l) => l.target < 0) ? fitBest(problem, 'serves', labels, [], [pastServes], options) : undefined
  const excluded = options.withoutDominance ? () => false : hopeless(problem, observations)
  const logServes = (configurations: readonly Configuration[]): Float64Array => {
    const belief = serves?.gp.predict(serves.rows(configurations))
    return Float64Array.from(configurations, (c, i) => {
      if (excluded(c)) return EXCLUDED
      return belief ? logCdf(belief.mean[i]! / Math.sqrt(LABEL_NOISE + belief.variance[i]!)) : 0
    })
  }
  return {
    believe(configurations, how = 'exactly') {
      const of = (model: Model | undefined) =>
        how === 'exactly' ? model?.gp.predict(model.rows(configurations)) : model?.gp.predictRoughly(model.rows(configurations))
      const beliefs = coupled?.predict(configurations) ?? { rate: of(rate), constraint: of(constraint) }
      return { ...beliefs, logServes: logServes(configurations) }
    },
    draw(configurations, count, rng) {
      if (coupled) {
        const m = configurations.length
        const both = drawJoint(coupled.joint(configurations), count, rng.fork('coupled'))
        return {
          rate: both.map((row) => row.subarray(0, m)),
          constraint: both.map((row) => row.subarray(m)),
          logServes: logServes(configurations),
        }
      }
      return {
        rate: rate && drawJoint(rate.gp.joint(rate.rows(configurations)), count, rng.fork('rate')),
        constraint: constraint && drawJoint(constraint.gp.joint(constraint.rows(configurations)), count, rng.fork('constraint')),
        logServes: logServes(configurations),
      }
    },
    warnings: [coupled?.warning, ...(coupled ? [] : [rate?.gp.warning, constraint?.gp.warning]), serves?.gp.warning].flatMap(
      (w) => w ?? [],
    ),
    informed: (coupled ?? rate ?? constraint)?.informed ?? problem.priorLogRate !== undefined,
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

/** Rate and latency as one, with knowledge of the latency unless the data are much likelier without. */
function littleModel(
  problem: Problem,
  rates: readonly Datum[],
  constraints: readonly Datum[],
  pending: readonly Configuration[],
  latency: Knowledge | undefined,
  { withoutLittle }: SurrogateOptions,
): CoupledModel | undefined {
  if (withoutLittle || !problem.constraintAtRate || problem.priorLogRate || rates.length === 0 || constraints.length === 0) return undefined
  if (rates.length > COUPLED || [...rates, ...constraints].some((d) => d.bound)) return undefined
  const plain = fitCoupled(problem, rates, constraints, pending)
  const informed = latency && fitCoupled(problem, rates, constraints, pending, latency)
  return informed && informed.logLikelihood + LOG_ODDS >= plain.logLikelihood ? informed : plain
}

interface Model {
  readonly gp: Gp
  /** Design matrix, m×d. */
  rows(configurations: readonly Configuration[]): Matrix
  /** Outside knowledge is part of it. */
  readonly informed: boolean
}

/** The model with outside knowledge under which the data are likeliest, unless they are much likelier without any: wrong knowledge must not cost more than a few trials. */
function fitBest(
  problem: Problem,
  quantity: Quantity,
  all: readonly Datum[],
  pending: readonly Configuration[],
  knowledge: readonly (Knowledge | undefined)[],
  options: DesignOptions,
): Model | undefined {
  const plainDesign = createDesign(problem, quantity, undefined, options)
  const data = activeReadings(plainDesign, all)
  const informed = knowledge.flatMap((known) =>
    known ? fitModel(createDesign(problem, quantity, known, options), data, pending, known) : [],
  )
  const best = informed.sort((a, b) => b.gp.logLikelihood - a.gp.logLikelihood)[0]
  if (data.length === 0) return best
  const plain = fitModel(plainDesign, data, pending)
  return best && best.gp.logLikelihood + LOG_ODDS >= plain.gp.logLikelihood ? best : plain
}

function fitModel({ shape, groups, rows }: Design, data: readonly Datum[], pending: readonly Configuration[], known?: Knowledge): Model {
  const gpData = (readings: readonly Datum[]) => gpDataOf(rows(readings.map((r) => r.at)), readings)
  const gp = fitGp(shape, gpData(data), { priors: priorsOf(groups, known) })
  const informed = known !== undefined
  if (pending.length === 0) return { gp, rows, informed }
  const believed = believedReadings(pending, gp.predict(rows(pending)).mean)
  return { gp: { ...condition(shape, gpData([...data, ...believed]), gp.hyperparameters), warning: gp.warning }, rows, informed }
}

/** Of a physics prior: its offset and scale, what it misses of the trend, and the residual's variance (LogNormal). */
const PHYSICS = { offsetSd: 0.2, scaleSd: 0.05, correction: 0.1, signal: [Math.log(0.003), 1] as const }

/** The physics of ln rate around its factors as the trials calibrate them: ln rate moves by sensitivity × (ln factor - calibrated ln factor). */
function ratePhysics(problem: Problem, data: readonly Datum[]): Knowledge | undefined {
  const { priorLogRate, priorFactors } = problem
  if (!priorLogRate) return undefined
  const moved = priorFactors && calibratePhysics(priorFactors, data)
  const logRate = moved?.logRate ?? priorLogRate
  const { correction, offsetSd, signal, scaleSd } = PHYSICS
  return {
    slopes: [[1, scaleSd], ...(moved?.logFactors ?? []).map((v, i) => [-v, priorFactors!.sd[i]!] as const)],
    columns: (configurations) => configurations.map((c) => [logRate(c) ?? 0, ...(moved?.sensitivities(c) ?? [])]),
    correction,
    offsetSd,
    signal,
  }
}

function constraintPhysics(problem: Problem, target: (logValue: number) => number): Knowledge | undefined {
  const { priorLogConstraint } = problem
  if (!priorLogConstraint) return undefined
  const { correction, offsetSd, signal, scaleSd } = PHYSICS
  const expected = (c: Configuration) => {
    const logValue = priorLogConstraint(c)
    return logValue === undefined ? 0 : target(logValue)
  }
  return { slopes: [[1, scaleSd]], columns: (configurations) => configurations.map((c) => [expected(c)]), correction, offsetSd, signal }
}

const mapColumns = (knowledge: Knowledge, map: (value: number) => number): Knowledge => ({
  ...knowledge,
  columns: (configurations) => knowledge.columns(configurations).map((row) => row.map(map)),
})
