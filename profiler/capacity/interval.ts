/**
 * The interval of a capacity. No other module of this folder builds, widens, narrows or caps one.
 *
 * The posterior of the queue model is adjusted by these rules, in this order, each named after the
 * observation behind it:
 *
 * 1. observed throughput: the model extrapolates, so its estimate is capped near this throughput
 * 2. closed loops: where the saturation of the model is clearly below the throughput of the fastest
 *    closed loop, the lower end is multiplied by the ratio of the two
 * 3. system capacity: several values of K explain the refusals, so the interval covers the estimate
 *    for each
 * 4. CPU quota: the model does not simulate the quota, so the interval is wider
 * 5. model misfit: no service discipline describes the server, so the interval is wider
 * 6. windows: the lower end is at most a rate that met the SLO, the upper end at least such a rate
 *    whose 95 % interval met it
 *
 * A search that ends for another reason reports a bound instead (rules from `failing rate` on). A
 * capacity that is derived for another SLO is widened by the last rules (from `interpolation` on).
 * Each rule that changes something is listed in the result's `adjustments`.
 */
import type { Capacity, IntervalAdjustment, IntervalRule } from '../model/measurement.ts'
import { createBracket, createUpperBound, noCapacity, unknownCapacity } from './capacity-bounds.ts'
import { computeClosedLoopShare } from './closed-loop-share.ts'
import type { LoopThroughput } from './load-record.ts'
import type { CapacityPosterior } from './queue-model/posterior.ts'

/** A capacity to report, and the rules that changed its interval. */
export type ReportedCapacity = Capacity & {
  readonly adjustments?: readonly IntervalAdjustment[]
}

type Estimate = Pick<CapacityPosterior, 'capacityRps' | 'capacityCi90Rps' | 'adjustments'>
type Interval = Pick<Estimate, 'capacityCi90Rps'>

/** Rates of open windows, as `RateBounds` collects them. */
export interface WindowRates {
  /** Highest rate that met the SLO, 0 for none. */
  readonly metRps: number
  /** Highest rate whose 95 % interval met the SLO, 0 for none. */
  readonly ciMetRps: number
  /** Lowest rate from which every window's 95 % interval violated the SLO. */
  readonly ciViolatedRps?: number
  /**
   * Highest rate that met the SLO in a window with enough requests to violate it at 1.25 times the
   * capacity (`minContradictionFactor`), 0 for none.
   */
  readonly longWindowMetRps?: number
  /**
   * Highest rate that met the SLO in a window with enough requests to violate it at twice the
   * capacity, 0 for none.
   */
  readonly shortWindowMetRps?: number
}

/**
 * Highest median as a multiple of the highest observed throughput. Rates beyond that are
 * extrapolated by the model. Assumed.
 */
const maxMedianFactor = 1.15
/** Highest upper end of the interval, as a multiple of the highest observed throughput. Assumed. */
const maxUpperEndFactor = 1.5
/**
 * A met rate contradicts the model where it exceeds the interval by more than this factor. Windows
 * must have enough requests to show it (`RateBounds`).
 */
export const minContradictionFactor = 1.25
/** The same for windows with few requests: these violate the SLO only at twice the capacity. */
const minShortContradictionFactor = 2
/**
 * Error of a queue model for a server that waits for CPU quota, as a share of the waiting time.
 * Assumed.
 */
const quotaErrorShare = 0.25
/**
 * Error of a queue model that does not describe the server, as a share of the capacity: 15 of 17
 * measurements of random servers that no discipline fits err by 9 % or less
 * (docs/research/capacity.md).
 */
const misfitErrorShare = 0.1
/**
 * Factor on the width of an interval, in ln rate, for the interpolation between the points of a
 * load curve. Assumed.
 */
const interpolationFactor = 1.25
/**
 * Share of a confirmed rate that counts as its lower bound where its windows do not prove the SLO.
 * Assumed.
 */
export const unprovenShare = 0.95
/** Quantile of the normal distribution for a 90 % interval. */
const z90 = 1.645

/** Observations of the search other than whether windows met the SLO. */
export interface SearchFacts {
  /** Highest throughput of closed loops and open windows. */
  readonly observedRps: number
  readonly fastestLoop: LoopThroughput
  /** Share of each period in which closed loops wait for CPU quota. */
  readonly quotaWaitShare: number
  /** The queue model does not describe the server: the goodness-of-fit test rejects it. */
  readonly isMisfit: boolean
}

/**
 * Applies rules 1 to 5.
 * @param posteriors one for each system capacity that explains the refusals, the likeliest first
 */
