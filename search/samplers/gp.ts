import { logAcquisition, logFeasible } from '../acquisition.ts'
import { untried } from '../candidates.ts'
import { createEncoder } from '../encoding.ts'
import { logCdf } from '../normal.ts'
import { bestObservation, logCost } from '../objective.ts'
import { fitSurrogate } from '../surrogate.ts'
import type { Configuration, Problem, Rng, Sampler, Suggestion } from '../types.ts'

const STARTS = 5
/** Trials that physics may choose before one has served. */
const PHYSICS_TRIES = 2

/** Gaussian process: space-filling starts, then the greatest expected improvement × probability of feasibility. */
export const gpSampler: Sampler = {
  name: 'gp',
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const { configurations, complete } = untried(problem, taken, rng.fork('gp'))
    if (configurations.length === 0) return undefined
    const served = observations.some((o) => o.state === 'complete' && o.rate?.value !== 0)
    if (problem.priorLogRate && !served && observations.length < PHYSICS_TRIES) return startFromPhysics(problem, taken, configurations, rng)
    const trusted = problem.priorLogRate !== undefined && served
    if (!trusted && (taken.length < STARTS || observations.length < 2)) return start(problem, taken, configurations, rng)
    const surrogate = fitSurrogate(problem, observations, pending)
    // What contradicts physics so soon needs the same starts as any other search.
    if (trusted && !surrogate.physics && taken.length < STARTS) return start(problem, taken, configurations, rng)
    const beliefs = surrogate.believe(configurations)
    const prices = Float64Array.from(configurations, (c) => problem.pricePerHour(c))
    const best = bestObservation(problem, observations)
    const scores = logAcquisition(problem, prices, beliefs, best?.logCost ?? Infinity)
    const at = argmax(scores)
    const warnings = [...surrogate.warnings, ...(complete ? [] : ['the space is too large to list; a quasi-random sample of it is scored'])]
    return {
      configuration: configurations[at]!,
      why: best ? `expected improvement ${(100 * (1 - Math.exp(-Math.exp(scores[at]!)))).toPrecision(2)} %` : 'likeliest to be feasible',
      ...predicted(problem, beliefs, at),
      ...(warnings.length > 0 ? { warning: warnings.join('; ') } : {}),
    }
  },
}

function predicted(
  problem: Problem,
  beliefs: ReturnType<ReturnType<typeof fitSurrogate>['believe']>,
  at: number,
): Pick<Suggestion, 'predicted'> {
  if (!beliefs.rate) return {}
  const mean = beliefs.rate.mean[at]!
  const reach = 1.645 * Math.sqrt(beliefs.rate.variance[at]!)
  const feasible = Math.exp(logFeasible(problem, beliefs)[at]!)
  return { predicted: { rate: Math.exp(mean), low: Math.exp(mean - reach), high: Math.exp(mean + reach), feasible } }
}

/** How sure physics is of an idle latency, as a standard deviation of its logarithm. */
const PHYSICS_SD = 0.15

/** Before anything is measured: the least expected cost, weighed by how surely the constraint is met; pending ones are taken to be right. */
function startFromPhysics(
  problem: Problem,
  taken: readonly Configuration[],
  configurations: readonly Configuration[],
  rng: Rng,
): Suggestion {
  const limit = problem.constraintLimit === undefined ? undefined : Math.log(problem.constraintLimit)
  const scores = Float64Array.from(configurations, (c) => {
    const logRate = problem.priorLogRate!(c)
    if (logRate === undefined) return -Infinity
    const logConstraint = problem.priorLogConstraint?.(c)
    const cost = logCost(problem.objective, problem.pricePerHour(c), logRate, logConstraint ?? 0)
    const met = limit === undefined || logConstraint === undefined ? 0 : logCdf((limit - logConstraint) / PHYSICS_SD)
    return met - cost
  })
  const at = argmax(scores)
  if (!Number.isFinite(scores[at]!)) return start(problem, taken, configurations, rng)
  return { configuration: configurations[at]!, why: 'start: cheapest by the device model' }
}

/** The first trial at random, each next one the farthest from all before it. */
function start(problem: Problem, taken: readonly Configuration[], configurations: readonly Configuration[], rng: Rng): Suggestion {
  const why = 'start: space-filling'
  if (taken.length === 0) return { configuration: configurations[rng.fork('start').int(configurations.length)]!, why }
  const encoder = createEncoder(problem.space)
  const known = taken.map((c) => encoder.encode(c))
  const nearest = Float64Array.from(configurations, (c) => {
    const row = encoder.encode(c)
    return Math.min(...known.map((k) => k.reduce((sum, v, j) => sum + (v - row[j]!) ** 2, 0)))
  })
  return { configuration: configurations[argmax(nearest)]!, why }
}

function argmax(values: Float64Array): number {
  let best = 0
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i
  return best
}
