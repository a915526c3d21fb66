/** What is untried and could be better: what the stop rule's draws are made of. */

import type { Beliefs } from '../model/feasibility.ts'
import { above } from '../model/saturating-predictive.ts'
import type { Surrogate } from '../model/surrogate.ts'
import { logCost } from '../objective.ts'
import { priceOf, type ReplicaPrice } from '../replica-price.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Problem } from '../types.ts'

/** Configurations with their prices, which may take a price book to tell. */
export interface Priced {
  readonly configurations: readonly Configuration[]
  readonly prices: readonly ReplicaPrice[]
}

const CONSIDERED = 200
/**
 * Of more untried ones than this, those that need the least luck at a rough look are looked at
 * again.
 */
const SHORTLIST = 1_024
/**
 * Configurations closer than this, in shares of each parameter's range, are taken for one: what the
 * one has of its own the other has too.
 */
const ALIKE = 0.03
/** Standard deviations within which something is possible, and by a rough look. */
const REACH = 4
const ROUGH_REACH = 8

export const priced = (problem: Problem, configurations: readonly Configuration[]): Priced => ({
  configurations,
  prices: configurations.map((configuration) => priceOf(problem.pricePerHour, configuration)),
})

const some = ({ configurations, prices }: Priced, at: readonly number[]): Priced => ({
  configurations: at.map((i) => configurations[i]!),
  prices: at.map((i) => prices[i]!),
})

/**
 * Those that could be feasible and below the target cost, the ones that need the least luck first,
 * one of those that are alike.
 */
export function mostHopeful(
  problem: Problem,
  surrogate: Surrogate,
  left: Priced,
  target: number,
  shortlisted = SHORTLIST,
): Priced {
  const roughly = () =>
    byLuck(problem, left, surrogate.believe(left.configurations, 'roughly'), target, ROUGH_REACH)
  const inOrder = (at: readonly number[]) => [...at].sort((a, b) => a - b)
  const near =
    left.prices.length > shortlisted ? some(left, inOrder(roughly().slice(0, shortlisted))) : left
  const order = byLuck(problem, near, surrogate.believe(near.configurations), target, REACH)
  return some(near, unlike(createEncoder(problem.space).encode, near.configurations, order))
}

/**
 * Which could be feasible and below the target cost with so many deviations of luck, by the luck
 * that takes.
 */
function byLuck(
  problem: Problem,
  { prices }: Priced,
  { rate, constraint, logServes }: Beliefs,
  target: number,
  reach: number,
): number[] {
  const atTheirBest = (i: number, deviations: number) => {
    const hopedRate = rate ? rate.mean[i]! + above(rate, i, deviations) : Number.NaN
    const hopedConstraint = constraint
      ? constraint.mean[i]! - deviations * Math.sqrt(constraint.variance[i]!)
      : Number.NaN
    const met = problem.constraintLimit === undefined || hopedConstraint <= 0
    return met && logCost(problem.objective, prices[i]!, hopedRate, hopedConstraint) < target
  }
  /** Deviations of luck it takes, by halving. */
  const luckNeeded = (i: number) => {
    let [low, high] = [-reach, reach]
    for (let step = 0; step < 8; step++) {
      const middle = (low + high) / 2
      if (atTheirBest(i, middle)) high = middle
      else low = middle
    }
    return high
  }
  return Array.from(prices.keys())
    .filter((i) => logServes[i]! > Math.log(1e-3) && atTheirBest(i, reach))
    .map((i) => ({ i, luck: luckNeeded(i) }))
    .sort((a, b) => a.luck - b.luck)
    .map(({ i }) => i)
}

/**
 * The first of those that are alike, up to as many as are considered. @param order of the
 * configurations
 */
function unlike(
  encode: (configuration: Configuration) => Float64Array,
  configurations: readonly Configuration[],
  order: readonly number[],
): number[] {
  const chosen: { readonly i: number; readonly row: Float64Array }[] = []
  for (const i of order) {
    if (chosen.length === CONSIDERED) break
    const row = encode(configurations[i]!)
    const isAlike = (other: Float64Array) =>
      row.every((value, c) => Math.abs(value - other[c]!) < ALIKE)
    if (!chosen.some((other) => isAlike(other.row))) chosen.push({ i, row })
  }
  return chosen.map(({ i }) => i)
}