export function adjustPosterior(
  posteriors: readonly [CapacityPosterior, ...CapacityPosterior[]],
  facts: SearchFacts,
): CapacityPosterior {
  const [likeliest, ...others] = posteriors.map((posterior) =>
    lowerByClosedLoopShare(capToObserved(posterior, facts.observedRps), facts.fastestLoop),
  )
  const covering = widenForQuota(coverSystemCapacities(likeliest!, others), facts.quotaWaitShare)
  return facts.isMisfit ? widenForMisfit(covering) : covering
}

/** Rule 1. On a cold server, or with merged departures, the model extrapolates too far. */
function capToObserved(estimate: CapacityPosterior, observedRps: number): CapacityPosterior {
  const [low, high] = estimate.capacityCi90Rps
  const capacityRps = Math.min(estimate.capacityRps, maxMedianFactor * observedRps)
  const cappedEstimate = applyRule(estimate, 'observed throughput', {
    capacityRps,
    capacityCi90Rps: [
      Math.min(low, capacityRps, observedRps),
      Math.max(capacityRps, Math.min(high, maxUpperEndFactor * observedRps)),
    ],
  })
  return capacityRps < estimate.capacityRps ? { ...cappedEstimate, isCapped: true } : cappedEstimate
}

/**
 * Rule 2. A server may be slow now and then, and a few seconds of windows miss its worst periods.
 */
function lowerByClosedLoopShare(
  estimate: CapacityPosterior,
  fastestLoop: LoopThroughput,
): CapacityPosterior {
  const [low, high] = estimate.capacityCi90Rps
  const share = computeClosedLoopShare(estimate, fastestLoop) ?? 1
  return applyRule(estimate, 'closed loops', { capacityCi90Rps: [low * share, high] })
}

/** Rule 3. Covers the estimates for all system capacities. */
function coverSystemCapacities(
  likeliest: CapacityPosterior,
  others: readonly CapacityPosterior[],
): CapacityPosterior {
  const intervals = [likeliest, ...others].map(({ capacityCi90Rps }) => capacityCi90Rps)
  return applyRule(likeliest, 'system capacity', {
    capacityCi90Rps: [
      Math.min(...intervals.map(([low]) => low)),
      Math.max(...intervals.map(([, high]) => high)),
    ],
  })
}

/** Rule 4. Widens by a share of the time for which the server waits for its CPU quota. */
function widenForQuota(estimate: CapacityPosterior, waitShare: number): CapacityPosterior {
  const [low, high] = estimate.capacityCi90Rps
  const error = quotaErrorShare * waitShare
  return applyRule(estimate, 'CPU quota', {
    capacityCi90Rps: [low * (1 - error), high * (1 + error)],
  })
}

/**
 * Rule 5. The upper end rises at most to the saturation of the queue model: a misfit cannot raise
 * the throughput of a server that is never idle.
 */
function widenForMisfit(estimate: CapacityPosterior): CapacityPosterior {
  const [low, high] = estimate.capacityCi90Rps
  const widerRps = Math.min(high * (1 + misfitErrorShare), estimate.saturationRps)
  return applyRule(estimate, 'model misfit', {
    capacityCi90Rps: [low * (1 - misfitErrorShare), Math.max(high, widerRps)],
  })
}

/**
 * Applies rule 6. The capacity remains the estimate, except where windows contradict the model:
 * - a met rate far above the interval: geometric mean of the estimate and that rate
 * - the whole interval above `ciViolatedRps`: geometric mean of `metRps` and `ciViolatedRps`
 */
export function boundByWindows(estimate: Estimate, windows: WindowRates): ReportedCapacity {
  const { metRps, ciMetRps, ciViolatedRps = Number.POSITIVE_INFINITY } = windows
  const [low, high] = estimate.capacityCi90Rps
  const contradictingRps = findContradictingRate(estimate, windows)
  if (contradictingRps > 0) {
    const highRps = Math.max(maxMedianFactor * contradictingRps, ciMetRps)
    const capacityRps = Math.sqrt(estimate.capacityRps * contradictingRps)
    return recordAdjustment(
      estimate,
      'windows',
      createBracket(Math.min(low, metRps), highRps, capacityRps),
    )
  }
  const capacityRps = isAboveViolations(estimate, windows)
    ? Math.sqrt(metRps * ciViolatedRps)
    : estimate.capacityRps
  const highRps = Math.max(high, ciMetRps)
  return recordAdjustment(
    estimate,
    'windows',
    createBracket(Math.min(low, metRps), highRps, capacityRps),
  )
}

/** Whether windows contradict the model. */
export const isContradicted = (estimate: Interval, windows: WindowRates): boolean =>
  isAboveViolations(estimate, windows) || findContradictingRate(estimate, windows) > 0

