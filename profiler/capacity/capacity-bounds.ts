/** Capacities by how they are known: what the searches make, and what stored measurements say. */
import type { Capacity, Measurement } from '../model/measurement.ts'

/** What a search ended with: a measurement but for what was seen beside it. */
export type Searched = Capacity &
  Pick<Measurement, 'outcome' | 'saturationRps' | 'detail' | 'change'> & {
    readonly caveats?: readonly string[]
  }

export interface CapacityUnder extends Capacity {
  /** SLO percentile at the capacity, ms. Of the idle predictor when the capacity is 0. */
  readonly sloMs: number
  /**
   * False: the profiler searched for exactly this SLO. True: read off the load curve, with a
   * widened interval.
   */
  readonly derived: boolean
}

/**
 * One knot of a load curve: offered rate against a latency percentile with its 95 % interval.
 * Infinity: too many requests failed.
 */
export interface CurveKnot {
  readonly rateRps: number
  readonly latencyMs: number
  readonly lowMs: number
  readonly highMs: number
  /** Requests behind it. */
  readonly requests: number
  /** The profiler's estimate of where the SLO is reached: no window was measured there. */
  readonly modelled?: true
}

/** Of a rate that a window held without proving the SLO at it, this part is relied on. */
export const unprovenPart = 0.95

export const noCapacity: Capacity = { capacityRps: 0, capacityCi90Rps: [0, 0], known: 'held' }

/** Nothing is known of the capacity: it teaches nothing. */
export const unknownCapacity: Capacity = {
  capacityRps: 0,
  capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
  known: 'nothing',
}

/** At most this: the search was cut short. */
export const atMost = (boundRps: number): Capacity => ({
  capacityRps: boundRps,
  capacityCi90Rps: [0, boundRps],
  known: 'bound above',
})

/**
 * What bounds the capacity of a server that stalls and is below a rate: that rate, or the lowest
 * that a window missed. How rare the stalls are decides how far below it the capacity lies, and a
 * few seconds do not tell. 0 of a server that does not stall.
 */
export const missedByStalls = (
  { stalls }: { readonly stalls: boolean },
  missedRps: number,
  rateRps: number,
): number => (stalls ? Math.min(missedRps, rateRps) : 0)

/**
 * Between a rate that an open window held, 0 for none, and one that bounds it, Infinity for none.
 */
export function between(heldRps: number, boundRps: number, capacityRps = heldRps): Capacity {
  const known =
    heldRps > 0
      ? Number.isFinite(boundRps)
        ? 'held'
        : 'bound below'
      : Number.isFinite(boundRps)
        ? 'bound above'
        : 'nothing'
  return { capacityRps, capacityCi90Rps: [heldRps, boundRps], known }
}

/** What is known where the lowest rate that was tried violated the SLO. */
export const violatedAt = (rateRps: number): string =>
  `the SLO was violated at ${rateRps.toFixed(1)} requests per second; lower rates were not tried`

/** Half the width of an interval, as a share of the capacity. */
export const halfWidthOf = ({
  capacityRps,
  capacityCi90Rps: [low, high],
}: Omit<Capacity, 'known'>): number => (high - low) / 2 / capacityRps

/**
 * The capacity of a measurement. Stores older than `known` tell it by their outcome and interval.
 */
export function capacityOf(measurement: Measurement): Capacity {
  const { capacityRps, capacityCi90Rps, outcome } = measurement
  const known =
    measurement.known ??
    (outcome === 'beaten'
      ? 'bound above'
      : outcome === 'generator-limit' ||
          outcome === 'server-died' ||
          !Number.isFinite(capacityCi90Rps[1])
        ? capacityRps > 0
          ? 'bound below'
          : 'nothing'
        : 'held')
  return { capacityRps, capacityCi90Rps, known }
}

/**
 * No figure came of it, not even that of a server that serves nothing: the machine, the generator
 * or the server's end spoilt it.
 */
export const saysNothing = (measurement: Measurement): boolean =>
  measurement.outcome === 'disturbed' || capacityOf(measurement).known === 'nothing'
