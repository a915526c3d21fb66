import { Matrix } from 'ml-matrix'
import { createEncoder, type Encoder } from './encoding.ts'
import { condition, defaultPriors, fitGp, type Gp, type GpShape } from './gp.ts'
import { cholesky } from './linalg.ts'
import { bilog, logCdf } from './normal.ts'
import { logMetric } from './objective.ts'
import { calibratePhysics } from './physics.ts'
import type { Configuration, Estimate, Observation, Parameter, PriorFactors, Problem, Rng } from './types.ts'

/** Beliefs about m configurations: ln rate, transformed constraint (≤ 0 is met), and whether they serve at all. */
export interface Beliefs {
  readonly rate?: { readonly mean: Float64Array; readonly variance: Float64Array }
  readonly constraint?: { readonly mean: Float64Array; readonly variance: Float64Array }
  /** ln P(serves: not out of memory, does get ready), m. */
  readonly logServes: Float64Array
}

/** The models of a problem after some trials: one Gaussian process for ln rate, one for the constraint, one that tells what cannot serve. */
export interface Surrogate {
  /** Marginal beliefs about m configurations. */
  believe(configurations: readonly Configuration[]): Beliefs
  /** Joint draws of the noise-free functions: ln rate and constraint, each `count` rows of m, undefined where nothing was ever measured of it. */
  draw(configurations: readonly Configuration[], count: number, rng: Rng): Draws
  readonly warnings: readonly string[]
  /** There is a physics prior for the rate, and the data do not contradict it. */
  readonly physics: boolean
}
export interface Draws {
  readonly rate?: readonly Float64Array[]
  readonly constraint?: readonly Float64Array[]
  readonly logServes: Float64Array
}

const OFFSET_VARIANCE = 100
const BELIEVED_NOISE = 1e-4
const LABEL_NOISE = 0.1
/** How far the scale of a prior mean may be from 1, squared. */
const PRIOR_SCALE_VARIANCE = 0.04
/** Of a physics prior: its offset and scale, the slopes it misses against those without physics, and the residual's variance (LogNormal). */
const PHYSICS = { offsetVariance: 0.04, scaleVariance: 0.0025, slopeShrink: 0.01, signal: [Math.log(0.01), 1] as const }
/** ln of how much likelier the data must be without physics before it is dropped: it is right far more often than not. */
const PHYSICS_LOG_ODDS = 2

/** Transformed constraint: bilog of ln(metric / limit); met where ≤ 0. Without a limit plain ln(metric). */
export const constraintTarget = (problem: Problem, value: number): number =>
  problem.constraintLimit === undefined ? logMetric(problem, value) : bilog(logMetric(problem, value) - Math.log(problem.constraintLimit))

/** Fits the models. Pending configurations are believed to turn out at their predicted mean (the kriging believer, Ginsbourger et al. 2010). */
export function fitSurrogate(problem: Problem, observations: readonly Observation[], pending: readonly Configuration[]): Surrogate {
  const complete = observations.filter((o) => o.state === 'complete')
  const rates = complete.flatMap((o) => (o.rate && o.rate.value > 0 ? datum(o.configuration, Math.log(o.rate.value), o.rate) : []))
  const constraints = complete.flatMap((o) =>
    o.constraint ? datum(o.configuration, constraintTarget(problem, o.constraint.value), o.constraint) : [],
  )
  const labels = observations.map((o) => datum(o.configuration, o.state === 'complete' && o.rate?.value !== 0 ? 1 : -1))
  const limit = Math.log(problem.constraintLimit ?? 1)
  const physics = problem.priorLogConstraint
  const priorConstraint = physics && ((c: Configuration) => toTarget(physics(c), limit))
  const rate = fitWithPhysics(problem, rates, pending, problem.priorLogRate, problem.priorFactors)
  const constraint = fitWithPhysics(problem, constraints, pending, priorConstraint)
  const serves = labels.some((l) => l.target < 0) ? fitModel(problem, labels, [], () => 1) : undefined
  const logServes = (configurations: readonly Configuration[]): Float64Array => {
    if (!serves) return new Float64Array(configurations.length)
    const { mean, variance } = serves.gp.predict(serves.design(configurations))
    return mean.map((m, i) => logCdf(m / Math.sqrt(LABEL_NOISE + variance[i]!)))
  }
  return {
    believe: (configurations) => ({
      rate: rate?.gp.predict(rate.design(configurations)),
      constraint: constraint?.gp.predict(constraint.design(configurations)),
      logServes: logServes(configurations),
    }),
    draw: (configurations, count, rng) => ({
      rate: rate && drawJoint(rate.gp.joint(rate.design(configurations)), count, rng.fork('rate')),
      constraint: constraint && drawJoint(constraint.gp.joint(constraint.design(configurations)), count, rng.fork('constraint')),
      logServes: logServes(configurations),
    }),
    warnings: [rate, constraint, serves].flatMap((model) => model?.gp.warning ?? []),
    physics: rate?.physics ?? problem.priorLogRate !== undefined,
  }
}