/**
 * Chooses the rate of the next window: the estimated capacity. Where a met rate far above the
 * interval contradicts the model, slightly more than that rate.
 */
export function chooseNextRate(
  estimate: Interval & { readonly capacityRps: number },
  windows: WindowRates,
): number {
  const contradictingRps = findContradictingRate(estimate, windows)
  return contradictingRps > 0 ? maxMedianFactor * contradictingRps : estimate.capacityRps
}

/**
 * Bounds the capacity by a rate from which requests fail before they get slow. The limit behind the
 * failures was not identified.
 */
export const boundByFailures = (
  estimate: Estimate | undefined,
  metRps: number,
  failingRps: number,
  { ciMetRps }: WindowRates,
): ReportedCapacity =>
  recordAdjustment(estimate, 'failing rate', createBracket(metRps, Math.max(failingRps, ciMetRps)))

/**
 * Bounds the capacity by a token bucket that refuses requests. Windows may fail below its capacity,
 * while the bucket is still empty, so failing rates are no bound.
 */
export function boundByBucket(
  estimate: Estimate | undefined,
  bucket: { readonly rateRps: number; readonly ci90Rps: readonly [number, number] },
  { metRps }: WindowRates,
): ReportedCapacity {
  const low = Math.min(bucket.ci90Rps[0], metRps)
  const high = Math.max(low, bucket.ci90Rps[1])
  return recordAdjustment(
    estimate,
    'token bucket',
    createBracket(low, high, Math.max(low, bucket.rateRps)),
  )
}

/**
 * Bounds the capacity of a server that refuses requests for an unknown reason. The interval reaches
 * down to the capacity at the smallest system capacity that explains the refusals.
 */
export function boundByRefusals(
  estimate: Estimate,
  smallestRps: number,
  { metRps }: WindowRates,
): ReportedCapacity {
  const [low, high] = estimate.capacityCi90Rps
  const lowRps = Math.min(low, smallestRps, metRps)
  return recordAdjustment(estimate, 'refusals', createBracket(lowRps, high, estimate.capacityRps))
}

/** Bounds the capacity from above where no open window met the SLO. */
export const boundByViolation = (estimate: Estimate, violatedRps: number): ReportedCapacity =>
  recordAdjustment(
    estimate,
    'no window met',
    createBracket(0, Math.min(violatedRps, estimate.capacityCi90Rps[1])),
  )

/**
 * Bounds the capacity of a pruned trial from above. A few seconds do not show how frequent outages
 * are, nor how much they lower the capacity. So for a server with outages the bound is at least the
 * lower of two rates: the lowest rate that violated the SLO, and the rate to beat.
 */
export function boundPruned(
  estimate: CapacityPosterior | undefined,
  boundRps: number,
  violatedRps: number,
  toBeatRps: number,
): ReportedCapacity {
  const outageBoundRps = estimate?.hasOutages ? Math.min(violatedRps, toBeatRps) : 0
  return recordAdjustment(estimate, 'pruned', createUpperBound(Math.max(boundRps, outageBoundRps)))
}

/**
 * Bounds the capacity from below by the highest met rate. The upper end is unknown: the generator
 * was too slow, the server died, or the server was still speeding up.
 */
export const boundBelow = (estimate: Estimate | undefined, metRps: number): ReportedCapacity =>
  recordAdjustment(
    estimate,
    'lower bound only',
    metRps > 0 ? createBracket(metRps, Number.POSITIVE_INFINITY) : unknownCapacity,
  )

/**
 * Bounds the capacity by a bracket of rates: by the joint estimate of all windows, or by the
 * bracket itself.
 */
export const boundByBracket = (
  rates: Pick<WindowRates, 'metRps' | 'ciMetRps'> & { readonly violatedRps: number },
  joint: { readonly median: number; readonly ci90: readonly [number, number] } | undefined,
): ReportedCapacity =>
  joint === undefined
    ? createBracket(rates.metRps, rates.violatedRps)
    : boundByWindows({ capacityRps: joint.median, capacityCi90Rps: joint.ci90 }, rates)

/**
 * Bounds the capacity by the highest met rate of a confirmation, 0 for none, and by the lowest
 * violated one. Without proof of the met rate, the lower end is `unprovenShare` of it.
 */
export function boundByConfirmation(
  metRps: number,
  violatedRps: number,
  isProven: boolean,
): ReportedCapacity {
  if (metRps === 0) return createBracket(0, violatedRps)
  const highRps = Math.max(metRps, violatedRps)
  const bracket = createBracket(metRps, highRps)
  return isProven
    ? bracket
    : recordAdjustment(bracket, 'unproven', createBracket(unprovenShare * metRps, highRps, metRps))
}

