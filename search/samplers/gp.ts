import { logAcquisition } from '../acquisition/expected-improvement.ts'
import { climb, shortlisted } from '../acquisition/maximise.ts'
import { z90 } from '../gp/normal.ts'
import { type Beliefs, logFeasible } from '../model/feasibility.ts'
import { above } from '../model/saturating-predictive.ts'
import {
  asShipped,
  fitSurrogate,
  type Surrogate,
  type SurrogateOptions,
} from '../model/surrogate.ts'
import { priceOf } from '../replica-price.ts'
import { type Candidates, untried } from '../space/candidates.ts'
import { around, neighbours } from '../space/neighbours.ts'
import { configurationKey } from '../space/space.ts'
import { believedBest } from '../stopping/incumbent.ts'
import type { Configuration, Observation, Problem, Rng, Sampler, Suggestion } from '../types.ts'
import { cheapestByPhysics, spread, startCount } from './initial-design.ts'

/** Trials that physics may choose before one has served. */
const PHYSICS_TRIES = 2
/**
 * Trials that physics may have chosen before it was seen to be wrong: they do not count as starts.
 */
const MISLED = 1

interface GpOptions extends SurrogateOptions {
  /** Never looks around the best, however little is hoped for elsewhere. */
  readonly unshaken?: boolean
  /** Asks no second model then. */
  readonly undoubting?: boolean
  /**
   * Trials spread over the space before the model leads; by default one and one for each parameter
   * that price says nothing about.
   */
  readonly starts?: number
}

/**
 * Gaussian process: starts from physics, past experiments or a few spread trials, then the greatest
 * expected improvement × probability of feasibility.
 */
export const createGpSampler = (options: GpOptions = asShipped): Sampler => ({
  name: 'gp',
  suggest(problem, observations, pending, rng, seconds) {
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
    if (!byPhysics && (taken.length < starts || observations.length === 0))
      return spread(problem, taken, configurations, rng)
    const surrogate = fitSurrogate(problem, observations, pending, options)
    // What contradicts physics so soon needs the same starts as any other search.
    if (byPhysics && !surrogate.informed && taken.length < starts + MISLED)
      return spread(problem, taken, configurations, rng)
    const choice = new Choice(problem, observations, taken, surrogate, seconds)
    const scored = sampled({ configurations, complete }, rng.fork('scored'))
    const hoped = choice.mostPromising(scored)
    if (hoped.gain >= COLLAPSED) return hoped.suggestion
    const looksAround = (every: number) => !options.unshaken && observations.length % every === 0
    const isOne = options.undoubting || (byPhysics && surrogate.informed)
    if (isOne) return (looksAround(2) ? choice.aroundBest() : undefined) ?? hoped.suggestion
    if (observations.length % TURNS === TURNS - 1) return hoped.suggestion
    const doubting = fitSurrogate(problem, observations, pending, { ...options, ownVariance: OWN })
    const second = new Choice(problem, observations, taken, doubting, seconds)
    return (
      (looksAround(TURNS) ? second.aroundBest() : undefined) ??
      second.mostPromising(scored).suggestion
    )
  },
})

export const gpSampler: Sampler = createGpSampler()

/**
 * Where the model hopes for no more than this gain anywhere it may be wrong of what it has not
 * seen. Choices take turns then: what is most promising beside the best and anywhere to a second
 * model, in which neighbours tell less of one another, and what the first hopes for most. Where
 * physics leads there is no second, and every other choice is beside the best.
 */
const COLLAPSED = 0.01
/**
 * What each configuration has of its own in the second model, a variance of ln: a standard
 * deviation of a third.
 */
const OWN = 0.12
const TURNS = 3

interface Scored {
  readonly candidates: readonly Configuration[]
  readonly beliefs: Beliefs
  /** Of what is hoped for, ln. */
  readonly hopes: Float64Array
  /**
   * The same a second, where trials take differently long (Snoek, Larochelle and Adams, NeurIPS
   * 2012, section 3.2).
   */
  readonly scores: Float64Array
}

/** What is to be chosen from after some trials. */
class Choice {
  readonly #best: ReturnType<typeof believedBest>
  readonly #known: ReadonlySet<string>

