/** Slowness of a server relative to its measurement, by its rate and latency in one window. */
import type { CurveKnot } from '../../profiler/capacity/capacity-bounds.ts'
import { computeLatencyMs } from '../plan/replica.ts'

/** A configuration as it was measured. */
export interface MeasuredServer {
  /** Highest rate of one replica within the SLO, requests per second. */
  readonly capacityRps: number
  readonly saturationRps?: number
  /** Load curve of the SLO percentile, of one replica. */
  readonly curve: readonly CurveKnot[]
}

/** Bounds of the bisection: from 1 / maxSlowness to maxSlowness. */
const maxSlowness = 8

/**
 * Computes the factor s by which all times of the server have grown: latency = s · L(s · rate),
 * where L is the measured curve. If every step takes s times as long, the server behaves like the
 * measured one on a clock that runs s times slower, so its capacity is the measured one over s. NaN
 * above the measured capacity, where waiting depends on the traffic and not on the server.
 * @param rateRps of one replica
 */
export function computeSlowness(
  server: MeasuredServer,
  rateRps: number,
  latencyMs: number,
): number {
  if (!(rateRps > 0 && latencyMs > 0) || rateRps > server.capacityRps) return Number.NaN
  let [low, high] = [1 / maxSlowness, maxSlowness]
  for (let i = 0; i < 60; i++) {
    const s = Math.sqrt(low * high)
    if (s * computeLatencyMs(server, server.curve, s * rateRps) < latencyMs) low = s
    else high = s
  }
  return Math.sqrt(low * high)
}
