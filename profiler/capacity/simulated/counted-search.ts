/**
 * Searches for the highest rate that meets an SLO, for a server in virtual time that counts
 * violations itself: it ends a window as soon as the SLO is violated.
 */

import type { Load } from '../../model/load.ts'
import type { Capacity } from '../../model/measurement.ts'
import { countMaxViolations, countsMeetSlo, type Slo } from '../../model/slo.ts'
import type { VirtualServer } from '../../model/virtual-server.ts'
import { boundSimulated } from '../interval.ts'

export interface CountedSearch {
  readonly server: Required<Pick<VirtualServer, 'predictCapacity' | 'countViolations'>>
  readonly slo: Slo
  readonly seed: number
  readonly arrivals: Extract<Load, { kind: 'open' }>['arrivals']
  /** Saturation of a closed loop. */
  readonly saturationRps: number
}

/**
 * Stages from short windows to long ones: requests of each, first step away from the last rate, and
 * final ratio of the bracket. All windows of a stage play the same arrivals, stretched. The last
 * stage decides; its bracket is just wider than its second step, 1.01², which thus needs no further
 * window. Assumed.
 */
const stages = [
  { requests: 1000, step: 1.06, precision: 1.06 },
  { requests: 3000, step: 1.03, precision: 1.03 },
  { requests: 10_000, step: 1.01, precision: 1.0202 },
] as const
/** Lowest and highest rate, as shares of the saturation. Assumed. */
export const minRateShare = 0.005
export const maxRateShare = 1.05
/**
 * First rate where the server's own model predicts no capacity, as a share of the saturation: near
 * the middle of the bounds in log rate for most SLOs. Assumed.
 */
const fallbackStartShare = 0.4

/**
 * Standard deviation of ln capacity by the noise of the last windows, measured with Poisson
 * arrivals against windows of 60,000 requests.
 */
const windowNoiseSd = 0.02

/**
 * Searches for the highest rate whose window meets the SLO. Short windows bracket it, starting at
 * the rate that the server's own model predicts; longer ones refine it.
 */
export function searchCountedCapacity({
  server,
  slo,
  seed,
  arrivals,
  saturationRps,
}: CountedSearch): Capacity {
  const bounds = { lowest: minRateShare * saturationRps, highest: maxRateShare * saturationRps }
  let rateRps = server.predictCapacity(slo).capacityRps || fallbackStartShare * saturationRps
  let { lowest: low, highest: high } = bounds
  for (const { requests, ...stage } of stages) {
    const maxViolations = countMaxViolations(slo, requests)
    const isWindowMet = (rate: number): boolean => {
      const load = {
        kind: 'open',
        rateRps: rate,
        arrivals,
        durationS: requests / rate,
        seed,
      } as const
      const { violations, failed } = server.countViolations(load, slo.limitMs, maxViolations)
      return countsMeetSlo({ requests, violations, errors: failed }, slo)
    }
    ;[low, high] = bracketRate(isWindowMet, rateRps, stage, bounds)
    rateRps = Math.sqrt(low * high)
  }
  // The noise grows with the variation of the gaps between arrivals.
  const burstiness = arrivals.kind === 'gamma' ? Math.max(1, arrivals.cv) : 1
  return boundSimulated(low, low, high, windowNoiseSd * burstiness)
}

/**
 * Brackets the highest rate that meets the SLO, to a ratio of `precision`. Steps from the start are
 * doubled until the rate is bracketed, then the bracket is halved, both in log rate. The bounds are
 * not evaluated: the lower one counts as met, the upper one as violated.
 */
function bracketRate(
  isWindowMet: (rateRps: number) => boolean,
  startRps: number,
  { step, precision }: { readonly step: number; readonly precision: number },
  bounds: { readonly lowest: number; readonly highest: number },
): [low: number, high: number] {
  let low = bounds.lowest
  let high = bounds.highest
  let rateRps = Math.min(Math.max(startRps, low), high / step)
  let stride = step
  while (high / low > precision) {
    const isMet = isWindowMet(rateRps)
    if (isMet) low = rateRps
    else high = rateRps
    // Once the rate is bracketed, a doubled step is longer than the bracket.
    const next = isMet ? low * stride : high / stride
    rateRps = next > low && next < high ? next : Math.sqrt(low * high)
    // Squaring doubles the step in log rate.
    stride *= stride
  }
  return [low, high]
}
