/** The Pareto front of latency against throughput per dollar. */
import { deriveCapacity } from '../../profiler/capacity/rederive/capacity-under-slo.ts'
import { findRateWithin, interpolateLatency } from '../../profiler/capacity/rederive/load-curve.ts'
import {
  buildOperatingPoint,
  type RankedCandidate,
  type RankingCriteria,
} from './ranked-candidate.ts'
import type { Candidate, Recommendation } from './types.ts'

/** Latency limits of the front, between the lowest unloaded latency and the SLO. */
const limitCount = 24

/**
 * Operating points at safe capacities, by rising latency and throughput per dollar. Each has the
 * most throughput per dollar under one of a grid of limits, evenly spaced in ln. The last one is
 * the best under the SLO itself.
 */
export function computeParetoFront(
  all: readonly RankedCandidate[],
  criteria: RankingCriteria,
): Candidate[] {
  // A trial that was stopped early is worse at the SLO, and nothing is known below it.
  const servingCandidates = all.filter((j) => j.candidate.feasible && j.candidate.bound !== 'upper')
  const minLatencyMs = servingCandidates.reduce(
    (low, j) => Math.min(low, j.curve?.[0]?.latencyMs ?? low),
    Number.POSITIVE_INFINITY,
  )
  if (!(minLatencyMs < criteria.slo.limitMs))
    return servingCandidates.slice(0, 1).map((j) => j.candidate)
  const limits = Array.from({ length: limitCount }, (_, i) =>
    i === limitCount - 1
      ? criteria.slo.limitMs
      : minLatencyMs * (criteria.slo.limitMs / minLatencyMs) ** ((i + 1) / limitCount),
  )
  const winners = findWinners(servingCandidates, limits)
  const front: Candidate[] = []
  let maxPerDollar = 0
  for (const [i, { ranked, perDollar }] of winners.entries()) {
    if (perDollar <= maxPerDollar * (1 + 1e-9)) continue
    maxPerDollar = perDollar
    const isSlo = i === limitCount - 1
    front.push(
      isSlo
        ? ranked.candidate
        : buildPointUnder(ranked, { ...criteria, slo: { ...criteria.slo, limitMs: limits[i]! } }),
    )
  }
  // The discount also lowers the latency, more so on steep load curves: drop points that a later
  // one beats.
  return front.filter(({ sloMsAtCapacity }, i) =>
    front.slice(i + 1).every((later) => sloMsAtCapacity < later.sloMsAtCapacity),
  )
}

/**
 * Finds the configuration with the most throughput per dollar under each limit; at the last one,
 * the SLO itself, by its capacity. The limits are processed from loose to tight. No load curve
 * serves more under a tighter limit, so the last value of each configuration bounds its next one,
 * and few are computed again.
 */
function findWinners(
  servingCandidates: readonly RankedCandidate[],
  limits: readonly number[],
): { ranked: RankedCandidate; perDollar: number }[] {
  const bounds = new Float64Array(servingCandidates.length).fill(Number.POSITIVE_INFINITY)
  const winners: { ranked: RankedCandidate; perDollar: number }[] = []
  let leader = 0
  for (let i = limits.length - 1; i >= 0; i--) {
    const computePerDollar = (n: number) => {
      const { candidate, curve } = servingCandidates[n]!
      const isSlo = i === limits.length - 1
      const rps = isSlo
        ? candidate.capacityRps
        : computeDiscount(candidate) * findRateWithin(curve ?? [], limits[i]!)
      // The capacity does not come from the curve alone: it is no bound for tighter limits.
      if (!isSlo) bounds[n] = rps / candidate.pricePerHour
      return rps / candidate.pricePerHour
    }
    let perDollar = computePerDollar(leader)
    for (let n = 0; n < servingCandidates.length; n++) {
      if (n === leader || bounds[n]! < perDollar) continue
      const requestsPerDollar = computePerDollar(n)
      if (requestsPerDollar < perDollar || (requestsPerDollar === perDollar && n > leader)) continue
      leader = n
      perDollar = requestsPerDollar
    }
    winners[i] = { ranked: servingCandidates[leader]!, perDollar }
  }
  return winners
}

function buildPointUnder(ranked: RankedCandidate, criteria: RankingCriteria): Candidate {
  const { measurement, curve, candidate } = ranked
  if (!measurement || !curve) return candidate
  const capacity = deriveCapacity(measurement, criteria.slo, curve)
  const safeRps = computeDiscount(candidate) * capacity.capacityRps
  const sloMs = Math.min(capacity.sloMs, interpolateLatency(curve, safeRps))
  return buildOperatingPoint(ranked, { ...capacity, sloMs }, safeRps, criteria)
}

/** Share of a load curve's rate that counts as safe: the same as at the SLO. */
const computeDiscount = ({ capacityRps, estimateRps = capacityRps }: Candidate): number =>
  estimateRps > 0 ? capacityRps / estimateRps : 1

/**
 * Fronts with the quality of model variants as a third axis: for each quality, best first, the
 * front of the variants that are at least as good. Undefined for fewer than two qualities.
 */
export function computeQualityFronts(
  all: readonly RankedCandidate[],
  criteria: RankingCriteria,
): Recommendation['qualityFronts'] {
  const qualities = [
    ...new Set(
      all.flatMap(({ candidate }) => (candidate.feasible ? (candidate.quality ?? []) : [])),
    ),
  ].sort((a, b) => b - a)
  if (qualities.length < 2) return undefined
  return qualities.map((minQuality) => ({
    minQuality,
    front: computeParetoFront(
      all.filter(
        ({ candidate }) => candidate.quality !== undefined && candidate.quality >= minQuality,
      ),
      criteria,
    ),
  }))
}
