import { logCdf } from '../gp/normal.ts'
import { type Beliefs, logFeasible } from '../model/feasibility.ts'
import {
  above,
  type BentNormal,
  logExpectedExcess,
  luckFor,
} from '../model/saturating-predictive.ts'
import { type Demand, demandOf, isTooDear, learnsOf, logCost, replicasFor } from '../objective.ts'
import { fleetPerHour, type ReplicaPrice } from '../replica-price.ts'
import type { Objective, Problem } from '../types.ts'

/**
 * ln (expected improvement × probability of feasibility) of m configurations (Schonlau et al. 1998;
 * Gardner et al. 2014). Price is exact, so the improvement is over ln rate (or ln latency) alone.
 * With nothing feasible yet (`best` Infinity) the improvement is over what the likeliest feasible
 * configuration is expected to cost, and some more.
 */
export function logAcquisition(
  problem: Problem,
  prices: readonly ReplicaPrice[],
  beliefs: Beliefs,
  best: number,
): Float64Array {
  const feasible = logFeasible(problem, beliefs)
  const reference =
    best === Infinity ? safestCost(problem, prices, beliefs, feasible) + MARGIN : best
  if (!Number.isFinite(reference)) return feasible
  return feasible.map(
    (f, i) => f + logImprovement(problem.objective, prices[i]!, beliefs, i, reference),
  )
}

/** ln 2: while nothing is feasible, the safest configuration itself still counts as a gain. */
const MARGIN = Math.LN2

/** Expected ln cost of the configuration likeliest to be feasible. */
function safestCost(
  problem: Problem,
  prices: readonly ReplicaPrice[],
  { rate, constraint }: Beliefs,
  feasible: Float64Array,
): number {
  let safest = 0
  for (let i = 1; i < feasible.length; i++) if (feasible[i]! > feasible[safest]!) safest = i
  return logCost(
    problem.objective,
    prices[safest]!,
    rate?.mean[safest] ?? Number.NaN,
    constraint?.mean[safest] ?? Number.NaN,
  )
}

function logImprovement(
  objective: Objective,
  price: ReplicaPrice,
  { rate, constraint }: Beliefs,
  i: number,
  best: number,
): number {
  if (isTooDear(objective, price.pricePerHour)) return -Infinity
  const learns = learnsOf(objective)
  const believed = logCost(
    objective,
    price,
    rate?.mean[i] ?? Number.NaN,
    constraint?.mean[i] ?? Number.NaN,
  )
  if (learns === 'nothing') return Math.log(Math.max(0, best - believed))
  const belief = learns === 'rate' ? rate : constraint
  if (!belief) return 0
  const demand = demandOf(objective)
  return demand
    ? demandImprovement(demand, price, belief, i, best)
    : logExpectedExcess(belief, i, believed - best)
}

const MOST_REPLICAS = 64

/**
 * ln E[max(0, best - ln(price of the replicas))], replicas = ceil(demand / rate): an exact sum over
 * replica counts, P(at most n) = P(rate ≥ demand/n); beyond 64 replicas the ceiling is left out,
 * and that of instances.
 */
function demandImprovement(
  demand: Demand,
  price: ReplicaPrice,
  belief: BentNormal,
  i: number,
  best: number,
): number {
  const logDemand = Math.log(demand.demandRps / (1 - demand.headroom))
  const mean = belief.mean[i]!
  if (replicasFor(demand, Math.exp(mean + above(belief, i, 2))) > MOST_REPLICAS)
    return logExpectedExcess(belief, i, Math.log(price.pricePerHour) + logDemand - mean - best)
  let expected = 0
  let upTo = 0
  for (let n = 1; n <= 4 * MOST_REPLICAS; n++) {
    const improvement = best - Math.log(fleetPerHour(price, n))
    if (improvement <= 0) break
    const atMost = Math.exp(logCdf(-luckFor(belief, i, logDemand - Math.log(n) - mean)))
    expected += improvement * (atMost - upTo)
    upTo = atMost
  }
  return Math.log(expected)
}
