import { type Beliefs, logFeasible } from './feasibility.ts'
import type { Marginals } from './gp-model.ts'
import { logCdf, logExpectedImprovement, logPdf } from './normal.ts'
import { type Demand, demandOf, isTooDear, learnsOf, logCost, replicasFor } from './objective.ts'
import type { Objective, Problem } from './types.ts'

/** Of the believed deviations, what counts for a choice. */
export interface Choice {
  /** Of the objective. */
  readonly objective: number
  /** Of what decides feasibility. */
  readonly feasibility: number
}

/**
 * ln (expected improvement × probability of feasibility) of m configurations (Schonlau et al. 1998; Gardner et al. 2014). Price is exact, so the
 * improvement is over ln rate (or ln latency) alone. With nothing feasible yet (`best` Infinity) the improvement is over what the likeliest
 * feasible configuration is expected to cost, and some more.
 */
export function logAcquisition(problem: Problem, prices: Float64Array, beliefs: Beliefs, best: number, choice: Choice): Float64Array {
  const hoped = withDeviations(beliefs, choice)
  const feasible = logFeasible(problem, { ...hoped, constraint: scaled(beliefs.constraint, choice.feasibility) })
  const reference = best === Infinity ? safestCost(problem, prices, beliefs, feasible) + MARGIN : best
  if (!Number.isFinite(reference)) return feasible
  const { objective } = problem
  const coupled = beliefs.covariance && problem.constraintLimit !== undefined && learnsOf(objective) === 'rate' && !demandOf(objective)
  return feasible.map((f, i) => {
    const gain = logImprovement(objective, prices[i]!, hoped, i, reference)
    if (!coupled) return gain + f
    const met = logMetWhereBetter(hoped, i, logCost(objective, prices[i]!, 0, 0) - reference)
    return gain + hoped.logServes[i]! + met
  })
}

const scaled = (marginals: Marginals | undefined, by: number) =>
  marginals && { ...marginals, variance: marginals.variance.map((v) => v * by * by) }

/** Beliefs as the objective takes them; of a coupled constraint, what it shares with the rate is scaled with it. */
function withDeviations({ rate, constraint, covariance, logServes }: Beliefs, { objective, feasibility }: Choice): Beliefs {
  if (!covariance || !rate || !constraint) return { rate: scaled(rate, objective), constraint: scaled(constraint, objective), logServes }
  const shared = (i: number) => covariance[i]! ** 2 / rate.variance[i]!
  const variance = constraint.variance.map((v, i) => feasibility ** 2 * (v - shared(i)) + objective ** 2 * shared(i))
  return {
    rate: scaled(rate, objective),
    constraint: { ...constraint, variance },
    covariance: covariance.map((v) => v * objective ** 2),
    logServes,
  }
}

/**
 * ln P(constraint met | ln rate as it is where it improves): the density of ln rate times its improvement over `threshold`, by its first two
 * moments (of a normal cut off at the threshold), carried to the constraint by their covariance.
 */
export function logMetWhereBetter({ rate, constraint, covariance }: Beliefs, i: number, threshold: number): number {
  const variance = rate!.variance[i]!
  const sd = Math.sqrt(variance)
  const z = (rate!.mean[i]! - threshold) / sd
  const [gain, spread] = z < FAR_BELOW ? [(2 * sd) / -z, 2 * (sd / z) ** 2] : tiltedMoments(z, sd)
  const slope = covariance![i]! / variance
  const mean = constraint!.mean[i]! + slope * (threshold + gain - rate!.mean[i]!)
  const left = Math.max(1e-12, constraint!.variance[i]! - slope * covariance![i]! + slope * slope * Math.max(0, spread))
  return logCdf(-mean / Math.sqrt(left))
}

/** Below this many deviations the moments cancel in doubles, and their limits are exact enough. */
const FAR_BELOW = -8

/** Mean and variance of g > 0 with density ∝ g N(g; z sd, sd²). */
function tiltedMoments(z: number, sd: number): [mean: number, variance: number] {
  const density = Math.exp(logPdf(z))
  const mass = Math.exp(logCdf(z))
  const first = density + z * mass
  const mean = (sd * ((z * z + 1) * mass + z * density)) / first
  const square = (sd * sd * ((z * z * z + 3 * z) * mass + (z * z + 2) * density)) / first
  return [mean, square - mean * mean]
}

/** ln 2: while nothing is feasible, the safest configuration itself still counts as a gain. */
const MARGIN = Math.LN2

/** Expected ln cost of the configuration likeliest to be feasible. */
function safestCost(problem: Problem, prices: Float64Array, { rate, constraint }: Beliefs, feasible: Float64Array): number {
  let safest = 0
  for (let i = 1; i < feasible.length; i++) if (feasible[i]! > feasible[safest]!) safest = i
  return logCost(problem.objective, prices[safest]!, rate?.mean[safest] ?? Number.NaN, constraint?.mean[safest] ?? Number.NaN)
}

function logImprovement(objective: Objective, price: number, { rate, constraint }: Beliefs, i: number, best: number): number {
  if (isTooDear(objective, price)) return -Infinity
  const learns = learnsOf(objective)
  const believed = logCost(objective, price, rate?.mean[i] ?? Number.NaN, constraint?.mean[i] ?? Number.NaN)
  if (learns === 'nothing') return Math.log(Math.max(0, best - believed))
  const belief = learns === 'rate' ? rate : constraint
  if (!belief) return 0
  const sd = Math.sqrt(belief.variance[i]!)
  const demand = demandOf(objective)
  return demand ? demandImprovement(demand, price, belief.mean[i]!, sd, best) : logExpectedImprovement(believed, sd, best)
}

const MOST_REPLICAS = 64

/**
 * ln E[max(0, best - ln(price × replicas))], replicas = ceil(demand / rate): an exact sum over replica counts, P(at most n) = P(rate ≥ demand/n);
 * beyond 64 replicas the ceiling is left out.
 */
function demandImprovement(demand: Demand, price: number, mean: number, sd: number, best: number): number {
  const logDemand = Math.log(demand.demandRps / (1 - demand.headroom))
  if (replicasFor(demand, Math.exp(mean + 2 * sd)) > MOST_REPLICAS)
    return logExpectedImprovement(Math.log(price) + logDemand - mean, sd, best)
  let expected = 0
  let upTo = 0
  for (let n = 1; n <= 4 * MOST_REPLICAS; n++) {
    const improvement = best - Math.log(price * n)
    if (improvement <= 0) break
    const atMost = Math.exp(logCdf((mean - (logDemand - Math.log(n))) / sd))
    expected += improvement * (atMost - upTo)
    upTo = atMost
  }
  return Math.log(expected)
}
