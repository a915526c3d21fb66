/**
 * One replica under a steady rate: the share of its requests that take longer than a limit, from
 * its load curve.
 */

import type { CurveKnot } from '../../profiler/capacity/capacity-bounds.ts'
import { interpolateLatency } from '../../profiler/capacity/rederive/load-curve.ts'

/** One replica of a configuration to plan with. */
export interface FleetUnit {
  readonly label: string
  /** Highest rate of one replica within the SLO, requests per second. */
  readonly capacityRps: number
  /** Highest rate that it answers under overload, requests per second; absent: its capacity. */
  readonly saturationRps?: number
  /** SLO-percentile load curve of one replica; absent: the SLO breaks beyond the capacity. */
  readonly curve?: readonly CurveKnot[]
  /** Percentile of the SLO, such as 0.99. */
  readonly percentile: number
  readonly limitMs: number
  /** Time from the start on an existing node until the replica is ready, seconds. */
  readonly startupSeconds: number
  /**
   * Time from the request of a node until pods start on it, with images pulled, seconds; 0: nodes
   * exist.
   */
  readonly nodeSeconds: number
  /** Replicas that fit on a node; a node costs its full price. */
  readonly replicasPerNode: number
}

/** Gets the highest rate that a replica answers, requests per second. */
export const getMaxRps = ({
  saturationRps = 0,
  capacityRps,
}: Pick<FleetUnit, 'saturationRps' | 'capacityRps'>): number => Math.max(saturationRps, capacityRps)

/**
 * Share of requests over the SLO's limit at a steady rate of one replica. The load curve gives one
 * percentile. The tail is assumed to be exponential above the unloaded latency, as queues under
 * load approach.
 * @param waitMs that requests already in the queue take
 */
export function computeOverLimitShare(unit: FleetUnit, rateRps: number, waitMs = 0): number {
  if (rateRps <= 0) return 0
  const { capacityRps, curve, percentile, limitMs } = unit
  const allowedShare = 1 - percentile
  // The curve meets the limit at the capacity. Without the tolerance a fleet sized exactly would fail
  // by rounding.
  const isWithinCapacity = rateRps <= capacityRps * (1 + 1e-9)
  if (curve === undefined || curve.length === 0)
    return isWithinCapacity && waitMs === 0 ? allowedShare : 1
  const unloadedMs = Math.min(curve[0]!.latencyMs, limitMs)
  const latencyMs = Math.max(computeLatencyMs(unit, curve, rateRps), unloadedMs)
  const remainingMs = limitMs - waitMs - unloadedMs
  if (remainingMs <= 0) return waitMs === 0 && isWithinCapacity ? allowedShare : 1
  const share =
    latencyMs > unloadedMs ? allowedShare ** (remainingMs / (latencyMs - unloadedMs)) : 0
  if (waitMs > 0) return share
  // The confirmed capacity counts, not the point where the curve crosses the limit: above it the
  // share is at least slightly more than allowed.
  return isWithinCapacity ? Math.min(share, allowedShare) : Math.max(share, allowedShare * 1.001)
}

/**
 * SLO percentile at a steady rate, ms. Above the measured rates the latency beyond the unloaded one
 * grows as in a queue: 1 / (saturation - rate).
 */
export function computeLatencyMs(
  unit: Pick<FleetUnit, 'saturationRps' | 'capacityRps'>,
  curve: readonly CurveKnot[],
  rateRps: number,
): number {
  const last = curve.at(-1)!
  if (rateRps <= last.rateRps) return interpolateLatency(curve, rateRps)
  const freeRps = getMaxRps(unit) - rateRps
  const unloadedMs = curve[0]!.latencyMs
  return freeRps > 0
    ? unloadedMs + ((last.latencyMs - unloadedMs) * (getMaxRps(unit) - last.rateRps)) / freeRps
    : Number.POSITIVE_INFINITY
}
