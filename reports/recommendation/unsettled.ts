/**
 * What a further measurement could change, and which comes next: the race of those that may be the
 * best.
 */
import {
  atCapacity,
  capacityToBeatRps,
  cost,
  demandOf,
  type Objective,
  orderIsOpen,
  replicasFor,
} from '../../search/objective.ts'
import { candidatesOf } from './candidates.ts'
import { confirmationMargin, isConfirmed } from './status.ts'
import type { Candidate, Recommendation } from './types.ts'

/**
 * Of an estimate, what holds if the server is what it seems: estimates err by a few percent, and
 * winners are winners partly by luck.
 */
const derating = 0.9
/** Of a rate that one short window held, what is tried where the interval reaches far below it. */
const nearHeld = 0.8
/**
 * Of the rate of a heat, the lowest that is worth more proven than the rate itself without proof.
 */
const leastProven = 0.8
/** Of the rate that was missed, the next one to try. */
const lower = 0.95

type Estimated = Pick<Candidate, 'capacityRps' | 'capacityCi90Rps' | 'foretoldRps' | 'heldRps'>

/**
 * At which rate a configuration is measured a second time: the wider its interval, the lower, but
 * not far below what a window held. With a demand the rate that as many replicas must each serve,
 * where the estimate reaches it.
 */
export function secondRateRps(
  candidate: Estimated & Pick<Candidate, 'status' | 'missed'>,
  objective: Objective,
): number {
  const { capacityRps, capacityCi90Rps, heldRps = 0, status, missed } = candidate
  if (status === 'refuted' && missed) return lower * missed.rateRps
  const [low] = capacityCi90Rps
  const likely = derating * likelyRps(candidate)
  const careful = Math.max(Math.sqrt(low * capacityRps), nearHeld * heldRps)
  const usual = low > 0 && low < capacityRps ? Math.min(likely, careful) : likely
  return Math.max(usual, shareOfDemand(capacityRps, objective))
}

/**
 * The estimate, drawn towards what was expected of the configuration before it was measured: the
 * logarithms of both, weighted by their precisions (the posterior mean of two normal readings).
 * Never beyond the estimate. Both intervals are of 90 %; one without ends draws nothing.
 */
function likelyRps({ capacityRps, capacityCi90Rps, foretoldRps }: Estimated): number {
  const spread = ([low, high]: readonly [number, number]) => Math.log(high / low)
  const [own, foretold] = [spread(capacityCi90Rps), foretoldRps ? spread(foretoldRps) : 0]
  if (foretoldRps === undefined || !(own > 0 && Number.isFinite(own))) return capacityRps
  const weight = own ** 2 / (own ** 2 + foretold ** 2)
  const [low, high] = foretoldRps
  return Math.min(capacityRps, capacityRps ** (1 - weight) * Math.sqrt(low * high) ** weight)
}

/** What each of the replicas must serve that a demand takes at a capacity; 0 without a demand. */
function shareOfDemand(capacityRps: number, objective: Objective): number {
  const demand = demandOf(objective)
  return demand === undefined
    ? 0
    : demand.demandRps / (replicasFor(demand, capacityRps) * (1 - demand.headroom))
}

/** What its own metrics will be at another rate is best told by what they were. */
const costAt = (candidate: Candidate, capacityRps: number, objective: Objective): number =>
  cost(objective, {
    ...atCapacity(candidate, capacityRps),
    metrics: candidate.metrics ?? candidate.missed?.metrics,
  })

/**
 * What a candidate is compared by with one that a second measurement held: its cost at the rate
 * that it would be measured at again; Infinity where it is no rival.
 */
export function costAgain(candidate: Candidate, objective: Objective): number {
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
      (c) => c.feasible && !better.includes(c) && orderIsOpen(objective, c, best),
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
