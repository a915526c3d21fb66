/** Capacities with their bounds, of searches and of stored measurements. */
import { rate } from '../format.ts'
import type { Capacity, IntervalAdjustment, Measurement } from '../model/measurement.ts'

/** Result of a search: the part of a measurement that the search determines. */
export type SearchResult = Capacity &
  Pick<Measurement, 'outcome' | 'saturationRps' | 'detail' | 'speedRatio' | 'adjustments'> & {
    readonly caveats?: readonly string[]
  }

export interface DerivedCapacity extends Capacity {
  /** Rules that changed the interval, in their order. Absent: none did. */
  readonly adjustments?: readonly IntervalAdjustment[]
  /** SLO percentile at the capacity, ms; that of the unloaded server for a capacity of 0. */
  readonly sloMs: number
  /**
   * False: the profiler searched for exactly this SLO. True: read off the load curve, with a
   * widened interval.
   */
  readonly derived: boolean
}

/**
 * Knot of a load curve: a latency percentile at an offered rate, with its 95 % interval. Infinity
 * where too many requests failed.
 */
export interface CurveKnot {
  readonly rateRps: number
  readonly latencyMs: number
  readonly lowMs: number
  readonly highMs: number
  /** Requests behind the knot. */
  readonly requests: number
  /**
   * Estimate of the profiler for the rate at which the SLO limit is reached; no window was played
   * there.
   */
  readonly modelled?: true
}

export const noCapacity: Capacity = { capacityRps: 0, capacityCi90Rps: [0, 0], bounds: 'both' }

/** No bound is known: 0 to Infinity. */
export const unknownCapacity: Capacity = {
  capacityRps: 0,
  capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
  bounds: 'none',
}

/** Creates a capacity of which only an upper bound is known; it reports that bound. */
export const createUpperBound = (boundRps: number): Capacity => ({
  capacityRps: boundRps,
  capacityCi90Rps: [0, boundRps],
  bounds: 'upper',
})

/**
 * Creates a capacity between a rate that met the SLO (0 for none) and an upper bound (Infinity for
 * none).
 */
export function createBracket(metRps: number, boundRps: number, capacityRps = metRps): Capacity {
  const bounds =
    metRps > 0
      ? Number.isFinite(boundRps)
        ? 'both'
        : 'lower'
      : Number.isFinite(boundRps)
        ? 'upper'
        : 'none'
  return { capacityRps, capacityCi90Rps: [metRps, boundRps], bounds }
}

/** Describes a search whose lowest rate violated the SLO. */
export const describeViolation = (rateRps: number): string =>
  `the SLO was violated at ${rate(rateRps)}; lower rates were not tried`

/** Computes half the width of the interval relative to the capacity. */
export const computeHalfWidth = ({
  capacityRps,
  capacityCi90Rps: [low, high],
}: Omit<Capacity, 'bounds'>): number => (high - low) / 2 / capacityRps

/**
 * Whether no capacity was determined, not even 0, because of the host, the generator or the end of
 * the server.
 */
export const hasNoResult = (measurement: Measurement): boolean =>
  measurement.outcome === 'host-interference' || measurement.bounds === 'none'