/**
 * Bounds the capacity of a server in virtual time by rates whose windows met and violated the SLO.
 * @param noiseSd standard deviation of ln capacity by the noise of these windows
 */
export function boundSimulated(
  capacityRps: number,
  metRps: number,
  violatedRps: number,
  noiseSd = 0,
): ReportedCapacity {
  const noiseFactor = Math.exp(z90 * noiseSd)
  return createBracket(
    Math.min(metRps, capacityRps) / noiseFactor,
    Math.max(violatedRps, capacityRps) * noiseFactor,
    capacityRps,
  )
}

/** Bounds the capacity by loads of another tool: the highest that met the SLO, and the next one. */
export const boundByImportedLoads = (metRps: number, violatedRps: number): ReportedCapacity =>
  metRps > 0 ? createBracket(metRps, violatedRps) : boundByCurveStart(violatedRps)

/**
 * Bounds the capacity of a load curve whose first point exceeds the limit. Whether the unloaded
 * server meets the limit is as uncertain as that point.
 */
export const boundByCurveStart = (highRps: number): ReportedCapacity => ({
  ...noCapacity,
  capacityCi90Rps: [0, highRps],
})

/**
 * Widens the interval of a capacity that is read off a load curve: that of the curve or that of
 * the search, whichever is wider in ln rate, and wider again to allow for the interpolation.
 * @param curveCi90Rps rates at which the interval of the curve reaches the limit
 */
export function widenForInterpolation(
  capacityRps: number,
  curveCi90Rps: readonly [number, number],
  searched: CapacityWithInterval,
): Estimate {
  const [low, high] = curveCi90Rps
  const [searchedLow, searchedHigh] = searched.capacityCi90Rps
  const computeLnRatio = (a: number, b: number) =>
    a > 0 && b > 0 ? Math.max(0, Math.log(a / b)) : 0
  const down = Math.max(
    computeLnRatio(searched.capacityRps, searchedLow),
    computeLnRatio(capacityRps, low),
  )
  const up = Math.max(
    computeLnRatio(searchedHigh, searched.capacityRps),
    computeLnRatio(high, capacityRps),
  )
  return applyRule({ capacityRps, capacityCi90Rps: curveCi90Rps }, 'interpolation', {
    capacityCi90Rps: [
      capacityRps * Math.exp(-interpolationFactor * down),
      capacityRps * Math.exp(interpolationFactor * up),
    ],
  })
}

/**
 * Raises the upper end at the end of a load curve that never reached the limit: the capacity may be
 * as high as the saturation.
 */
export function raiseToSaturation(estimate: Estimate, saturationRps: number): Estimate {
  const [low, high] = estimate.capacityCi90Rps
  return applyRule(estimate, 'end of the load curve', {
    capacityCi90Rps: [low, Math.max(high, saturationRps)],
  })
}

/** Whether the whole interval lies above a rate from which on every window violated the SLO. */
const isAboveViolations = (
  { capacityCi90Rps: [low] }: Interval,
  { ciViolatedRps = Number.POSITIVE_INFINITY }: WindowRates,
) => low > ciViolatedRps

/** Finds a met rate so far above the interval that it contradicts the model; 0 without one. */
const findContradictingRate = (
  { capacityCi90Rps: [, high] }: Interval,
  { longWindowMetRps = 0, shortWindowMetRps = 0 }: WindowRates,
): number =>
  Math.max(
    minContradictionFactor * high < longWindowMetRps ? longWindowMetRps : 0,
    minShortContradictionFactor * high < shortWindowMetRps ? shortWindowMetRps : 0,
  )

type CapacityWithInterval = Pick<Capacity, 'capacityRps' | 'capacityCi90Rps'>

/** Changes an estimate by a rule, and records the rule if the figures differ. */
function applyRule<E extends Estimate>(
  estimate: E,
  rule: IntervalRule,
  change: Partial<CapacityWithInterval>,
): E {
  const adjustedEstimate = { ...estimate, ...change }
  return recordAdjustment(estimate, rule, adjustedEstimate)
}

/** Adds a rule to the adjustments of the capacity after it, if it differs from the one before. */
function recordAdjustment<C extends CapacityWithInterval>(
  before: Estimate | undefined,
  rule: IntervalRule,
  after: C,
): C {
  const earlier = before?.adjustments ?? []
  const { capacityRps, capacityCi90Rps } = after
  const isSame =
    before?.capacityRps === capacityRps &&
    before.capacityCi90Rps[0] === capacityCi90Rps[0] &&
    before.capacityCi90Rps[1] === capacityCi90Rps[1]
  const adjustments = isSame ? earlier : [...earlier, { rule, capacityRps, capacityCi90Rps }]
  return { ...after, ...(adjustments.length > 0 && { adjustments }) }
}
