/**
 * One replica under a steady rate: the share of its requests that take longer than a limit, from
 * its load curve.
 */

import type { CurveKnot } from '../../profiler/capacity/capacity-bounds.ts'
import { interpolateLatency } from '../../profiler/capacity/rederive/load-curve.ts'

/** A configuration to plan with. */
export interface FleetUnit {
  readonly label: string
  /** Highest rate of one replica within the SLO, requests per second. */
  readonly capacityRps: number
  /**
   * What it answers when more is asked than it can do, requests per second; absent: its capacity.
   */
  readonly saturationRps?: number
  /** SLO-percentile load curve of one replica; absent: the SLO breaks beyond the capacity. */
  readonly curve?: readonly CurveKnot[]
  /** 0.99 where the SLO is about p99. */
  readonly percentile: number
  readonly limitMs: number
  /** From the start on a node that is there to ready, seconds. */
  readonly startupSeconds: number
  /**
   * From the order of a node until it takes pods, its images pulled, seconds; 0: nodes are always
   * there.
   */
  readonly nodeSeconds: number
  /** Replicas that a node holds; a node is paid whole. */
  readonly perNode: number
}

/** What a replica answers at most, requests per second. */
export const mostOf = ({
  saturationRps = 0,
  capacityRps,
}: Pick<FleetUnit, 'saturationRps' | 'capacityRps'>): number => Math.max(saturationRps, capacityRps)

/**
 * Share of requests that take longer than the SLO's limit at a steady rate of one replica, when
 * those before them already wait `waitMs`. The curve tells one percentile; the tail around it is
 * taken as exponential above the idle latency, which is what queues come near to.
 */
export function shareOver(unit: FleetUnit, rateRps: number, waitMs = 0): number {
  if (rateRps <= 0) return 0
  const { capacityRps, curve, percentile, limitMs } = unit
  const miss = 1 - percentile
  // The curve passes through the capacity at the limit; without the allowance rounding would break
  // a fleet that is sized to the request.
  const within = rateRps <= capacityRps * (1 + 1e-9)
  if (curve === undefined || curve.length === 0) return within && waitMs === 0 ? miss : 1
  const unloadedMs = Math.min(curve[0]!.latencyMs, limitMs)
  const latencyMs = Math.max(latencyOf(unit, curve, rateRps), unloadedMs)
  const left = limitMs - waitMs - unloadedMs
  if (left <= 0) return waitMs === 0 && within ? miss : 1
  const share = latencyMs > unloadedMs ? miss ** (left / (latencyMs - unloadedMs)) : 0
  if (waitMs > 0) return share
  // The capacity is what was confirmed, wherever a curve of fewer requests would have it.
  return within ? Math.min(share, miss) : Math.max(share, miss * 1.001)
}

/**
 * SLO percentile at a steady rate, ms. Beyond the measured rates what is over the idle latency
 * grows as a queue's does, without end at saturation.
 */
export function latencyOf(
  unit: Pick<FleetUnit, 'saturationRps' | 'capacityRps'>,
  curve: readonly CurveKnot[],
  rateRps: number,
): number {
  const last = curve.at(-1)!
  if (rateRps <= last.rateRps) return interpolateLatency(curve, rateRps)
  const left = mostOf(unit) - rateRps
  const unloadedMs = curve[0]!.latencyMs
  return left > 0
    ? unloadedMs + ((last.latencyMs - unloadedMs) * (mostOf(unit) - last.rateRps)) / left
    : Number.POSITIVE_INFINITY
}
