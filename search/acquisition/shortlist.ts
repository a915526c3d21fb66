/** Shortlist of untried configurations that could beat the incumbent, used by the stop rule. */
import type { Predictions } from '../model/feasibility.ts'
import { quantileOffset } from '../model/saturating-predictive.ts'
import type { Surrogate } from '../model/surrogate.ts'
import { logCost } from '../objective.ts'
import { type ReplicaPrice, resolveReplicaPrice } from '../replica-price.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Problem } from '../types.ts'

/** Configurations with their prices, resolved once because a price book may be slow. */
export interface PricedConfigurations {
  readonly configurations: readonly Configuration[]
  readonly prices: readonly ReplicaPrice[]
}

/** Size of the shortlist. Joint draws take time cubic in it. */
const maxShortlisted = 200
/** Of a longer list, this many with the lowest approximate z-scores are ranked exactly. */
const maxRankedExactly = 1_024
/**
 * Configurations closer than this, as a share of each parameter's range, count as one, because a
 * nugget would be common to them.
 */
const minDistance = 0.03
/** Largest z-score considered, for exact and for approximate predictions. */
const maxZScore = 4
const maxApproximateZScore = 8
/** Configurations that serve with less than this probability are left out. */
const minProbabilityServes = 1e-3
/** Bisection steps for a z-score: 1/32 of a standard deviation for exact predictions. */
const bisectionSteps = 8

export const withPrices = (
  problem: Problem,
  configurations: readonly Configuration[],
): PricedConfigurations => ({
  configurations,
  prices: configurations.map((c) => resolveReplicaPrice(problem.pricePerHour, c)),
})

const pick = (
  { configurations, prices }: PricedConfigurations,
  indices: readonly number[],
): PricedConfigurations => ({
  configurations: indices.map((i) => configurations[i]!),
  prices: indices.map((i) => prices[i]!),
})

/**
 * Configurations that could be feasible and cheaper than a target, lowest required z-score first,
 * without near duplicates.
 */
export function shortlistCandidates(
  problem: Problem,
  surrogate: Surrogate,
  untried: PricedConfigurations,
  targetLogCost: number,
  exactLimit = maxRankedExactly,
): PricedConfigurations {
  const rankApproximately = () =>
    rankByRequiredZScore(
      problem,
      untried,
      surrogate.predict(untried.configurations, 'approximate'),
      targetLogCost,
      maxApproximateZScore,
    )
  const inOriginalOrder = (indices: readonly number[]) => [...indices].sort((a, b) => a - b)
  const preselected =
    untried.prices.length > exactLimit
      ? pick(untried, inOriginalOrder(rankApproximately().slice(0, exactLimit)))
      : untried
  const ranked = rankByRequiredZScore(
    problem,
    preselected,
    surrogate.predict(preselected.configurations),
    targetLogCost,
    maxZScore,
  )
  const { encode } = createEncoder(problem.space)
  return pick(preselected, dropSimilar(encode, preselected.configurations, ranked))
}

/**
 * Indices of the configurations that are feasible and below the target cost at some z-score up to
 * `limit`, by the lowest such z-score. At z the rate has its z-quantile, and the constraint its
 * (−z)-quantile.
 */
function rankByRequiredZScore(
  problem: Problem,
  { prices }: PricedConfigurations,
  { rate, constraint, logServes }: Predictions,
  targetLogCost: number,
  limit: number,
): number[] {
  const beatsTarget = (i: number, z: number) => {
    const logRate = rate ? rate.mean[i]! + quantileOffset(rate, i, z) : Number.NaN
    const logConstraint = constraint
      ? constraint.mean[i]! - z * Math.sqrt(constraint.variance[i]!)
      : Number.NaN
    const isMet = problem.constraintLimit === undefined || logConstraint <= 0
    return isMet && logCost(problem.objective, prices[i]!, logRate, logConstraint) < targetLogCost
  }
  const findRequiredZScore = (i: number) => {
    let [low, high] = [-limit, limit]
    for (let step = 0; step < bisectionSteps; step++) {
      const middle = (low + high) / 2
      if (beatsTarget(i, middle)) high = middle
      else low = middle
    }
    return high
  }
  return Array.from(prices.keys())
    .filter((i) => logServes[i]! > Math.log(minProbabilityServes) && beatsTarget(i, limit))
    .map((i) => ({ i, z: findRequiredZScore(i) }))
    .sort((a, b) => a.z - b.z)
    .map(({ i }) => i)
}

/** The indices in their order without near duplicates, at most `maxShortlisted`. */
function dropSimilar(
  encode: (configuration: Configuration) => Float64Array,
  configurations: readonly Configuration[],
  indices: readonly number[],
): number[] {
  const chosen: { readonly i: number; readonly row: Float64Array }[] = []
  for (const i of indices) {
    if (chosen.length === maxShortlisted) break
    const row = encode(configurations[i]!)
    const isSimilar = (other: Float64Array) =>
      row.every((value, c) => Math.abs(value - other[c]!) < minDistance)
    if (!chosen.some((other) => isSimilar(other.row))) chosen.push({ i, row })
  }
  return chosen.map(({ i }) => i)
}
