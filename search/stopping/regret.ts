import {
  attachPrices,
  type PricedConfigurations,
  shortlistCandidates,
} from '../acquisition/shortlist.ts'
import type { Surrogate } from '../model/surrogate.ts'
import { computeLogCost } from '../objective.ts'
import type { Configuration, Problem, Rng } from '../types.ts'
import type { RankedTrial } from './incumbent.ts'

/** Estimates of what further trials could gain, from joint posterior draws. */
interface Regret {
  /** P(the incumbent is feasible and within the tolerance of the best of all configurations). */
  readonly probabilityBest: number
  /**
   * P(an untried feasible configuration is cheaper than the incumbent by more than the tolerance).
   */
  readonly probabilityBetterExists: number
  /**
   * Expected simple regret: the share of the best trial's cost that the best untried configuration
   * is expected to save. A saving within the tolerance counts as none.
   */
  readonly expectedRegret: number
}

/** Joint posterior draws; a probability is resolved to 0.4 %, far below the 5 % of a stop. */
const drawCount = 256
/**
 * A posterior at fitted hyperparameters is overconfident about untried configurations, most of all
 * where the performance drops suddenly. One factor inflates all their deviations in a draw, which
 * turns a normal into a Student t with two degrees of freedom. Of t with 2 to 10 degrees of freedom
 * and of wider normals, its probabilities are the best calibrated on recorded tables
 * (docs/research/search.md).
 */
const sampleTailFactor = (rng: Rng): number => 1 / Math.sqrt(-Math.log(rng.next()))
/**
 * The factor with an accepted device-model prior, which predicts sudden drops. Of factors between
 * 1 and 1.5, also times the size of earlier residuals, and of Student t, its probabilities are the
 * best calibrated on perturbed servers (docs/research/search.md).
 */
const deviationFactorWithPrior = 1.5
/**
 * Trials are compared unless they violate the limit by more standard deviations than this, which
 * leaves out those that are feasible with a probability below 2.3 %.
 */
const maxViolationZScore = 2
/**
 * Trials are compared unless they cost more than this multiple of the incumbent, in ln. Assumed.
 */
const maxLogCostRatio = Math.log(1.5)

/**
 * Compares the incumbent with the other trials, and with the untried configurations that could beat
 * it.
 * @param trials by their posterior mean cost
 */
export function estimateRegret(
  problem: Problem,
  surrogate: Surrogate,
  trials: readonly RankedTrial[],
  incumbent: RankedTrial,
  untried: readonly Configuration[],
  tolerance: number,
  rng: Rng,
): Regret {
  const others = trials.filter(
    (trial) =>
      trial !== incumbent &&
      trial.violationZScore <= maxViolationZScore &&
      trial.logCost <= incumbent.logCost + maxLogCostRatio,
  )
  const tried = attachPrices(
    problem,
    [incumbent, ...others].map(({ configuration }) => configuration),
  )
  /** An untried configuration below this ln cost is better. */
  const targetLogCost = incumbent.logCost + Math.log(1 - tolerance)
  const shortlist = shortlistCandidates(
    problem,
    surrogate,
    attachPrices(problem, untried),
    targetLogCost,
  )
  const sampleCosts = createCostSampler(problem, surrogate, tried, shortlist, rng)
  let bestCount = 0
  let betterCount = 0
  let savings = 0
  for (let draw = 0; draw < drawCount; draw++) {
    const logCosts = sampleCosts()
    const incumbentCost = logCosts[0]!
    const lowestTried = Math.min(...logCosts.subarray(0, tried.prices.length))
    const lowestUntried = Math.min(...logCosts.subarray(tried.prices.length))
    const lowest = Math.min(lowestTried, lowestUntried)
    if (incumbentCost < Infinity && incumbentCost <= lowest - Math.log(1 - tolerance)) bestCount++
    if (lowestUntried < targetLogCost) betterCount++
    // If no trial is feasible in a draw, the incumbent's posterior mean is the reference.
    const referenceLogCost = lowestTried < Infinity ? lowestTried : incumbent.logCost
    const saving = -Math.expm1(lowestUntried - referenceLogCost)
    if (saving > tolerance) savings += saving
  }
  // Laplace's rule of succession: no finite number of draws proves a probability of 0 or 1.
  return {
    probabilityBest: (bestCount + 1) / (drawCount + 2),
    probabilityBetterExists: (betterCount + 1) / (drawCount + 2),
    expectedRegret: savings / drawCount,
  }
}

/**
 * Returns a function that draws ln costs: of tried configurations, which served, then of untried
 * ones. Infinity for a configuration that is infeasible in the draw. Every draw overwrites the same
 * array.
 */
function createCostSampler(
  problem: Problem,
  surrogate: Surrogate,
  tried: PricedConfigurations,
  untried: PricedConfigurations,
  rng: Rng,
): () => Float64Array {
  const prices = [...tried.prices, ...untried.prices]
  const triedCount = tried.prices.length
  const configurations = [...tried.configurations, ...untried.configurations]
  const joint = surrogate.sampleJoint(configurations, rng.fork('stop draws'))
  const servesRng = rng.fork('stop serves')
  const tailRng = rng.fork('stop tails')
  const isPriorAccepted = problem.priorLogRate !== undefined && surrogate.isPriorAccepted
  const logCosts = new Float64Array(prices.length)
  return () => {
    const factor = isPriorAccepted ? deviationFactorWithPrior : sampleTailFactor(tailRng)
    const values = joint.next({ factor, from: triedCount })
    for (let i = 0; i < logCosts.length; i++) {
      const constraint = values.constraint?.[i] ?? Number.NaN
      // Negated, so that a constraint without a measurement (NaN) counts as violated.
      const isViolated = problem.constraintLimit !== undefined && !(constraint <= 0)
      const isFeasible =
        !isViolated && (i < triedCount || Math.log(servesRng.next()) < joint.logServes[i]!)
      logCosts[i] = isFeasible
        ? computeLogCost(problem.objective, prices[i]!, values.rate?.[i] ?? Number.NaN, constraint)
        : Infinity
    }
    return logCosts
  }
}
