/** Shortlist of untried configurations that could beat the incumbent, used by the stop rule. */
import type { Surrogate } from '../model/surrogate.ts'
import { type ReplicaPrice, resolveReplicaPrice } from '../replica-price.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Problem } from '../types.ts'
import { computeLogAcquisition } from './expected-improvement.ts'

/** Configurations with their prices, resolved once because a price book may be slow. */
export interface PricedConfigurations {
  readonly configurations: readonly Configuration[]
  readonly prices: readonly ReplicaPrice[]
}

/** Size of the shortlist. Joint draws take time cubic in it. Assumed. */
const maxShortlisted = 200
/**
 * Of a longer list, this many with the highest approximate acquisition are ranked exactly. No stop
 * probability changed by that in 280 assessments (docs/research/search.md, speed).
 */
const maxRankedExactly = 512
/** Configurations closer than this, as a share of each parameter's range, count as one. Assumed. */
const minDistance = 0.03
/**
 * Configurations that are expected to save less than this share of the cost are left out. Assumed.
 */
const minLogAcquisition = Math.log(1e-7)

export const attachPrices = (
  problem: Problem,
  configurations: readonly Configuration[],
): PricedConfigurations => ({
  configurations,
  prices: configurations.map((c) => resolveReplicaPrice(problem.pricePerHour, c)),
})

const selectByIndex = (
  { configurations, prices }: PricedConfigurations,
  indices: readonly number[],
): PricedConfigurations => ({
  configurations: indices.map((i) => configurations[i]!),
  prices: indices.map((i) => prices[i]!),
})

/**
 * Selects configurations that could be feasible and cheaper than a target, by their expected
 * improvement on it, without near duplicates.
 */
export function shortlistCandidates(
  problem: Problem,
  surrogate: Surrogate,
  untried: PricedConfigurations,
  targetLogCost: number,
  exactLimit = maxRankedExactly,
): PricedConfigurations {
  const rank = ({ configurations, prices }: PricedConfigurations, accuracy?: 'approximate') => {
    const predictions = surrogate.predict(configurations, accuracy)
    const scores = computeLogAcquisition(problem, prices, predictions, targetLogCost)
    return Array.from(scores.keys())
      .filter((i) => scores[i]! > minLogAcquisition)
      .sort((a, b) => scores[b]! - scores[a]!)
  }
  const preselected =
    untried.prices.length > exactLimit
      ? selectByIndex(untried, rank(untried, 'approximate').slice(0, exactLimit))
      : untried
  const { encode } = createEncoder(problem.space)
  return selectByIndex(
    preselected,
    dropSimilar(encode, preselected.configurations, rank(preselected)),
  )
}

/** Drops near duplicates from the indices, in their order, and keeps at most `maxShortlisted`. */
function dropSimilar(
  encode: (configuration: Configuration) => Float64Array,
  configurations: readonly Configuration[],
  indices: readonly number[],
): number[] {
  const selected: { readonly i: number; readonly row: Float64Array }[] = []
  for (const i of indices) {
    if (selected.length === maxShortlisted) break
    const row = encode(configurations[i]!)
    const isSimilar = (other: Float64Array) =>
      row.every((value, c) => Math.abs(value - other[c]!) < minDistance)
    if (!selected.some((other) => isSimilar(other.row))) selected.push({ i, row })
  }
  return selected.map(({ i }) => i)
}
