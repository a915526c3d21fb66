/** How much slower a server is than it was measured, from one look at its rate and its latency. */
import type { CurveKnot } from '../../profiler/capacity/capacity-bounds.ts'
import { latencyOf } from '../plan/replica.ts'

/** A configuration as it was measured. */
export interface MeasuredServer {
  /** Highest rate of one replica within the SLO, requests per second. */
  readonly capacityRps: number
  readonly saturationRps?: number
  /** Of the SLO's percentile, one replica. */
  readonly curve: readonly CurveKnot[]
}

const most = 8

/**
 * The factor by which all times of the server have grown: the s with latency = s · L(s · rate), L
 * being the measured curve. A server whose every step takes s times as long is the measured one
 * seen through a clock that runs s times slower, so its capacity is the measured one over s. NaN
 * above the measured capacity, where waiting tells of the traffic and not of the server.
 * @param rateRps of one replica
 */
export function slownessOf(server: MeasuredServer, rateRps: number, latencyMs: number): number {
  if (!(rateRps > 0 && latencyMs > 0) || rateRps > server.capacityRps) return Number.NaN
  let [low, high] = [1 / most, most]
  for (let i = 0; i < 60; i++) {
    const s = Math.sqrt(low * high)
    if (s * latencyOf(server, server.curve, s * rateRps) < latencyMs) low = s
    else high = s
  }
  return Math.sqrt(low * high)
}
