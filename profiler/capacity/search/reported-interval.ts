/** Adjustments of the interval that is reported for a capacity. */
import type { Capacity } from '../../model/measurement.ts'
import { boundedBetween } from '../capacity-bounds.ts'
import type { CapacityPosterior } from '../queue-model/posterior.ts'
import type { LoopThroughput } from '../session.ts'
import type { Evidence } from './evidence.ts'

/**
 * Highest median, and highest upper end, as multiples of the highest observed throughput. What lies
 * beyond is extrapolated by the model.
 */
const maxMedianReach = 1.15
const maxIntervalReach = 1.5

type WindowBounds = Pick<Evidence, 'metRps' | 'ciMetRps'> &
  Partial<Pick<Evidence, 'ciViolatedRps' | 'credibleMetRps' | 'brieflyMetRps'>>
type Interval = Pick<CapacityPosterior, 'capacityCi90Rps'>

/**
 * Whether the whole interval lies above a rate from which every window violated the SLO: the model
 * describes another server.
 */
const isAboveViolations = (
  { capacityCi90Rps: [low] }: Interval,
  { ciViolatedRps = Number.POSITIVE_INFINITY }: WindowBounds,
) => low > ciViolatedRps
/** A credibly met rate far above the whole interval; 0 without one. */
const findFarMetRate = (
  { capacityCi90Rps: [, high] }: Interval,
  { credibleMetRps = 0, brieflyMetRps = 0 }: WindowBounds,
): number =>
  Math.max(
    farFactor * high < credibleMetRps ? credibleMetRps : 0,
    farFactorBrief * high < brieflyMetRps ? brieflyMetRps : 0,
  )
export const farFactor = 1.25
/** The same factor for few requests. */
const farFactorBrief = 2

/** Whether windows contradict the model. */
export const isContradicted = (estimate: Interval, windows: WindowBounds): boolean =>
  isAboveViolations(estimate, windows) || findFarMetRate(estimate, windows) > 0

/** Rate for the next window: the estimated capacity, or slightly beyond a met rate far above it. */
export const chooseNextRate = (
  estimate: Interval & { readonly capacityRps: number },
  windows: WindowBounds,
): number => maxMedianReach * findFarMetRate(estimate, windows) || estimate.capacityRps

/**
 * Bounds the estimate by the evidence. The lower end is a rate that an open window met; the upper
 * end is no lower than a rate whose 95 % interval met the SLO. Where the evidence contradicts the model, the capacity is
 * a geometric mean: of met and violated rates, or of the estimate and the met rate.
 */
export function boundByEvidence(
  estimate: Pick<CapacityPosterior, 'capacityRps' | 'capacityCi90Rps'>,
  windows: WindowBounds,
): Capacity {
  const { metRps, ciMetRps, ciViolatedRps = Number.POSITIVE_INFINITY } = windows
  const [low, high] = estimate.capacityCi90Rps
  const farMetRps = findFarMetRate(estimate, windows)
  if (farMetRps > 0)
    return boundedBetween(
      Math.min(low, metRps),
      Math.max(maxMedianReach * farMetRps, ciMetRps),
      Math.sqrt(estimate.capacityRps * farMetRps),
    )
  const capacityRps = isAboveViolations(estimate, windows)
    ? Math.sqrt(metRps * ciViolatedRps)
    : estimate.capacityRps
  return boundedBetween(Math.min(low, metRps), Math.max(high, ciMetRps), capacityRps)
}

/**
 * Share of the throughput of closed loops that the model must reach for both to show the same
 * speed.
 */
const minShareOfLoops = 0.9

/**
 * Whether open windows show about the speed of the closed loops. Else the server is slow now and
 * then, and more windows have to show how often.
 */
export const isAsFastAsLoops = (
  { saturationRps }: Pick<CapacityPosterior, 'saturationRps'>,
  loopsRps: number,
): boolean => saturationRps >= minShareOfLoops * loopsRps

/** Standard errors that make a difference significant; many loops are compared. */
const minStandardErrors = 4

/**
 * Throughput of the model relative to the fastest closed loop, where it is significantly smaller.
 * Undefined for a server that refuses, which is idle meanwhile.
 */
export function computeShareOfLoops(
  of: CapacityPosterior,
  loops: LoopThroughput,
): number | undefined {
  const chance = 1 + (minStandardErrors * of.saturationError) / Math.sqrt(loops.answers)
  return of.refusesWhenFull ||
    isAsFastAsLoops(of, loops.rps) ||
    of.saturationRps * chance >= loops.rps
    ? undefined
    : of.saturationRps / loops.rps
}

/**
 * Lowers the interval by the share that open windows lost against closed loops. A few seconds
 * seldom meet the worst periods of a server that is slow now and then.
 */
export function widenByShareOfLoops(
  of: CapacityPosterior,
  loops: LoopThroughput,
): CapacityPosterior {
  const [low, high] = of.capacityCi90Rps
  return { ...of, capacityCi90Rps: [low * (computeShareOfLoops(of, loops) ?? 1), high] }
}

export const fadingOutagesCaveat =
  'slow answers became rarer during the measurement, as with a filling cache: the capacity is close to that without them, and the interval covers both'

export const describeShareOfLoops = (share: number): string =>
  `open windows reached ${(100 * share).toFixed(0)} % of the throughput of closed loops: the server is slow now and then, or some of its workers are away; the interval allows for as much again`

/**
 * Caps the estimate by the observed throughput. A cold server or merged departures make the model
 * extrapolate too far.
 */
export function capToObservedRates(
  { capacityRps, capacityCi90Rps: [low, high], ...rest }: CapacityPosterior,
  servedRps: number,
): CapacityPosterior {
  const median = Math.min(capacityRps, maxMedianReach * servedRps)
  return {
    capacityRps: median,
    capacityCi90Rps: [
      Math.min(low, median, servedRps),
      Math.max(median, Math.min(high, maxIntervalReach * servedRps)),
    ],
    ...rest,
    ...(median < capacityRps && { isCapped: true }),
  }
}
