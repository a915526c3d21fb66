/**
 * The confirmation race: chooses which candidate is measured a second time next, and at which rate.
 * It ends when the cheapest candidate is confirmed.
 */
import {
  computeCapacityToBeatRps,
  computeCost,
  countReplicas,
  getDemand,
  type Objective,
  withCapacity,
} from '../../search/objective.ts'
import { listCandidates } from './candidates.ts'
import { confirmationMargin, isConfirmed } from './status.ts'
import type { Candidate, Recommendation } from './types.ts'

/**
 * Share of a round's rate: a lower rate that is proven is preferred to the round's rate without
 * proof, down to this share.
 */
const minProvenShare = 0.8
/** After a violation the next rate to try is this share of the violated one. */
const retryShare = 0.95

/**
 * Chooses the rate of a second measurement, requests per second: the safe capacity. With a demand,
 * at least what each replica must serve when replicas are counted by the estimate.
 */
export function chooseConfirmationRate(
  {
    capacityRps,
    estimateRps = capacityRps,
    status,
    missed,
  }: Pick<Candidate, 'capacityRps' | 'estimateRps' | 'status' | 'missed'>,
  objective: Objective,
): number {
  if (status === 'refuted' && missed) return retryShare * missed.rateRps
  return Math.max(capacityRps, computeDemandPerReplica(estimateRps, objective))
}

/**
 * Requests per second that each replica must serve if replicas have this capacity; 0 without a
 * demand.
 */
function computeDemandPerReplica(capacityRps: number, objective: Objective): number {
  const demand = getDemand(objective)
  return demand === undefined
    ? 0
    : demand.demandRps / (countReplicas(demand, capacityRps) * (1 - demand.headroom))
}

/**
 * Cost at the estimate, before its discount: comparable with the estimates of trials that still
 * run.
 */
export const computeEstimatedCost = (candidate: Candidate, objective: Objective): number =>
  candidate.estimateRps === undefined
    ? candidate.cost
    : computeCostAt(candidate, candidate.estimateRps, objective)

/** Cost at another rate. The server's own metrics are assumed to stay as they were read. */
const computeCostAt = (candidate: Candidate, capacityRps: number, objective: Objective): number =>
  computeCost(objective, {
    ...withCapacity(candidate, capacityRps),
    metrics: candidate.metrics ?? candidate.missed?.metrics,
  })

/**
 * Cost at the rate at which a candidate would be confirmed, for comparison with a confirmed one;
 * Infinity where no confirmation is open.
 */
export function computeConfirmationCost(candidate: Candidate, objective: Objective): number {
  const { feasible, status } = candidate
  if (!feasible || isConfirmed(status) || status === 'refuted') return Number.POSITIVE_INFINITY
  return computeCostAt(candidate, chooseConfirmationRate(candidate, objective), objective)
}

/** A second measurement to make. */
interface ConfirmationRound {
  readonly candidate: Candidate
  readonly rateRps: number
  /** Below this rate another candidate is cheaper. Absent: there is no other. */
  readonly minRps?: number
  /**
   * If the SLO is met at `rateRps` without proof, a proven rate down to this one is preferred. It
   * does not raise the number of replicas of a demand.
   */
  readonly minProvenRps: number
}

/**
 * Chooses the next round. Every candidate that may be the best has a rate: confirmed ones the rate
 * they met, others the rate of their next measurement. The cheapest of them at that rate is
 * measured. Candidates without rounds left are not measured, but a cheaper unrefuted one still
 * ranks first.
 * @param hasNoRoundLeft whether a candidate was measured as often as is allowed
 * @param tolerance relative gain over a confirmed candidate, 0-1; a smaller one is not worth a
 * round
 * @returns undefined once the cheapest is confirmed, or nothing is worth a round
 */
export function chooseConfirmationRound(
  recommendation: Recommendation,
  hasNoRoundLeft: (candidate: Candidate) => boolean,
  tolerance = 0,
): ConfirmationRound | undefined {
  const { objective } = recommendation
  const entries = listCandidates(recommendation)
    .flatMap((candidate) => {
      const confirmed = isConfirmed(candidate.status)
      const refuted = candidate.status === 'refuted'
      const isExhausted = !confirmed && hasNoRoundLeft(candidate)
      if (refuted ? isExhausted : !candidate.feasible) return []
      const rateRps = confirmed
        ? candidate.capacityRps
        : chooseConfirmationRate(candidate, objective)
      const entryCost = computeCostAt(candidate, rateRps, objective)
      return [{ candidate, rateRps, confirmed, isExhausted, cost: entryCost }]
    })
    .sort((a, b) => a.cost - b.cost)
  const minCost = entries[0]?.cost ?? 0
  const [first, second] = entries.filter(({ isExhausted }) => !isExhausted)
  if (
    first === undefined ||
    first.confirmed ||
    first.cost > minCost + confirmationMargin * Math.abs(minCost)
  )
    return undefined
  const best = entries.find(({ confirmed }) => confirmed)
  if (best && best.cost - first.cost <= tolerance * Math.abs(best.cost)) return undefined
  const { candidate, rateRps } = first
  const minRps = computeCapacityToBeatRps(objective, candidate, second?.cost)
  const minProvenRps = Math.min(
    rateRps,
    Math.max(minProvenShare * rateRps, computeDemandPerReplica(rateRps, objective)),
  )
  return { candidate, rateRps, minProvenRps, ...(minRps !== undefined && { minRps }) }
}
