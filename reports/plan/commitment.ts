/**
 * How many of the instances of a plan to commit to. A committed instance is paid every hour, an
 * on-demand one while it is needed. So the k-th is worth a commitment where at least k are needed
 * for a larger share of the time than the committed price is of the on-demand price.
 */
import type { Offer } from '../../trials/prices/offers.ts'
import type { FleetOutcome } from './fleet.ts'
import { hoursPerMonth } from './plan-costs.ts'

export interface Commitment {
  /** The offer with the lowest total. */
  readonly offer: Offer
  /** Number of committed instances. */
  readonly committed: number
  /** Minimum and maximum number of additional on-demand instances. */
  readonly minOnDemand: number
  readonly maxOnDemand: number
  readonly committedPerMonth: number
  readonly onDemandPerMonth: number
  readonly perMonth: number
  /** Cost if everything is on demand, with the cheapest offer for that. */
  readonly allOnDemandPerMonth: number
  /** Cost if the instances of the busiest time are committed, with the cheapest offer for that. */
  readonly allCommittedPerMonth: number
}

/**
 * @param paid replicas that are paid for, by the second at which their number changes
 * @param periodSeconds when the last of these steps ends
 * @returns undefined if no offer has a committed price
 */
export function planCommitment(
  offers: readonly Offer[],
  paid: FleetOutcome['paid'],
  periodSeconds: number,
): Commitment | undefined {
  const offerPlans = offers.map((offer) => planWithOffer(offer, paid, periodSeconds))
  const allCommitted = offerPlans.flatMap(({ allCommittedPerMonth }) => allCommittedPerMonth ?? [])
  if (allCommitted.length === 0) return undefined
  return {
    // The tolerance keeps the first of two offers that cost the same.
    ...offerPlans.reduce((a, b) => (b.perMonth < a.perMonth * (1 - 1e-9) ? b : a)),
    allOnDemandPerMonth: Math.min(...offerPlans.map((way) => way.allOnDemandPerMonth)),
    allCommittedPerMonth: Math.min(...allCommitted),
  }
}

function planWithOffer(offer: Offer, paid: FleetOutcome['paid'], periodSeconds: number) {
  const { replicasEach, onDemandPerHour, committedPerHour } = offer
  const needs = paid.map(({ replicas, seconds }, i) => ({
    instances: Math.ceil(replicas / replicasEach - 1e-9),
    share: ((paid[i + 1]?.seconds ?? periodSeconds) - seconds) / periodSeconds,
  }))
  const counts = needs.map(({ instances }) => instances)
  const [min, max] = [Math.min(...counts), Math.max(...counts)]
  const sumTimeShare = (n: number) =>
    needs.reduce((sum, { instances, share }) => sum + (instances >= n ? share : 0), 0)
  let committed = 0
  if (committedPerHour !== undefined)
    while (
      committed < max &&
      sumTimeShare(committed + 1) > committedPerHour / onDemandPerHour + 1e-9
    )
      committed++
  const computeOnDemandPerMonth = (committedCount: number) =>
    onDemandPerHour *
    hoursPerMonth *
    needs.reduce(
      (sum, { instances, share }) => sum + share * Math.max(0, instances - committedCount),
      0,
    )
  const committedPerMonth = committed * (committedPerHour ?? 0) * hoursPerMonth
  return {
    offer,
    committed,
    minOnDemand: Math.max(0, min - committed),
    maxOnDemand: max - committed,
    committedPerMonth,
    onDemandPerMonth: computeOnDemandPerMonth(committed),
    perMonth: committedPerMonth + computeOnDemandPerMonth(committed),
    allOnDemandPerMonth: computeOnDemandPerMonth(0),
    allCommittedPerMonth:
      committedPerHour === undefined ? undefined : max * committedPerHour * hoursPerMonth,
  }
}
