/** The Pareto front of latency against throughput per dollar. */
import { deriveCapacity } from '../../profiler/capacity/rederive/capacity-under-slo.ts'
import { findRateWithin, interpolateLatency } from '../../profiler/capacity/rederive/load-curve.ts'
import { type Judged, operatingPoint, type View } from './judged.ts'
import type { Candidate, Recommendation } from './types.ts'

/** Limits that the front is drawn at, between the least idle latency and the SLO. */
const steps = 24

/**
 * Operating points at safe capacities, by rising latency and throughput per dollar. Each wins under
 * one of a grid of limits, evenly apart in ln. The last one is the best under the SLO itself.
 */
export function paretoFront(all: readonly Judged[], view: View): Candidate[] {
  // What was cut short is known to be worse at the SLO, and not known at all below it.
  const served = all.filter((j) => j.candidate.feasible && j.candidate.bound !== 'upper')
  const least = served.reduce(
    (low, j) => Math.min(low, j.curve?.[0]?.latencyMs ?? low),
    Number.POSITIVE_INFINITY,
  )
  if (!(least < view.slo.limitMs)) return served.slice(0, 1).map((j) => j.candidate)
  const limits = Array.from({ length: steps }, (_, i) =>
    i === steps - 1 ? view.slo.limitMs : least * (view.slo.limitMs / least) ** ((i + 1) / steps),
  )
  const winners = winnersOf(served, limits)
  const front: Candidate[] = []
  let most = 0
  for (const [i, { judged, perDollar }] of winners.entries()) {
    if (perDollar <= most * (1 + 1e-9)) continue
    most = perDollar
    const last = i === steps - 1
    front.push(
      last
        ? judged.candidate
        : pointUnder(judged, { ...view, slo: { ...view.slo, limitMs: limits[i]! } }),
    )
  }
  // The discount lowers the latency too, of steep load curves more than of others.
  return front.filter(({ sloMsAtCapacity }, i) =>
    front.slice(i + 1).every((later) => sloMsAtCapacity < later.sloMsAtCapacity),
  )
}

/**
 * Who has most throughput per dollar under each limit; at the last one, the SLO itself, by the
 * capacity. A curve serves no more under a tighter limit, so going from loose to tight, what each
 * served under the last limit it was asked about bounds it from above, and few have to be asked
 * again.
 */
function winnersOf(
  served: readonly Judged[],
  limits: readonly number[],
): { judged: Judged; perDollar: number }[] {
  const bounds = new Float64Array(served.length).fill(Number.POSITIVE_INFINITY)
  const winners: { judged: Judged; perDollar: number }[] = []
  let leader = 0
  for (let i = limits.length - 1; i >= 0; i--) {
    const ask = (n: number) => {
      const { candidate, curve } = served[n]!
      const atSlo = i === limits.length - 1
      const rps = atSlo
        ? candidate.capacityRps
        : discountOf(candidate) * findRateWithin(curve ?? [], limits[i]!)
      // A capacity comes from more than the curve: it bounds nothing.
      if (!atSlo) bounds[n] = rps / candidate.pricePerHour
      return rps / candidate.pricePerHour
    }
    let perDollar = ask(leader)
    for (let n = 0; n < served.length; n++) {
      if (n === leader || bounds[n]! < perDollar) continue
      const here = ask(n)
      if (here < perDollar || (here === perDollar && n > leader)) continue
      leader = n
      perDollar = here
    }
    winners[i] = { judged: served[leader]!, perDollar }
  }
  return winners
}

function pointUnder(judged: Judged, view: View): Candidate {
  const { measurement, curve, candidate } = judged
  if (!measurement || !curve) return candidate
  const capacity = deriveCapacity(measurement, view.slo, curve)
  const safeRps = discountOf(candidate) * capacity.capacityRps
  const sloMs = Math.min(capacity.sloMs, interpolateLatency(curve, safeRps))
  return operatingPoint(judged, { ...capacity, sloMs }, safeRps, view)
}

/** Part of what a load curve shows that is relied on: the same as at the SLO. */
const discountOf = ({ capacityRps, estimateRps = capacityRps }: Candidate): number =>
  estimateRps > 0 ? capacityRps / estimateRps : 1

/**
 * The front with the quality of model variants as a third axis: for each quality, best first, the
 * front of those that are at least as good. Undefined where there are not two qualities to choose
 * from.
 */
export function qualityFronts(all: readonly Judged[], view: View): Recommendation['qualityFronts'] {
  const qualities = [
    ...new Set(
      all.flatMap(({ candidate }) => (candidate.feasible ? (candidate.quality ?? []) : [])),
    ),
  ].sort((a, b) => b - a)
  if (qualities.length < 2) return undefined
  return qualities.map((minQuality) => ({
    minQuality,
    front: paretoFront(
      all.filter(
        ({ candidate }) => candidate.quality !== undefined && candidate.quality >= minQuality,
      ),
      view,
    ),
  }))
}
