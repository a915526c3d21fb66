import { surprise } from './expected-gain.ts'
import { mostHopeful, type Priced, priced } from './hopeful.ts'
import { believedTrials } from './incumbent.ts'
import { logCost } from './objective.ts'
import { fitSurrogate, type Surrogate } from './surrogate.ts'
import type { Configuration, Observation, Problem, Rng } from './types.ts'
import { untried } from './untried.ts'

/** What to recommend after some trials, and how surely. */
interface Answer {
  /**
   * The trial that is likeliest to be feasible and within the tolerance of all others, tried or
   * not.
   */
  readonly configuration: Configuration
  /** P(it is). */
  readonly probabilityRight: number
  /**
   * P(some untried feasible configuration is cheaper than the best believed by more than the
   * tolerance).
   */
  readonly probabilityBetterExists: number
  /**
   * Share of the cost of the best of what was tried that the best of what is untried is expected to
   * save: what all trials to come may gain together.
   */
  readonly expectedRegret: number
}

/**
 * A posterior at fitted hyperparameters is too sure of what is untried. Two views of it each make
 * up for that: in one, deviations of the untried are this many times as wide; in the other every
 * configuration has something of its own, a tenth (the variance of ln). Each is wrong where the
 * other is right, so half of the draws are of each (docs/research/search.md). Of trials the
 * reading's own noise says all.
 */
const WIDENING = 1.5
const OWN = 0.1 ** 2
const DRAWS = 256
/**
 * Trials are compared where they miss the limit by no more deviations than this, and cost no more
 * than this times the best.
 */
const DOUBTFUL = 2
const COMPARABLE = Math.log(1.5)

interface View {
  readonly surrogate: Surrogate
  readonly widening: number
}

/**
 * Where physics leads it knows each configuration, and the first view is all: wider by as much as
 * the search was surprised.
 */
function viewsOf(
  problem: Problem,
  observations: readonly Observation[],
): readonly [View, ...View[]] {
  const surrogate = fitSurrogate(problem, observations, [])
  if (problem.priorLogRate && surrogate.informed)
    return [{ surrogate, widening: WIDENING * surprise(observations) }]
  return [
    { surrogate, widening: WIDENING },
    { surrogate: fitSurrogate(problem, observations, [], { ownVariance: OWN }), widening: 1 },
  ]
}

/**
 * The answer by joint draws of what was tried and of what may be better; undefined where no trial
 * is believed feasible.
 * @param left what may be tried yet
 */
export function likeliestAnswer(
  problem: Problem,
  observations: readonly Observation[],
  rng: Rng,
  tolerance = 0.05,
  left = leftAfter(problem, observations, rng),
): Answer | undefined {
  const views = viewsOf(problem, observations)
  const trials = believedTrials(problem, observations, views[0].surrogate)
  const best = trials.find(({ deviations }) => deviations <= 0)
  if (!best) return undefined
  const tried = trials.filter(
    ({ deviations, logCost }) => deviations <= DOUBTFUL && logCost <= best.logCost + COMPARABLE,
  )
  const question = {
    tried: priced(
      problem,
      tried.map(({ configuration }) => configuration),
    ),
    left: priced(problem, left),
    bestLogCost: best.logCost,
    tolerance,
  }
  const counted = views.map((view, i) =>
    count(problem, view, question, DRAWS / views.length, rng.fork(`view ${i}`)),
  )
  const right = tried.map((_, i) => counted.reduce((sum, of) => sum + of.right[i]!, 0))
  const better = counted.reduce((sum, of) => sum + of.better, 0)
  const saved = counted.reduce((sum, of) => sum + of.saved, 0)
  // No finite number of draws shows that something cannot be, or must: Laplace's rule of
  // succession.
  const most = Math.max(...right)
  return {
    configuration: tried[right.indexOf(most)]!.configuration,
    probabilityRight: (most + 1) / (DRAWS + 2),
    probabilityBetterExists: (better + 1) / (DRAWS + 2),
    expectedRegret: saved / DRAWS,
  }
}

const leftAfter = (
  problem: Problem,
  observations: readonly Observation[],
  rng: Rng,
): readonly Configuration[] =>
  untried(
    problem,
    observations.map((o) => o.configuration),
    rng.fork('stop candidates'),
  ).configurations

interface Question {
  readonly tried: Priced
  /** Untried. */
  readonly left: Priced
  /** Of the best believed. */
  readonly bestLogCost: number
  readonly tolerance: number
}

/**
 * In how many draws of a view each of the tried is the answer, in how many an untried one is
 * better, and the shares that the best of these saves, summed.
 */
function count(
  problem: Problem,
  { surrogate, widening }: View,
  { tried, left, bestLogCost, tolerance }: Question,
  draws: number,
  rng: Rng,
): { readonly right: readonly number[]; readonly better: number; readonly saved: number } {
  /** ln cost below which an untried one is better. */
  const target = bestLogCost + Math.log(1 - tolerance)
  const hopeful = mostHopeful(problem, surrogate, left, target)
  const prices = [...tried.prices, ...hopeful.prices]
  const widths = [...tried.prices.map(() => 1), ...hopeful.prices.map(() => widening)]
  const joint = surrogate.draw(
    [...tried.configurations, ...hopeful.configurations],
    rng.fork('stop draws'),
    widths,
  )
  const luck = rng.fork('stop serves')
  const right = tried.prices.map(() => 0)
  let better = 0
  let saved = 0
  const costs = new Float64Array(prices.length)
  for (let draw = 0; draw < draws; draw++) {
    const drawn = joint.next()
    for (let i = 0; i < costs.length; i++) {
      const isTried = i < right.length
      const constraint = drawn.constraint?.[i] ?? Number.NaN
      const missed = problem.constraintLimit !== undefined && !(constraint <= 0)
      const serves = !missed && (isTried || Math.log(luck.next()) < joint.logServes[i]!)
      costs[i] = serves
        ? logCost(problem.objective, prices[i]!, drawn.rate?.[i] ?? Number.NaN, constraint)
        : Infinity
    }
    const leastTried = Math.min(...costs.subarray(0, right.length))
    const leastUntried = Math.min(...costs.subarray(right.length))
    const least = Math.min(leastTried, leastUntried)
    if (leastUntried < target) better++
    // Where none of the tried would serve, the best of them is taken for what is believed of it.
    saved += Math.max(
      0,
      -Math.expm1(leastUntried - (leastTried < Infinity ? leastTried : bestLogCost)),
    )
    for (const i of right.keys())
      if (costs[i]! < Infinity && costs[i]! <= least - Math.log(1 - tolerance))
        right[i] = right[i]! + 1
  }
  return { right, better, saved }
}
