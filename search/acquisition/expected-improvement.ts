import { logCdf } from '../gp/normal.ts'
import { computeLogFeasible, type Predictions } from '../model/feasibility.ts'
import {
  computeLogExpectedExcess,
  computeQuantileOffset,
  computeZScore,
  type SaturatingPredictive,
} from '../model/saturating-predictive.ts'
import {
  computeLogCost,
  countReplicas,
  type Demand,
  getDemand,
  getModelledQuantity,
  isAbovePriceBound,
} from '../objective.ts'
import { computeFleetPricePerHour, type ReplicaPrice } from '../replica-price.ts'
import type { Objective, Problem } from '../types.ts'

/**
 * Computes ln(expected improvement × P(feasible)) of m configurations (Schonlau et al. 1998;
 * Gardner et al. 2014). The price is exact, so that the improvement is an expectation over ln rate
 * or ln latency alone. Without an incumbent the reference is the expected cost of the configuration
 * most probably feasible, plus a margin.
 * @param incumbentLogCost Infinity without an incumbent
 */
export function computeLogAcquisition(
  problem: Problem,
  prices: readonly ReplicaPrice[],
  predictions: Predictions,
  incumbentLogCost: number,
): Float64Array {
  const feasible = computeLogFeasible(problem, predictions)
  const referenceLogCost =
    incumbentLogCost === Infinity
      ? findSafestLogCost(problem, prices, predictions, feasible) + marginWithoutIncumbent
      : incumbentLogCost
  if (!Number.isFinite(referenceLogCost)) return feasible
  return feasible.map(
    (f, i) =>
      f + computeLogImprovement(problem.objective, prices[i]!, predictions, i, referenceLogCost),
  )
}

/** ln 2: without an incumbent the safest configuration itself still improves on the reference. */
const marginWithoutIncumbent = Math.LN2

/** Finds the expected ln cost of the configuration with the highest P(feasible). */
function findSafestLogCost(
  problem: Problem,
  prices: readonly ReplicaPrice[],
  { rate, constraint }: Predictions,
  feasible: Float64Array,
): number {
  let safestIndex = 0
  for (let i = 1; i < feasible.length; i++)
    if (feasible[i]! > feasible[safestIndex]!) safestIndex = i
  return computeLogCost(
    problem.objective,
    prices[safestIndex]!,
    rate?.mean[safestIndex] ?? Number.NaN,
    constraint?.mean[safestIndex] ?? Number.NaN,
  )
}

/** Computes the ln expected improvement of the i-th configuration over a reference ln cost. */
function computeLogImprovement(
  objective: Objective,
  price: ReplicaPrice,
  { rate, constraint }: Predictions,
  i: number,
  referenceLogCost: number,
): number {
  if (isAbovePriceBound(objective, price.pricePerHour)) return -Infinity
  const quantity = getModelledQuantity(objective)
  const expected = computeLogCost(
    objective,
    price,
    rate?.mean[i] ?? Number.NaN,
    constraint?.mean[i] ?? Number.NaN,
  )
  if (quantity === 'nothing') return Math.log(Math.max(0, referenceLogCost - expected))
  const prediction = quantity === 'rate' ? rate : constraint
  // Before the quantity was measured, the probability of feasibility alone decides.
  if (!prediction) return 0
  const demand = getDemand(objective)
  return demand
    ? computeLogDemandImprovement(demand, price, prediction, i, referenceLogCost)
    : computeLogExpectedExcess(prediction, i, expected - referenceLogCost)
}

/** Beyond this many replicas, rounding to whole ones changes a cost by less than 2 %. */
const maxReplicasSummed = 64

/**
 * Computes ln E[max(0, referenceLogCost − ln(fleet price))] with replicas = ceil(demand / rate): an
 * exact sum over replica counts n, with P(at most n replicas) = P(rate ≥ demand / n). A fleet of
 * more than 64 replicas is treated as continuous.
 */
function computeLogDemandImprovement(
  demand: Demand,
  price: ReplicaPrice,
  prediction: SaturatingPredictive,
  i: number,
  referenceLogCost: number,
): number {
  const logDemand = Math.log(demand.demandRps / (1 - demand.headroom))
  const mean = prediction.mean[i]!
  if (
    countReplicas(demand, Math.exp(mean + computeQuantileOffset(prediction, i, 2))) >
    maxReplicasSummed
  )
    return computeLogExpectedExcess(
      prediction,
      i,
      Math.log(price.pricePerHour) + logDemand - mean - referenceLogCost,
    )
  let expected = 0
  let probabilityFewer = 0
  // Low rates need more replicas; four times as many are assumed to be far in the tail.
  for (let n = 1; n <= 4 * maxReplicasSummed; n++) {
    const improvement = referenceLogCost - Math.log(computeFleetPricePerHour(price, n))
    if (improvement <= 0) break
    const probability = Math.exp(
      logCdf(-computeZScore(prediction, i, logDemand - Math.log(n) - mean)),
    )
    expected += improvement * (probability - probabilityFewer)
    probabilityFewer = probability
  }
  return Math.log(expected)
}
