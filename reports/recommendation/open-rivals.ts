/** Rivals of the best whose order is open: a further measurement could put them first. */
import { computeCost, isOrderUncertain, type Objective } from '../../search/objective.ts'
import { listCandidates } from './candidates.ts'
import { computeConfirmationCost } from './confirmation-round.ts'
import type { Candidate, Recommendation } from './types.ts'

/** Whether a rival that was measured once would be cheaper than the best if it were confirmed. */
export const couldWinIfConfirmed = (
  candidate: Candidate,
  best: Candidate,
  objective: Objective,
): boolean =>
  candidate.trial !== best.trial && computeConfirmationCost(candidate, objective) < best.cost

interface OpenRivals {
  /**
   * Cheaper than the best by one measurement, or by the upper bound of a trial that was stopped
   * early.
   */
  readonly better: readonly Candidate[]
  /** No cheaper, but within the uncertainty. */
  readonly close: readonly Candidate[]
}

/** Finds the rivals of the best, of all candidates. */
export function findOpenRivals(
  candidates: readonly Candidate[],
  best: Candidate,
  objective: Objective,
): OpenRivals {
  const rivals = candidates.filter((c) => c.trial !== best.trial)
  const couldBeat = (c: Candidate) =>
    c.bound === 'upper' && c.capacityRps > 0 && computeCost(objective, c) < best.cost
  const better = rivals.filter((c) => couldWinIfConfirmed(c, best, objective) || couldBeat(c))
  return {
    better,
    close: rivals.filter(
      (c) => c.feasible && !better.includes(c) && isOrderUncertain(objective, c, best),
    ),
  }
}

const rivalsByRecommendation = new WeakMap<Recommendation, OpenRivals>()

/**
 * Finds the rivals of the recommended configuration. Memoised: several parts of a page need them.
 */
export function getOpenRivals(recommendation: Recommendation): OpenRivals {
  const { best, objective } = recommendation
  const rivals =
    rivalsByRecommendation.get(recommendation) ??
    (best
      ? findOpenRivals(listCandidates(recommendation), best, objective)
      : { better: [], close: [] })
  rivalsByRecommendation.set(recommendation, rivals)
  return rivals
}
