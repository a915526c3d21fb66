/** How long a rate is observed before the SLO is proven, and whether that can suffice. */
import { findMaxLimitMs, type Slo } from '../../model/slo.ts'
import { computeEValues } from '../../statistics/sequential.ts'

/**
 * E-value from which the SLO is proven, after any window: 95 % confidence. By Ville's inequality an
 * e-process ever exceeds 20 with 5 % probability at most. Effective requests are estimated and
 * schedules are chosen (typical-arrivals.ts), so the realised error is simulated: 5 % above the
 * capacity, 1.5 % are proven (docs/research/confirmation.md, `npm run bench:proof-error`).
 */
export const minEToProve = 20
/**
 * Factor on the time at a rate up to which it is extended where that may bring a proof. Without it,
 * 42 % instead of 54 % are confirmed at the requested rate (docs/research/capacity.md).
 */
export const maxTimeFactor = 2
/**
 * Factor on the time over which windows are spread where measurements disagree: a minute for 30 s.
 * Assumed.
 */
const spreadFactor = 2
/**
 * Dispersion while none is measured: this many requests count as one independent request. Assumed.
 */
const assumedDispersion = 3
/**
 * Length of a window at a rate that cannot be proven, in SLO limits: at 5 % beyond its capacity,
 * the queue of a server takes twenty limits to reach the limit.
 */
const limitsToFill = 20

/**
 * Computes the minimum wall-clock time of the windows at one rate where measurements disagree,
 * seconds.
 */
export const computeMinSpanS = (seconds: number): number => spreadFactor * seconds

/**
 * Computes the length of a window in which the queue of a slightly overloaded server exceeds the
 * limit, seconds. It is at most the extended time.
 */
export const computeFillS = (slo: Slo, seconds: number): number =>
  Math.min(maxTimeFactor * seconds, (limitsToFill * findMaxLimitMs(slo)) / 1000)

/** Whether the rate has too few requests for a proof, even in the extended time. */
export const hasTooFewToProve = ({
  rateRps,
  seconds,
  slo,
}: {
  readonly rateRps: number
  readonly seconds: number
  readonly slo: Slo
}): boolean =>
  computeEValues((rateRps * maxTimeFactor * seconds) / assumedDispersion, 0, 1 - slo.percentile)
    .met < minEToProve