function toTarget(logValue: number | undefined, logLimit: number): number | undefined {
  return logValue === undefined ? undefined : bilog(logValue - logLimit)
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

interface Datum {
  readonly at: Configuration
  readonly target: number
  readonly noise: number
}

const datum = (at: Configuration, target: number, estimate: Partial<Estimate> = {}): Datum => ({ at, target, noise: noiseOf(estimate) })

const noiseOf = ({ logSd }: Partial<Estimate>): number => (logSd === undefined ? Number.NaN : Math.max(logSd * logSd, 1e-4))

interface Model {
  readonly gp: Gp
  /** Encoded configurations, a column of ones, the prior mean, and its sensitivities to what it is unsure of, m×d. */
  design(configurations: readonly Configuration[]): Matrix
  /** The mean is a physics prior's. */
  readonly physics: boolean
}

/** With the physics as prior mean unless the data are much likelier without it: a wrong model must not cost more than a few trials. */
function fitWithPhysics(
  problem: Problem,
  data: readonly Datum[],
  pending: readonly Configuration[],
  physics: ((configuration: Configuration) => number | undefined) | undefined,
  factors?: PriorFactors,
): Model | undefined {
  if (!physics) return fitModel(problem, data, pending)
  const moved = factors && calibratePhysics(factors, data)
  const withPhysics = fitModel(problem, data, pending, moved?.logRate ?? physics, {
    sd: factors?.sd ?? [],
    logFactors: moved?.logFactors ?? [],
    sensitivities: moved?.sensitivities ?? (() => []),
  })
  const without = fitModel(problem, data, pending)
  if (!withPhysics || !without) return withPhysics
  return without.gp.logLikelihood - withPhysics.gp.logLikelihood > PHYSICS_LOG_ODDS ? without : withPhysics
}

function fitModel(
  problem: Problem,
  data: readonly Datum[],
  pending: readonly Configuration[],
  prior: (configuration: Configuration) => number | undefined = () => undefined,
  factors?: LinearisedFactors,
): Model | undefined {
  if (data.length === 0) return undefined
  const encoder = createEncoder(problem.space)
  const physics = factors !== undefined
  const shape = shapeOf(problem, encoder, factors)
  const design = (configurations: readonly Configuration[]) =>
    new Matrix(configurations.map((c) => [...encoder.encode(c), 1, prior(c) ?? 0, ...(factors?.sensitivities(c) ?? [])]))
  const gpData = (points: readonly Datum[]) => ({
    X: design(points.map((p) => p.at)),
    y: Float64Array.from(points, (p) => p.target),
    knownNoise: Float64Array.from(points, (p) => p.noise),
  })
  const priors = physics ? { ...defaultPriors(new Set(encoder.columns.map((c) => c.group)).size), signal: PHYSICS.signal } : undefined
  const gp = fitGp(shape, gpData(data), { priors })
  if (pending.length === 0) return { gp, design, physics }
  const { mean } = gp.predict(design(pending))
  const believed = pending.map((at, i) => ({ at, target: mean[i]!, noise: BELIEVED_NOISE }))
  return { gp: { ...condition(shape, gpData([...data, ...believed]), gp.hyperparameters), warning: gp.warning }, design, physics }
}

/** A physics prior around its calibrated factors: ln(rate) moves by sensitivity × (ln factor − calibrated ln factor). */
interface LinearisedFactors {
  readonly sd: readonly number[]
  readonly logFactors: readonly number[]
  readonly sensitivities: (configuration: Configuration) => readonly number[]
}

function shapeOf(problem: Problem, encoder: Encoder, factors: LinearisedFactors | undefined): GpShape {
  const parameters = new Map(problem.space.parameters.map((p) => [p.name, p]))
  const slopes = encoder.columns.map((column) => slopeSd(parameters.get(column.parameter)!) ** 2 * (factors ? PHYSICS.slopeShrink : 1))
  const [offset, scale] = factors ? [PHYSICS.offsetVariance, PHYSICS.scaleVariance] : [OFFSET_VARIANCE, PRIOR_SCALE_VARIANCE]
  const { sd, logFactors } = factors ?? { sd: [], logFactors: [] }
  return {
    groups: [...encoder.columns.map((c) => c.group), -1, -1, ...sd.map(() => -1)],
    slopeMean: Float64Array.from([...encoder.columns.map(() => 0), 0, 1, ...logFactors.map((v) => -v)]),
    slopeVariance: Float64Array.from([...slopes, offset, scale, ...sd.map((s) => s ** 2)]),
  }
}

/** Prior spread of the change across a parameter's whole range: an elasticity of about a half on a log axis. */
function slopeSd(parameter: Parameter): number {
  if (parameter.kind === 'categorical') return 0.5
  const [min, max] = parameter.kind === 'ordinal' ? [parameter.values[0]!, parameter.values.at(-1)!] : [parameter.min, parameter.max]
  return parameter.scale === 'log' && min > 0 ? 0.5 * Math.max(0.5, Math.log(max / min)) : 1
}
