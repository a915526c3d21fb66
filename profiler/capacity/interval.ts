/**
 * The interval of a capacity. No other module of the search widens, narrows or caps it.
 *
 * The posterior of the queue model is adjusted by these rules, in this order:
 *
 * 1. observed throughput: the model extrapolates, so its estimate is capped near what was served
 * 2. closed loops: open windows were slower, so the lower end falls by the same share
 * 3. system capacity: refusals allow several, so the interval covers the estimates for all
 * 4. CPU quota: the model does not know when the quota runs out, so the interval is wider
 * 5. windows: the lower end is a rate that met the SLO, the upper end no lower than a credible one
 *
 * A search that ends for another reason reports a bound instead (rules from `failing rate` on).
 * Each rule that changes something is listed in the result's `adjustments`.
 */
import type { Capacity, IntervalAdjustment, IntervalRule } from '../model/measurement.ts'
import { boundedAbove, boundedBetween, unknownCapacity } from './capacity-bounds.ts'
import { computeShareOfLoops } from './closed-loop-share.ts'
import type { CapacityPosterior } from './queue-model/posterior.ts'
import type { LoopThroughput } from './session.ts'

/** A capacity to report, and the rules that changed its interval. */
export type ReportedCapacity = Capacity & {
  readonly adjustments?: readonly IntervalAdjustment[]
}

type Estimate = Pick<CapacityPosterior, 'capacityRps' | 'capacityCi90Rps' | 'adjustments'>
type Interval = Pick<Estimate, 'capacityCi90Rps'>

/** Rates of open windows, as `Evidence` has them. */
interface WindowRates {
  /** Highest rate that met the SLO, 0 for none. */
  readonly metRps: number
  /** Highest rate whose 95 % interval met the SLO, 0 for none. */
  readonly ciMetRps: number
  /** Lowest rate from which every window's 95 % interval violated the SLO. */
  readonly ciViolatedRps?: number
  /** Highest rate that enough requests met to have shown a violation. */
  readonly credibleMetRps?: number
  /** The same for few requests. */
  readonly brieflyMetRps?: number
}

/**
 * Highest median, and highest upper end, as multiples of the highest observed throughput. What lies
 * beyond is extrapolated by the model.
 */
const maxMedianReach = 1.15
const maxIntervalReach = 1.5
/** A met rate this many times above the interval contradicts the model. */
export const farFactor = 1.25
/** The same factor for few requests. */
const farFactorBrief = 2
/** Error of a queue model for a server that waits for CPU quota, as a share of the waiting time. */
const quotaErrorShare = 0.25

/** What the search observed beside its windows. */
export interface SearchFacts {
  /** Highest throughput of closed loops and open windows. */
  readonly observedRps: number
  readonly fastestLoop: LoopThroughput
  /** Share of each period in which closed loops wait for CPU quota. */
  readonly quotaWaitShare: number
}

/**
 * Rules 1 to 4.
 * @param posteriors one for each system capacity that the refusals allow, the likeliest first
 */
export function adjustPosterior(
  posteriors: readonly [CapacityPosterior, ...CapacityPosterior[]],
  facts: SearchFacts,
): CapacityPosterior {
  const [likeliest, ...others] = posteriors.map((posterior) =>
    lowerByShareOfLoops(capToObserved(posterior, facts.observedRps), facts.fastestLoop),
  )
  return widenForQuota(coverAll(likeliest!, others), facts.quotaWaitShare)
}

/** A cold server or merged departures make the model extrapolate too far. */
function capToObserved(estimate: CapacityPosterior, observedRps: number): CapacityPosterior {
  const [low, high] = estimate.capacityCi90Rps
  const capacityRps = Math.min(estimate.capacityRps, maxMedianReach * observedRps)
  const capped = adjust(estimate, 'observed throughput', {
    capacityRps,
    capacityCi90Rps: [
      Math.min(low, capacityRps, observedRps),
      Math.max(capacityRps, Math.min(high, maxIntervalReach * observedRps)),
    ],
  })
  return capacityRps < estimate.capacityRps ? { ...capped, isCapped: true } : capped
}

/** A few seconds seldom meet the worst periods of a server that is slow now and then. */
function lowerByShareOfLoops(
  estimate: CapacityPosterior,
  fastestLoop: LoopThroughput,
): CapacityPosterior {
  const [low, high] = estimate.capacityCi90Rps
  const share = computeShareOfLoops(estimate, fastestLoop) ?? 1
  return adjust(estimate, 'closed loops', { capacityCi90Rps: [low * share, high] })
}

function coverAll(
  likeliest: CapacityPosterior,
  others: readonly CapacityPosterior[],
): CapacityPosterior {
  const intervals = [likeliest, ...others].map(({ capacityCi90Rps }) => capacityCi90Rps)
  return adjust(likeliest, 'system capacity', {
    capacityCi90Rps: [
      Math.min(...intervals.map(([low]) => low)),
      Math.max(...intervals.map(([, high]) => high)),
    ],
  })
}

function widenForQuota(estimate: CapacityPosterior, waitShare: number): CapacityPosterior {
  const [low, high] = estimate.capacityCi90Rps
  const error = quotaErrorShare * waitShare
  return adjust(estimate, 'CPU quota', {
    capacityCi90Rps: [low * (1 - error), high * (1 + error)],
  })
}

/**
 * Rule 5. Where the windows contradict the model, the capacity is a geometric mean: of met and
 * violated rates, or of the estimate and the met rate.
 */
