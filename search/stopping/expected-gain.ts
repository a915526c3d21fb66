import { computeLogAcquisition } from '../acquisition/expected-improvement.ts'
import { preselect } from '../acquisition/maximise.ts'
import type { Surrogate } from '../model/surrogate.ts'
import { resolveReplicaPrice } from '../replica-price.ts'
import type { Configuration, Problem } from '../types.ts'

/**
 * Computes the expected saving of the best next trial, as a share of the incumbent's cost: the
 * maximum of expected improvement × P(feasible).
 */
export function computeExpectedGain(
  problem: Problem,
  surrogate: Surrogate,
  incumbentLogCost: number,
  untried: readonly Configuration[],
): number {
  const score = (candidates: readonly Configuration[], accuracy?: 'approximate') => {
    const prices = candidates.map((c) => resolveReplicaPrice(problem.pricePerHour, c))
    const predictions = surrogate.predict(candidates, accuracy)
    return {
      candidates,
      scores: computeLogAcquisition(problem, prices, predictions, incumbentLogCost),
    }
  }
  // Scores are logarithms, of an expected decrease d of ln cost. As a share of the cost: 1 - exp(-d).
  const { scores } = score(preselect(untried, (all) => score(all, 'approximate')))
  return -Math.expm1(-Math.exp(scores.reduce((max, value) => Math.max(max, value), -Infinity)))
}
