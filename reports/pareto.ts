/** The Pareto front of latency against throughput per dollar. */
import { capacityUnder, rateWithin } from '../trials/capacity.ts'
import { candidateAt, type Judged, type View } from './candidates.ts'
import type { Candidate, Recommendation } from './types.ts'

/** Limits that the front is drawn at, between the least idle latency and the SLO. */
const steps = 24

/**
 * Operating points by rising latency: under each of a grid of limits (evenly apart in ln) up to the SLO, the configuration with
 * most throughput per dollar, if that is more than under any tighter limit. The last one stands at the SLO itself.
 */
export function paretoFront(all: readonly Judged[], view: View): Candidate[] {
  // What was cut short is known to be worse at the SLO, and not known at all below it.
  const served = all.filter((j) => j.candidate.feasible && j.candidate.bound !== 'upper')
  const least = Math.min(...served.map((j) => j.curve?.[0]?.latencyMs ?? Number.POSITIVE_INFINITY))
  if (!(least < view.slo.limitMs)) return served.slice(0, 1).map((j) => j.candidate)
  const front: Candidate[] = []
  let most = 0
  for (let i = 1; i <= steps; i++) {
    const limitMs = i === steps ? view.slo.limitMs : least * (view.slo.limitMs / least) ** (i / steps)
    let winner: Judged | undefined
    let winning = most * (1 + 1e-9)
    for (const judged of served) {
      const { candidate, curve } = judged
      const rps = i === steps ? candidate.capacityRps : rateWithin(curve ?? [], limitMs)
      if (rps / candidate.pricePerHour <= winning) continue
      winner = judged
      winning = rps / candidate.pricePerHour
    }
    if (!winner) continue
    most = winning
    front.push(i === steps ? winner.candidate : operatingPoint(winner, { ...view, slo: { ...view.slo, limitMs } }))
  }
  return front
}

function operatingPoint({ trial, measurement, curve, candidate }: Judged, view: View): Candidate {
  return measurement ? candidateAt(trial, measurement, capacityUnder(measurement, view.slo, curve), view) : candidate
}

/**
 * The front with the quality of model variants as a third axis: for each quality, best first, the front of those that are at least as good.
 * Undefined where there are not two qualities to choose from.
 */
export function qualityFronts(all: readonly Judged[], view: View): Recommendation['qualityFronts'] {
  const qualities = [...new Set(all.flatMap(({ candidate }) => (candidate.feasible ? (candidate.quality ?? []) : [])))].sort(
    (a, b) => b - a,
  )
  if (qualities.length < 2) return undefined
  return qualities.map((leastQuality) => ({
    leastQuality,
    front: paretoFront(
      all.filter(({ candidate }) => candidate.quality !== undefined && candidate.quality >= leastQuality),
      view,
    ),
  }))
}
