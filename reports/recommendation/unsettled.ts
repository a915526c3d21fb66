/** What a further measurement could change. */
import { cost, type Objective } from '../../search/objective.ts'
import { isConfirmed } from './status.ts'
import type { Candidate, Recommendation } from './types.ts'

/** Estimates come out about this much lower when they are measured again: winners are winners partly by luck. */
const luck = 0.97

/** A rival that was measured once and that, measured again, may well come before the best; a confirmed figure is not ranked against an estimate as if they were alike. */
export function isUnsettled(candidate: Candidate, best: Candidate, objective: Objective): boolean {
  if (candidate.trial === best.trial || !onceMeasured(candidate)) return false
  return cost(objective, { ...candidate, capacityRps: luck * candidate.capacityRps }) < best.cost
}

/**
 * Configurations whose second measurement could change what is recommended, in the order in which to measure them: the best itself while it was
 * measured once, then the rivals whose estimates are better. Empty where all is settled, or nothing meets the SLO.
 */
export function unsettled({ best, alternatives, objective }: Recommendation): readonly Candidate[] {
  if (!best) return []
  return [...(onceMeasured(best) ? [best] : []), ...alternatives.filter((rival) => isUnsettled(rival, best, objective))]
}

const onceMeasured = ({ feasible, status }: Candidate): boolean => feasible && !isConfirmed(status) && status !== 'refuted'
