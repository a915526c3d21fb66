/** The Pareto front of latency against throughput per dollar. */
import { capacityUnder } from '../trials/capacity.ts'
import { candidateAt, type Judged, type View } from './candidates.ts'
import type { Candidate } from './types.ts'

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
  for (let i = 1; i <= steps; i++) {
    const limitMs = i === steps ? view.slo.limitMs : least * (view.slo.limitMs / least) ** (i / steps)
    const slo = { ...view.slo, limitMs }
    let best: Candidate | undefined
    for (const { trial, measurement, curve, candidate } of served) {
      if (!measurement) continue
      const here = i === steps ? candidate : candidateAt(trial, measurement, capacityUnder(measurement, slo, curve), { ...view, slo })
      if (here.feasible && perDollar(here) > (best ? perDollar(best) : 0)) best = here
    }
    const last = front.at(-1)
    if (best && (!last || perDollar(best) > perDollar(last) * (1 + 1e-9))) front.push(best)
  }
  return front
}

const perDollar = (c: Candidate) => c.capacityRps / c.pricePerHour
