/**
 * What a further measurement could change, and which comes next: the race of those that may be the
 * best.
 */
import {
  capacityToBeatRps,
  cost,
  countReplicas,
  getDemand,
  isOrderUncertain,
  type Objective,
  withCapacity,
} from '../../search/objective.ts'
import { candidatesOf } from './candidates.ts'
import { confirmationMargin, isConfirmed } from './status.ts'
import type { Candidate, Recommendation } from './types.ts'

/**
 * Of the rate of a heat, the lowest that is worth more proven than the rate itself without proof.
 */
const leastProven = 0.8
/** Of the rate that was missed, the next one to try. */
const lower = 0.95

/**
 * At which rate a configuration is measured a second time: its safe capacity. With a demand the
 * rate that each of as many replicas must serve as the estimate takes, where that is more.
 */
export function secondRateRps(
  {
    capacityRps,
    estimateRps = capacityRps,
    status,
    missed,
  }: Pick<Candidate, 'capacityRps' | 'estimateRps' | 'status' | 'missed'>,
  objective: Objective,
): number {
  if (status === 'refuted' && missed) return lower * missed.rateRps
  return Math.max(capacityRps, shareOfDemand(estimateRps, objective))
}

/** What each of the replicas must serve that a demand takes at a capacity; 0 without a demand. */
function shareOfDemand(capacityRps: number, objective: Objective): number {
  const demand = getDemand(objective)
  return demand === undefined
    ? 0
    : demand.demandRps / (countReplicas(demand, capacityRps) * (1 - demand.headroom))
}

/**
 * What a candidate costs by its estimate, before the discount: comparable with estimates of trials
 * that still run.
 */
export const estimatedCost = (candidate: Candidate, objective: Objective): number =>
  candidate.estimateRps === undefined
    ? candidate.cost
    : costAt(candidate, candidate.estimateRps, objective)

/** What its own metrics will be at another rate is best told by what they were. */
const costAt = (candidate: Candidate, capacityRps: number, objective: Objective): number =>
  cost(objective, {
    ...withCapacity(candidate, capacityRps),
    metrics: candidate.metrics ?? candidate.missed?.metrics,
  })

/**
 * What a candidate is compared by with one that a second measurement held: its cost at the rate
 * that it would be measured at again; Infinity where it is no rival.
 */
function costAgain(candidate: Candidate, objective: Objective): number {
  const { feasible, status } = candidate
  if (!feasible || isConfirmed(status) || status === 'refuted') return Number.POSITIVE_INFINITY
  return costAt(candidate, secondRateRps(candidate, objective), objective)
}

/** A rival that was measured once and that, measured again, may well come before the best. */
export const isUnsettled = (candidate: Candidate, best: Candidate, objective: Objective): boolean =>
  candidate.trial !== best.trial && costAgain(candidate, objective) < best.cost

/** What is not settled between the best and the others. */
interface OpenRivals {
  /** Better by what one measurement shows, or by a bound of what was cut short. */
  readonly better: readonly Candidate[]
  /** No better, but within the uncertainty. */
  readonly close: readonly Candidate[]
}

/** Rivals of the best of which the order is open. */
export function openRivals(
  candidates: readonly Candidate[],
  best: Candidate,
  objective: Objective,
): OpenRivals {
  const rivals = candidates.filter((c) => c.trial !== best.trial)
  const couldBeat = (c: Candidate) =>
    c.bound === 'upper' && c.capacityRps > 0 && cost(objective, c) < best.cost
  const better = rivals.filter((c) => isUnsettled(c, best, objective) || couldBeat(c))
  return {
    better,
    close: rivals.filter(
      (c) => c.feasible && !better.includes(c) && isOrderUncertain(objective, c, best),
    ),
  }
}

const known = new WeakMap<Recommendation, OpenRivals>()

/** The open rivals of what is recommended; several parts of a page ask. */
export function openRivalsOf(recommendation: Recommendation): OpenRivals {
  const { best, objective } = recommendation
  const found =
    known.get(recommendation) ??
    (best ? openRivals(candidatesOf(recommendation), best, objective) : { better: [], close: [] })
  known.set(recommendation, found)
  return found
}

/** What is to be measured again, and at which rates. */
interface Heat {
  readonly candidate: Candidate
  readonly rateRps: number
  /** Below this rate another would be better. Absent: there is none. */
  readonly leastRps?: number
  /**
   * Where the SLO holds at the rate without proof: down to here, a rate that is proven is worth
   * more. A demand's replicas stay as many.
   */
  readonly leastProvenRps: number
}

/**
 * The next heat of the race: of all that may be the best, confirmed ones at the rate that held,
 * others at the rate they are measured at next, the one that costs least there. Undefined once that
 * is confirmed. One that misses is measured only as far down as it leads, then the next has its
 * turn. One that is out unrefuted keeps its place: only what could be recommended before it is
 * worth a heat.
 * @param tolerance what else could be gained beyond one that is confirmed already, 0.05 = 5 %,
 * without being worth a heat
 */
export function nextHeat(
  recommendation: Recommendation,
  isOut: (candidate: Candidate) => boolean,
  tolerance = 0,
): Heat | undefined {
  const { objective } = recommendation
  const runners = candidatesOf(recommendation)
    .flatMap((candidate) => {
      const done = isConfirmed(candidate.status)
      const refuted = candidate.status === 'refuted'
      const out = !done && isOut(candidate)
      if (refuted ? out : !candidate.feasible) return []
      const rateRps = done ? candidate.capacityRps : secondRateRps(candidate, objective)
      return [{ candidate, rateRps, done, out, cost: costAt(candidate, rateRps, objective) }]
    })
    .sort((a, b) => a.cost - b.cost)
  const least = runners[0]?.cost ?? 0
  const [first, second] = runners.filter(({ out }) => !out)
  if (
    first === undefined ||
    first.done ||
    first.cost > least + confirmationMargin * Math.abs(least)
  )
    return undefined
  const confirmed = runners.find(({ done }) => done)
  if (confirmed && confirmed.cost - first.cost <= tolerance * Math.abs(confirmed.cost))
    return undefined
  const { candidate, rateRps } = first
  const leastRps = capacityToBeatRps(objective, candidate, second?.cost)
  const leastProvenRps = Math.min(
    rateRps,
    Math.max(leastProven * rateRps, shareOfDemand(rateRps, objective)),
  )
  return { candidate, rateRps, leastProvenRps, ...(leastRps !== undefined && { leastRps }) }
}