export function boundByWindows(estimate: Estimate, windows: WindowRates): ReportedCapacity {
  const { metRps, ciMetRps, ciViolatedRps = Number.POSITIVE_INFINITY } = windows
  const [low, high] = estimate.capacityCi90Rps
  const farMetRps = findFarMetRate(estimate, windows)
  if (farMetRps > 0) {
    const highRps = Math.max(maxMedianReach * farMetRps, ciMetRps)
    const capacityRps = Math.sqrt(estimate.capacityRps * farMetRps)
    return report(estimate, 'windows', boundedBetween(Math.min(low, metRps), highRps, capacityRps))
  }
  const capacityRps = isAboveViolations(estimate, windows)
    ? Math.sqrt(metRps * ciViolatedRps)
    : estimate.capacityRps
  const highRps = Math.max(high, ciMetRps)
  return report(estimate, 'windows', boundedBetween(Math.min(low, metRps), highRps, capacityRps))
}

/** Whether windows contradict the model. */
export const isContradicted = (estimate: Interval, windows: WindowRates): boolean =>
  isAboveViolations(estimate, windows) || findFarMetRate(estimate, windows) > 0

/** Rate for the next window: the estimated capacity, or slightly beyond a met rate far above it. */
export const chooseNextRate = (
  estimate: Interval & { readonly capacityRps: number },
  windows: WindowRates,
): number => maxMedianReach * findFarMetRate(estimate, windows) || estimate.capacityRps

/** Requests fail from a rate on before they get slow, by a limit that was not identified. */
export const boundByFailures = (
  estimate: Estimate | undefined,
  metRps: number,
  failingRps: number,
  { ciMetRps }: WindowRates,
): ReportedCapacity =>
  report(estimate, 'failing rate', boundedBetween(metRps, Math.max(failingRps, ciMetRps)))

/** A token bucket refuses requests; it also explains windows that failed below the capacity. */
export function boundByBucket(
  estimate: Estimate | undefined,
  bucket: { readonly rateRps: number; readonly ci90Rps: readonly [number, number] },
  { metRps }: WindowRates,
): ReportedCapacity {
  const low = Math.min(bucket.ci90Rps[0], metRps)
  const high = Math.max(low, bucket.ci90Rps[1])
  return report(estimate, 'token bucket', boundedBetween(low, high, Math.max(low, bucket.rateRps)))
}

/**
 * Requests are refused for an unknown reason. The interval reaches down to the capacity for the
 * smallest system capacity that the refusals allow.
 */
export function boundByRefusals(
  estimate: Estimate,
  smallestRps: number,
  { metRps }: WindowRates,
): ReportedCapacity {
  const [low, high] = estimate.capacityCi90Rps
  const lowRps = Math.min(low, smallestRps, metRps)
  return report(estimate, 'refusals', boundedBetween(lowRps, high, estimate.capacityRps))
}

/** No open window met the SLO. */
export const boundByViolation = (estimate: Estimate, violatedRps: number): ReportedCapacity =>
  report(
    estimate,
    'no window met',
    boundedBetween(0, Math.min(violatedRps, estimate.capacityCi90Rps[1])),
  )

/**
 * The trial was pruned. A few seconds do not show how rare outages are, and so how far below the
 * capacity lies: a server with outages is bounded by what its windows violated, at most by the rate
 * to beat.
 */
export function boundPruned(
  estimate: CapacityPosterior | undefined,
  boundRps: number,
  violatedRps: number,
  toBeatRps: number,
): ReportedCapacity {
  const outagesRps = estimate?.hasOutages ? Math.min(violatedRps, toBeatRps) : 0
  return report(estimate, 'pruned', boundedAbove(Math.max(boundRps, outagesRps)))
}

/** Only the lower end is known: the generator, the server's end or its speed-up hid the upper. */
export const boundBelow = (estimate: Estimate | undefined, metRps: number): ReportedCapacity =>
  report(
    estimate,
    'lower bound only',
    metRps > 0 ? boundedBetween(metRps, Number.POSITIVE_INFINITY) : unknownCapacity,
  )

/** Whether the whole interval lies above a rate from which every window violated the SLO. */
const isAboveViolations = (
  { capacityCi90Rps: [low] }: Interval,
  { ciViolatedRps = Number.POSITIVE_INFINITY }: WindowRates,
) => low > ciViolatedRps

/** A credibly met rate far above the whole interval; 0 without one. */
const findFarMetRate = (
  { capacityCi90Rps: [, high] }: Interval,
  { credibleMetRps = 0, brieflyMetRps = 0 }: WindowRates,
): number =>
  Math.max(
    farFactor * high < credibleMetRps ? credibleMetRps : 0,
    farFactorBrief * high < brieflyMetRps ? brieflyMetRps : 0,
  )

type Figures = Pick<Capacity, 'capacityRps' | 'capacityCi90Rps'>

/** Replaces figures of an estimate, and lists the rule if they differ. */
function adjust<E extends Estimate>(estimate: E, rule: IntervalRule, change: Partial<Figures>): E {
  const adjusted = { ...estimate, ...change }
  return listed(estimate, rule, adjusted)
}

function report(
  estimate: Estimate | undefined,
  rule: IntervalRule,
  capacity: Capacity,
): ReportedCapacity {
  return listed(estimate, rule, capacity)
}

function listed<C extends Figures>(before: Estimate | undefined, rule: IntervalRule, after: C): C {
  const earlier = before?.adjustments ?? []
  const { capacityRps, capacityCi90Rps } = after
  const isSame =
    before?.capacityRps === capacityRps &&
    before.capacityCi90Rps[0] === capacityCi90Rps[0] &&
    before.capacityCi90Rps[1] === capacityCi90Rps[1]
  const adjustments = isSame ? earlier : [...earlier, { rule, capacityRps, capacityCi90Rps }]
  return { ...after, ...(adjustments.length > 0 && { adjustments }) }
}
