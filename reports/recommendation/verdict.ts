/** Sentences: the verdict, and why the others were not chosen. */
import type { Slo } from '../../profiler/types.ts'
import type { Objective } from '../../search/types.ts'
import { latency, money, percent, rate, sloFigure, sloText, sloValue, times } from '../format.ts'
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
  return `${best.label}: ${[figures, pricePhrase(best, objective), ...(gain ? [gain] : [])].join(', ')}`
}

function pricePhrase(best: Candidate, objective: Objective): string {
  switch (objective.kind) {
    case 'price-for-demand': {
      const replicas = best.replicas ?? 1
      return `${replicas} replica${replicas === 1 ? '' : 's'} for ${rate(objective.demandRps)} at ${money(best.totalPricePerHour ?? best.pricePerHour)} per hour`
    }
    case 'price':
      return `${money(best.pricePerHour)} per hour`
    case 'price-per-request':
      return `${money(best.pricePerMillionRequests)} per million requests`
    case 'max-rate':
    case 'min-latency':
      return `${objective.kind === 'min-latency' ? `${latency(best.idleMs ?? Number.NaN)} when idle, ` : ''}${money(best.pricePerHour)} per hour`
  }
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
  if (gain < 1.005) return objective.kind === 'max-rate' ? 'the rate of the default' : 'no better than the default'
  const better = objective.kind === 'max-rate' ? 'the rate of' : objective.kind === 'min-latency' ? 'faster than' : 'cheaper than'
  return `${times(gain)} ${better} the default`
}

/** The verdict when nothing meets the SLO. */
export function verdictOfNone(nearest: Candidate | undefined, slo: Slo, objective: Objective, trials: number): string {
  const wanted = sloText(slo)
  if (trials === 0) return 'Nothing has been measured yet'
  if (!nearest) return `No configuration meets ${wanted}: none of those tried could serve`
  if (nearest.capacityRps > 0 && (objective.kind === 'max-rate' || objective.kind === 'min-latency')) {
    return `No configuration meets ${wanted} within ${money(objective.maxPricePerHour)} per hour: the nearest, ${nearest.label}, costs ${money(nearest.pricePerHour)}`
  }
  if (!Number.isFinite(nearest.sloMsAtCapacity)) return `No configuration meets ${wanted}: the nearest, ${nearest.label}, ${nearest.reason}`
  const over = times(nearest.sloMsAtCapacity / slo.limitMs)
  return `No configuration meets ${wanted}: the nearest, ${nearest.label}, takes ${sloValue(slo, nearest.sloMsAtCapacity)} for one request at a time${slo.limits ? '' : `, ${over} the limit`}`
}

/** Why an alternative was not chosen: '12 % dearer', '3 % dearer, within the uncertainty', or why it cannot serve. */
export function whyNot(candidate: Candidate, best: Candidate | undefined, objective: Objective): string {
  if (!candidate.feasible || !best) return candidate.reason ?? 'not chosen'
  const unsure = overlaps(candidate, best, objective) ? ', within the uncertainty' : ''
  const atLeast = candidate.bound === 'upper' ? 'at least ' : ''
  if (objective.kind === 'max-rate') {
    const less = 1 - candidate.capacityRps / best.capacityRps
    if (less < -0.0005) return unconfirmed
    return less < 0.0005 ? 'equal' : `${atLeast}${percent(less)} less rate${unsure}`
  }
  const more = candidate.cost / best.cost - 1
  if (more < -0.0005) return unconfirmed
  if (more < 0.0005) return candidate.capacityRps < best.capacityRps ? 'equal, with a lower capacity' : 'equal'
  return `${atLeast}${percent(more)} ${objective.kind === 'min-latency' ? 'slower' : 'dearer'}${objective.kind === 'min-latency' ? '' : unsure}`
}

/** Of one that looks better than the best: see the margin in recommendation.ts. */
const unconfirmed = 'as good by its estimate, which is not confirmed'

/** Whether the capacities' 90 % intervals leave the order of two candidates open. Prices are exact. */
export function overlaps(candidate: Candidate, best: Candidate, objective: Objective): boolean {
  if (objective.kind === 'price' || objective.kind === 'min-latency') return false
  const weight = (c: Candidate) => (objective.kind === 'max-rate' ? 1 : 1 / c.pricePerHour)
  return candidate.capacityCi90Rps[1] * weight(candidate) >= best.capacityCi90Rps[0] * weight(best)
}

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