  constructor(
    private readonly problem: Problem,
    observations: readonly Observation[],
    taken: readonly Configuration[],
    private readonly surrogate: Surrogate,
    private readonly seconds?: (configuration: Configuration) => number,
  ) {
    this.#best = believedBest(problem, observations, surrogate)
    this.#known = new Set(taken.map(configurationKey))
  }

  /**
   * The greatest score, and the most that is hoped for anywhere, as a share of the cost; 1 while
   * nothing is feasible.
   */
  mostPromising({ configurations, complete }: Candidates): {
    suggestion: Suggestion
    gain: number
  } {
    const { problem } = this
    const sample = this.#score(shortlisted(configurations, (all) => this.#score(all, 'roughly')))
    const beside = (c: Configuration) => this.#untried(neighbours(problem.space, c))
    const { scored, at } = highest(
      complete ? sample : climb(sample, beside, (candidates) => this.#score(candidates)),
    )
    const share = (hope: number) => 1 - Math.exp(-Math.exp(hope))
    const percent = 100 * share(scored.hopes[at]!)
    const why = this.#best
      ? `expected improvement ${percent < 0.01 ? '0' : percent.toPrecision(2)} %`
      : 'likeliest to be feasible and cheap'
    const gain = this.#best
      ? share(scored.hopes.reduce((most, hope) => Math.max(most, hope), -Infinity))
      : 1
    return { suggestion: this.#suggestion(scored, at, why, complete), gain }
  }

  /** The most promising of what surrounds the best; undefined where nothing there can be better. */
  aroundBest(): Suggestion | undefined {
    const near = this.#best
      ? this.#untried(around(this.problem.space, this.#best.configuration))
      : []
    if (near.length === 0) return undefined
    const { scored, at } = highest(this.#score(near))
    return scored.scores[at] === -Infinity
      ? undefined
      : this.#suggestion(scored, at, 'beside the best: no gain in sight', true)
  }

  #untried(configurations: readonly Configuration[]): Configuration[] {
    return configurations.filter(
      (c) => !this.#known.has(configurationKey(c)) && !this.problem.cannotServe?.(c),
    )
  }

  #score(candidates: readonly Configuration[], how?: 'roughly'): Scored {
    const beliefs = this.surrogate.believe(candidates, how)
    const prices = candidates.map((c) => priceOf(this.problem.pricePerHour, c))
    const hopes = logAcquisition(this.problem, prices, beliefs, this.#best?.logCost ?? Infinity)
    const { seconds } = this
    return {
      candidates,
      beliefs,
      hopes,
      scores: seconds ? hopes.map((hope, i) => hope - Math.log(seconds(candidates[i]!))) : hopes,
    }
  }

  #suggestion(
    { candidates, beliefs }: Scored,
    at: number,
    why: string,
    complete: boolean,
  ): Suggestion {
    const warnings = [...this.surrogate.warnings, ...(complete ? [] : [SAMPLED])]
    return {
      configuration: candidates[at]!,
      why,
      ...predicted(this.problem, beliefs, at),
      ...(warnings.length > 0 ? { warning: warnings.join('; ') } : {}),
    }
  }
}

const highest = (scored: Scored): { scored: Scored; at: number } => ({
  scored,
  at: scored.scores.reduce((best, score, i) => (score > scored.scores[best]! ? i : best), 0),
})

/** Of a longer list as many are scored, one of each stretch, and what surrounds the best. */
const SCORED = 8_192
const SAMPLED =
  'the space is too large to score whole; a sample and what surrounds its best is scored'

function sampled({ configurations, complete }: Candidates, rng: Rng): Candidates {
  if (configurations.length <= SCORED) return { configurations, complete }
  const stretch = configurations.length / SCORED
  return {
    configurations: Array.from(
      { length: SCORED },
      (_, i) => configurations[Math.floor((i + rng.next()) * stretch)]!,
    ),
    complete: false,
  }
}

function predicted(problem: Problem, beliefs: Beliefs, at: number): Pick<Suggestion, 'predicted'> {
  if (!beliefs.rate) return {}
  const mean = beliefs.rate.mean[at]!
  const low = Math.exp(mean + above(beliefs.rate, at, -z90))
  const high = Math.exp(mean + above(beliefs.rate, at, z90))
  const feasible = Math.exp(logFeasible(problem, beliefs)[at]!)
  return { predicted: { rate: Math.exp(mean), low, high, feasible } }
}
