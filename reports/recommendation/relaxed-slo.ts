/** What a looser SLO would save, by the measured load curves. */
import { computeRelativeExcess } from '../../search/objective.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { latency, percent } from '../format.ts'
import type { RankingCriteria } from './ranked-candidate.ts'
import { rankCandidates } from './ranking.ts'
import type { Candidate, RelaxedSlo } from './types.ts'

/** The limit is relaxed by this share. Assumed. */
const relaxation = 0.1

/**
 * Ranks the trials under a limit that is 10 % looser. Undefined for an SLO of several limits, and for
 * costs without a ratio.
 */
export function evaluateRelaxedSlo(
  trials: readonly FinishedTrial[],
  criteria: RankingCriteria,
  best: Candidate,
): RelaxedSlo | undefined {
  const { slo, objective } = criteria
  if (slo.limits !== undefined) return undefined
  const limitMs = slo.limitMs * (1 + relaxation)
  const ranked = rankCandidates(trials, { ...criteria, slo: { ...slo, limitMs } })
  const costs = ranked.flatMap(({ candidate }) => (candidate.feasible ? [candidate.cost] : []))
  const excess = computeRelativeExcess(objective, Math.min(...costs), best.cost)
  // Without a confirmation under the looser limit, all may rank as more expensive than the best:
  // that saves nothing.
  return excess === undefined ? undefined : { limitMs, saving: Math.max(0, -excess) }
}

/** 'An SLO of 275 ms would save 8 %, by the load curves' */
export const describeRelaxedSlo = ({ limitMs, saving }: RelaxedSlo): string =>
  `An SLO of ${latency(limitMs)} would save ${saving < 0.005 ? 'nothing' : percent(saving)}, by the load curves`
