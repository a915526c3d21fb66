/** Sentences: the verdict, and why the others were not chosen. */
import type { Slo } from '../../profiler/types.ts'
import { learnsOf, orderIsOpen, priceBoundOf, shownCost, verdictText, wordsOf } from '../../search/objective.ts'
import type { Objective } from '../../search/types.ts'
import { money, percent, rate, sloFigure, sloText, sloValue, times, writing } from '../format.ts'
import type { Candidate, Recommendation } from './types.ts'

/** '2 cores, 1/4 T4 (4 GiB), batch 8: 212 req/s at p99 43 ms, $0.11 per million requests, 2.3x cheaper than the default' */
export function verdictOf(
  best: Candidate,
  standing: { readonly rateRps: number; readonly sloMs: number },
  slo: Slo,
  objective: Objective,
  fallback: { readonly candidate?: Candidate; readonly gain?: number },
): string {
  const figures = `${best.bound === undefined ? '' : best.bound === 'lower' ? 'at least ' : 'at most '}${rate(standing.rateRps)} ${slo.limits ? 'with' : 'at'} ${sloFigure(slo, standing.sloMs)}`
  const gain = gainPhrase(best, objective, fallback)
  return `${best.label}: ${[figures, verdictText(objective, best, writing), ...(gain ? [gain] : [])].join(', ')}`
}

function gainPhrase(
  best: Candidate,
  objective: Objective,
  { candidate, gain }: { candidate?: Candidate; gain?: number },
): string | undefined {
  if (!candidate) return undefined
  if (candidate.trial === best.trial) return 'which is the default itself'
  if (!candidate.feasible) return 'where the default does not meet the SLO'
  if (gain === undefined) return undefined
  const { better, noBetter } = wordsOf(objective.kind)
  return gain < 1.005 ? noBetter : `${times(gain)} ${better} the default`
}

/** The verdict when nothing meets the SLO. */
export function verdictOfNone(nearest: Candidate | undefined, slo: Slo, objective: Objective, trials: number): string {
  const wanted = sloText(slo)
  if (trials === 0) return 'Nothing has been measured yet'
  if (!nearest) return `No configuration meets ${wanted}: none of those tried could serve`
  const bound = priceBoundOf(objective)
  if (nearest.capacityRps > 0 && bound !== undefined) {
    return `No configuration meets ${wanted} within ${money(bound)} per hour: the nearest, ${nearest.label}, costs ${money(nearest.pricePerHour)}`
  }
  if (!Number.isFinite(nearest.sloMsAtCapacity)) return `No configuration meets ${wanted}: the nearest, ${nearest.label}, ${nearest.reason}`
  const over = times(nearest.sloMsAtCapacity / slo.limitMs)
  return `No configuration meets ${wanted}: the nearest, ${nearest.label}, takes ${sloValue(slo, nearest.sloMsAtCapacity)} for one request at a time${slo.limits ? '' : `, ${over} the limit`}`
}

/** Why an alternative was not chosen: '12 % dearer', '3 % dearer, within the uncertainty', or why it cannot serve. */
export function whyNot(candidate: Candidate, best: Candidate | undefined, objective: Objective): string {
  if (!candidate.feasible || !best) return candidate.reason ?? 'not chosen'
  const unsure = orderIsOpen(objective, candidate, best) ? ', within the uncertainty' : ''
  const atLeast = candidate.bound === 'upper' && learnsOf(objective) === 'rate' ? 'at least ' : ''
  const part = Math.abs(shownCost(objective, candidate.cost) / shownCost(objective, best.cost) - 1)
  const ahead = best.cost - candidate.cost
  if (part < 0.0005) return candidate.capacityRps < best.capacityRps ? 'equal, with a lower capacity' : 'equal'
  return ahead > 0 ? unconfirmed : `${atLeast}${percent(part)} ${wordsOf(objective.kind).worse}${unsure}`
}

/** Of one that looks better than the best: see the margin in recommendation.ts. */
const unconfirmed = 'as good by its estimate, which is not confirmed'

/** What the stop rule allows to be said. */
export function confidenceOf(probabilityBetterExists: number | undefined, tolerance: number): Recommendation['confidence'] {
  if (probabilityBetterExists === undefined) return { tolerance, statement: 'How sure the search is was not assessed.' }
  const probability = 1 - probabilityBetterExists
  const shown = Math.floor(probability * 100 + 1e-9)
  return {
    probabilityWithinTolerance: probability,
    tolerance,
    statement:
      probability < 0.5
        ? `The search stopped before it could be sure: with ${100 - shown} % probability, something untried is more than ${percent(tolerance)} better (by the search's own model).`
        : `With ${shown} % probability, nothing untried in the search space is more than ${percent(tolerance)} better (by the search's own model).`,
  }
}
