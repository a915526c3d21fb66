import {
  type PricedConfigurations,
  shortlistCandidates,
  withPrices,
} from '../acquisition/shortlist.ts'
import { fitSurrogate, type Surrogate } from '../model/surrogate.ts'
import { logCost } from '../objective.ts'
import { findCandidates } from '../space/candidates.ts'
import type { Configuration, Observation, Problem, Rng } from '../types.ts'
import { computeCalibrationRatio } from './expected-gain.ts'
import { rankTrials } from './incumbent.ts'

/** The trial to recommend, with its posterior probabilities. */
interface BestTrial {
  /** The trial that is most probably feasible and within the tolerance of the optimum. */
  readonly configuration: Configuration
  /** P(it is). */
  readonly probabilityBest: number
  /**
   * P(an untried feasible configuration is cheaper than the incumbent by more than the tolerance).
   */
  readonly probabilityBetterExists: number
  /**
   * Expected simple regret: the share of the best trial's cost that the best untried configuration
   * is expected to save.
   */
  readonly expectedRegret: number
}

/**
 * A posterior at fitted hyperparameters underestimates the uncertainty of untried configurations.
 * Two models correct that: one widens their deviations by 1.5, the other has a nugget with a
 * standard deviation of 0.1 in ln. Each takes half of the draws. With both, 95 % of the stops on
 * recorded tables hold, with one 93 % (docs/research/search.md).
 */
const untriedWidth = 1.5
const nuggetVariance = 0.1 ** 2
/** Joint posterior draws in total; a probability is resolved to 0.4 %. */
const draws = 256
/** Trials are compared unless they violate the limit by more standard deviations than this. */
const maxViolationZScore = 2
/** Trials are compared unless they cost more than this multiple of the incumbent, in ln. */
const maxLogCostRatio = Math.log(1.5)

interface PosteriorModel {
  readonly surrogate: Surrogate
  /** Factor on the deviations of untried configurations. */
  readonly width: number
}

/**
 * The models to draw from. An accepted device-model prior distinguishes all configurations, so that
 * it needs no nugget; its deviations widen by the calibration ratio.
 */
function createPosteriorModels(
  problem: Problem,
  observations: readonly Observation[],
): readonly [PosteriorModel, ...PosteriorModel[]] {
  const surrogate = fitSurrogate(problem, observations, [])
  if (problem.priorLogRate && surrogate.priorAccepted)
    return [{ surrogate, width: untriedWidth * computeCalibrationRatio(observations) }]
  return [
    { surrogate, width: untriedWidth },
    { surrogate: fitSurrogate(problem, observations, [], { nuggetVariance }), width: 1 },
  ]
}

/**
 * The trial to recommend, by joint posterior draws of comparable trials and of untried
 * configurations that could beat them. Undefined where no trial is predicted to be feasible.
 * @param untried configurations that may still be tried
 */
export function findBestTrial(
  problem: Problem,
  observations: readonly Observation[],
  rng: Rng,
  tolerance = 0.05,
  untried = findUntried(problem, observations, rng),
): BestTrial | undefined {
  const models = createPosteriorModels(problem, observations)
  const trials = rankTrials(problem, observations, models[0].surrogate)
  const incumbent = trials.find(({ violationZScore }) => violationZScore <= 0)
  if (!incumbent) return undefined
  const comparable = trials.filter(
    (trial) =>
      trial.violationZScore <= maxViolationZScore &&
      trial.logCost <= incumbent.logCost + maxLogCostRatio,
  )
  const comparison = {
    tried: withPrices(
      problem,
      comparable.map(({ configuration }) => configuration),
    ),
    untried: withPrices(problem, untried),
    incumbentLogCost: incumbent.logCost,
    tolerance,
  }
  const counts = models.map((model, i) =>
    countOutcomes(problem, model, comparison, draws / models.length, rng.fork(`view ${i}`)),
  )
  const best = comparable.map((_, i) => counts.reduce((sum, count) => sum + count.best[i]!, 0))
  const better = counts.reduce((sum, count) => sum + count.better, 0)
  const saved = counts.reduce((sum, count) => sum + count.saved, 0)
  // Laplace's rule of succession: no finite number of draws proves a probability of 0 or 1.
  const mostOften = Math.max(...best)
  return {
    configuration: comparable[best.indexOf(mostOften)]!.configuration,
    probabilityBest: (mostOften + 1) / (draws + 2),
    probabilityBetterExists: (better + 1) / (draws + 2),
    expectedRegret: saved / draws,
  }
}

const findUntried = (
  problem: Problem,
  observations: readonly Observation[],
  rng: Rng,
): readonly Configuration[] =>
  findCandidates(
    problem,
    observations.map((o) => o.configuration),
    rng.fork('stop candidates'),
  ).configurations

interface Comparison {
  readonly tried: PricedConfigurations
  readonly untried: PricedConfigurations
  readonly incumbentLogCost: number
  readonly tolerance: number
}

interface OutcomeCounts {
  /** Draws in which each trial is feasible and within the tolerance of the optimum. */
  readonly best: readonly number[]
  /** Draws in which an untried configuration beats the incumbent by more than the tolerance. */
  readonly better: number
  /** Sum over the draws of the share that the best untried configuration saves. */
  readonly saved: number
}

function countOutcomes(
  problem: Problem,
  { surrogate, width }: PosteriorModel,
  { tried, untried, incumbentLogCost, tolerance }: Comparison,
  count: number,
  rng: Rng,
): OutcomeCounts {
  /** An untried configuration below this ln cost is better. */
  const targetLogCost = incumbentLogCost + Math.log(1 - tolerance)
  const shortlist = shortlistCandidates(problem, surrogate, untried, targetLogCost)
  const prices = [...tried.prices, ...shortlist.prices]
  const widths = [...tried.prices.map(() => 1), ...shortlist.prices.map(() => width)]
  const joint = surrogate.sampleJoint(
    [...tried.configurations, ...shortlist.configurations],
    rng.fork('stop draws'),
    widths,
  )
  const servesRng = rng.fork('stop serves')
  const best = tried.prices.map(() => 0)
  let better = 0
  let saved = 0
  const logCosts = new Float64Array(prices.length)
  for (let draw = 0; draw < count; draw++) {
    const values = joint.next()
    for (let i = 0; i < logCosts.length; i++) {
      const isTried = i < best.length
      const constraint = values.constraint?.[i] ?? Number.NaN
      const isViolated = problem.constraintLimit !== undefined && !(constraint <= 0)
      const isFeasible =
        !isViolated && (isTried || Math.log(servesRng.next()) < joint.logServes[i]!)
      logCosts[i] = isFeasible
        ? logCost(problem.objective, prices[i]!, values.rate?.[i] ?? Number.NaN, constraint)
        : Infinity
    }
    const lowestTried = Math.min(...logCosts.subarray(0, best.length))
    const lowestUntried = Math.min(...logCosts.subarray(best.length))
    const lowest = Math.min(lowestTried, lowestUntried)
    if (lowestUntried < targetLogCost) better++
    // Where no trial is feasible in a draw, the incumbent's posterior mean stands in.
    saved += Math.max(
      0,
      -Math.expm1(lowestUntried - (lowestTried < Infinity ? lowestTried : incumbentLogCost)),
    )
    for (const i of best.keys())
      if (logCosts[i]! < Infinity && logCosts[i]! <= lowest - Math.log(1 - tolerance))
        best[i] = best[i]! + 1
  }
  return { best, better, saved }
}
