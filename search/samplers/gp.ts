import { type Choice, logAcquisition } from '../acquisition.ts'
import { type Beliefs, logFeasible } from '../feasibility.ts'
import { believedBest } from '../incumbent.ts'
import { bestOf, climb } from '../local-search.ts'
import { z90 } from '../normal.ts'
import { configurationKey, neighbours } from '../space.ts'
import { cheapestByPhysics, spread, startCount } from '../starts.ts'
import { isStuck } from '../stuck.ts'
import { asShipped, fitSurrogate, type Surrogate, type SurrogateOptions } from '../surrogate.ts'
import type { Configuration, Observation, Problem, Rng, Sampler, Suggestion } from '../types.ts'
import { type Candidates, untried } from '../untried.ts'

/** Trials that physics may choose before one has served. */
const PHYSICS_TRIES = 2
/** Trials that physics may have chosen before it was seen to be wrong: they do not count as starts. */
const MISLED = 1

interface GpOptions extends SurrogateOptions {
  readonly choice?: Choice
  /** Never looks further than the model does, however long nothing has been gained. */
  readonly unshaken?: boolean
  /** Trials spread over the space before the model leads; by default one and one for each parameter that price says nothing about. */
  readonly starts?: number
}

/**
 * Gaussian process: starts from physics, past experiments or a few spread trials, then the greatest expected improvement × probability of
 * feasibility.
 */
export const createGpSampler = (options: GpOptions = asShipped): Sampler => ({
  name: 'gp',
  suggest(problem, observations, pending, rng) {
    const taken = [...observations.map((o) => o.configuration), ...pending]
    const { configurations, complete } = untried(problem, taken, rng.fork('gp'))
    if (configurations.length === 0) return undefined
    const served = observations.some((o) => o.state === 'complete' && o.rate?.value !== 0)
    if (problem.priorLogRate && !served && observations.length < PHYSICS_TRIES) {
      const suggestion = cheapestByPhysics(problem, configurations)
      if (suggestion) return suggestion
    }
    const starts = options.starts ?? startCount(problem)
    const byPhysics = problem.priorLogRate !== undefined && served
    if (!byPhysics && (taken.length < starts || observations.length === 0)) return spread(problem, taken, configurations, rng)
    const surrogate = fitSurrogate(problem, observations, pending, options)
    // What contradicts physics so soon needs the same starts as any other search.
    if (byPhysics && !surrogate.informed && taken.length < starts + MISLED) return spread(problem, taken, configurations, rng)
    const led = problem.priorLogRate !== undefined && surrogate.informed
    const usual = led ? BY_PHYSICS : (options.choice ?? USUAL)
    const choice = !options.unshaken && isStuck(problem, observations) ? LOOKING_AROUND : usual
    return mostPromising(problem, observations, taken, surrogate, sampled({ configurations, complete }, rng.fork('scored')), choice)
  },
})

export const gpSampler: Sampler = createGpSampler()

/** With a dozen trials in all, knowledge for later trials is worth less than expected improvement says. */
const USUAL: Choice = { objective: 0.6, feasibility: 1 }
/** Where physics leads, the first trials are good already and what is left is worth exploring. */
const BY_PHYSICS: Choice = { objective: 1, feasibility: 1 }
/** Where the model has been wrong of late, it is so beyond what it believes of itself. */
const LOOKING_AROUND: Choice = { objective: 1.5, feasibility: 1.5 }

function mostPromising(
  problem: Problem,
  observations: readonly Observation[],
  taken: readonly Configuration[],
  surrogate: Surrogate,
  { configurations, complete }: Candidates,
  choice: Choice,
): Suggestion {
  const best = believedBest(problem, observations, surrogate)
  const score = (candidates: readonly Configuration[], how?: 'roughly') => {
    const beliefs = surrogate.believe(candidates, how)
    const prices = Float64Array.from(candidates, (c) => problem.pricePerHour(c))
    return { candidates, beliefs, scores: logAcquisition(problem, prices, beliefs, best?.logCost ?? Infinity, choice) }
  }
  const sample = score(configurations.length > SHORTLIST ? bestOf(score(configurations, 'roughly'), SHORTLIST) : configurations)
  const known = new Set(taken.map(configurationKey))
  const around = (configuration: Configuration) =>
    neighbours(problem.space, configuration).filter((c) => !known.has(configurationKey(c)) && !problem.cannotServe?.(c))
  const { scores, candidates, beliefs } = complete ? sample : climb(sample, around, score)
  const at = scores.reduce((highest, score, i) => (score > scores[highest]! ? i : highest), 0)
  const warnings = [...surrogate.warnings, ...(complete ? [] : [SAMPLED])]
  return {
    configuration: candidates[at]!,
    why: best
      ? `expected improvement ${(100 * (1 - Math.exp(-Math.exp(scores[at]!)))).toPrecision(2)} %`
      : 'likeliest to be feasible and cheap',
    ...predicted(problem, beliefs, at),
    ...(warnings.length > 0 ? { warning: warnings.join('; ') } : {}),
  }
}

/** More candidates than this are first scored roughly, and the best of them again. */
const SHORTLIST = 512
/** Of a longer list as many are scored, one of each stretch, and what surrounds the best. */
const SCORED = 8_192
const SAMPLED = 'the space is too large to score whole; a sample and what surrounds its best is scored'

function sampled({ configurations, complete }: Candidates, rng: Rng): Candidates {
  if (configurations.length <= SCORED) return { configurations, complete }
  const stretch = configurations.length / SCORED
  return {
    configurations: Array.from({ length: SCORED }, (_, i) => configurations[Math.floor((i + rng.next()) * stretch)]!),
    complete: false,
  }
}

function predicted(problem: Problem, beliefs: Beliefs, at: number): Pick<Suggestion, 'predicted'> {
  if (!beliefs.rate) return {}
  const mean = beliefs.rate.mean[at]!
  const reach = z90 * Math.sqrt(beliefs.rate.variance[at]!)
  const feasible = Math.exp(logFeasible(problem, beliefs)[at]!)
  return { predicted: { rate: Math.exp(mean), low: Math.exp(mean - reach), high: Math.exp(mean + reach), feasible } }
}
