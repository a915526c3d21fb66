/**
 * Spot instances that are taken away: each by a Poisson process of its own, out of service until
 * its replacement serves. Of N independent ones the number that is out is then binomial
 * (alternating renewal: up for 1/rate on average, out for a fixed time), whatever the distribution
 * of the time out.
 */
import { replicasForZones } from './plan-costs.ts'

export interface SpotRisk {
  /** Of each instance. */
  readonly interruptionsPerHour: number
  /**
   * From the moment that an instance is gone until its replacement serves: node and start, less the
   * notice.
   */
  readonly outSeconds: number
  /** Of all minutes, that interruptions may lose, 0-1. */
  readonly lostShare: number
  /** Of the instances needed at any time, that may be spot, 0-1. */
  readonly mostShare: number
  /**
   * Spread evenly; the spot of one of them may be taken at once without losing the SLO. 1: no such
   * spread.
   */
  readonly zones: number
}

/** Share of the time that one instance is out of service. */
const outShare = ({ interruptionsPerHour, outSeconds }: SpotRisk): number => {
  const outPerUp = (interruptionsPerHour * outSeconds) / 3600
  return outPerUp / (1 + outPerUp)
}

/**
 * Share of minutes, at most, in which more than `spare` of `bought` instances are out for a part of
 * it: P(more than that are out), and a minute more for each time that it comes to that, for an
 * interval of length L touches L + 1 minutes on average.
 */
export function lostMinutesShare(bought: number, spare: number, risk: SpotRisk): number {
  const out = outShare(risk)
  if (out === 0 || spare >= bought) return 0
  // From the first term on, in logarithms: (1 - out)^bought is 0 in a double for large fleets.
  let logTerm = bought * Math.log1p(-out)
  let atMost = 0
  for (let n = 0; n < spare; n++) {
    atMost += Math.exp(logTerm)
    logTerm += Math.log(((bought - n) / (n + 1)) * (out / (1 - out)))
  }
  const atSpare = Math.exp(logTerm)
  const begins = ((bought - spare) * risk.interruptionsPerHour * atSpare) / 60
  return Math.min(1, Math.max(0, 1 - atMost - atSpare) + begins)
}

/**
 * How many spot instances to buy where 0, 1, ... of them are needed: with so many to spare that
 * interruptions lose no more than is allowed, and that those of one zone may all go. Infinity from
 * where that would be more than `worth` times what is needed.
 */
export function spotToBuy(most: number, risk: SpotRisk, worth: number): number[] {
  const bought = [0]
  let spare = 0
  for (let needed = 1; needed <= most; needed++) {
    const dear = () => needed + spare > worth * needed
    while (!dear() && lostMinutesShare(needed + spare, spare, risk) > risk.lostShare) spare++
    bought.push(
      dear()
        ? Number.POSITIVE_INFINITY
        : Math.max(needed + spare, replicasForZones(needed, risk.zones)),
    )
  }
  return bought
}
