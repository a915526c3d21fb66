/**
 * Estimates the capacity from a few open windows that are too short to show it directly: each began
 * with an empty server, and a queue near the capacity takes longer to fill.
 *
 * Prior: a window beyond the capacity shows the throughput µ of the overloaded server. From µ
 * follows the rate at which waits reach the limit: those of a busy queue are exponential with mean
 * variance / (2 (1 - utilization)) (heavy traffic: Kingman 1961).
 *
 * Likelihood: the violations in sufficiently long windows. With the capacity C, the allowed share a
 * and the steepness s, the share of requests over the limit at rate r is q(r) = 1 - (1 - a)^exp(s
 * (r / C - 1)), which is a at r = C.
 */
import { resolveLimits, type Slo, selectLimits } from '../../model/slo.ts'
import { estimateOverloadThroughput, type ObservedWindow } from './short-windows.ts'

/**
 * Candidate steepnesses s, as factors on 1 + C t: its value for a single worker with exponential
 * services, capacity C and allowed waiting time t. Bursty arrivals give smaller ones, constant
 * services larger ones. The largest are for limits that are exceeded abruptly, without waiting.
 * These, and the numbers below, were chosen on four servers other than those of
 * docs/research/capacity.md, streamed answers.
 */
const steepnessFactors = [0.5, 1, 2, 4, 16, 64, 256]
/** Candidate capacities, evenly spaced in ln capacity: about 1 % apart. */
const gridSize = 400
/** Replaces an allowed share of zero. */
const minAllowedShare = 1e-4
/** Lower bound of the likelihood of one request: the curve is only approximate. */
const lnMinProbability = Math.log(1e-3)
/** Range of the candidate capacities: observed rates, extended by this factor to either side. */
const gridExtensionFactor = 4
/**
 * Lower bound of the allowed waiting time, as a share of the limit. Where the unloaded latency
 * takes nearly all of the limit, its error exceeds the difference.
 */
const minWaitShare = 0.05
/** Quadrature points for the overload throughput, in standard errors. */
const throughputZScores = [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2]
/** Added to the prior density, so that violations can contradict it anywhere. */
const minDensity = 1e-9
/** Standard deviation of the ln idle share about its heavy-traffic value. */
const lnIdleShareSd = 0.6
/** Smallest idle share at the capacity. */
const minIdleShare = 0.005
/** Prior probability that something other than waiting limits the capacity. */
const otherLimitProbability = 0.15
/** Upper bound of s (r / C - 1), which keeps the exponential finite. */
const maxExponent = 50

/** Median and 90 % interval of the capacity, requests per second. */
export interface JointCapacity {
  readonly median: number
  readonly ci90: readonly [number, number]
}

/**
 * Estimates the capacity; with request classes, the lowest of their capacities. Throws without
 * windows.
 * @param unloadedMs latency of a request that does not wait, as the SLO measures it
 */
export function estimateJointCapacity(
  windows: readonly ObservedWindow[],
  slo: Slo,
  unloadedMs: number,
): JointCapacity {
  const names = [...new Set(windows.flatMap(({ classes = {} }) => Object.keys(classes)))]
  if (names.length === 0) return estimateCapacity(windows, slo, unloadedMs)
  const byClass = names.map((name) => {
    const classWindows = windows.map((window) => ({
      ...window,
      // A window without requests of the class is no evidence about it.
      ...(window.classes?.[name] ?? { nEff: 0, violationShare: 0 }),
    }))
    // Each class has its own limit. Its unloaded latency is assumed to be in proportion.
    const limitMs = selectLimits(resolveLimits(slo), name)[0]?.limitMs ?? slo.limitMs
    return estimateCapacity(classWindows, { ...slo, limitMs }, (unloadedMs * limitMs) / slo.limitMs)
  })
  const findLowest = (getRps: (capacity: JointCapacity) => number) =>
    Math.min(...byClass.map(getRps))
  return {
    median: findLowest(({ median }) => median),
    ci90: [findLowest(({ ci90 }) => ci90[0]), findLowest(({ ci90 }) => ci90[1])],
  }
}

/** Estimates the capacity for one class of requests: posterior over a grid of ln capacities. */
function estimateCapacity(
  windows: readonly ObservedWindow[],
  slo: Pick<Slo, 'percentile' | 'limitMs'>,
  unloadedMs: number,
): JointCapacity {
  const capacities = createCapacityGrid(windows)
  const overload = estimateOverloadThroughput(windows)
  const allowed = Math.max(minAllowedShare, 1 - slo.percentile)
  const discounted = windows.map((window) =>
    overload === undefined
      ? window
      : { ...window, ...discountCorrelation(window, overload.rps, allowed) },
  )
  const waitS = Math.max(minWaitShare * slo.limitMs, slo.limitMs - unloadedMs) / 1000
  /** ln posterior of each capacity, by steepness. */
  const logPosteriors = capacities.map((capacity) => {
    const density =
      overload &&
      averageOverThroughput(overload, (rps) =>
        computeCapacityDensity(capacity, rps, waitS, allowed),
      )
    const lnPrior = density === undefined ? 0 : Math.log(density + minDensity)
    return steepnessFactors.map((factor) => {
      const steepness = factor * (1 + capacity * waitS)
      return discounted.reduce(
        (sum, window) => sum + computeLnLikelihood(window, capacity, steepness, allowed),
        lnPrior,
      )
    })
  })
  const maxLog = Math.max(...logPosteriors.flat())
  const weights = logPosteriors.map((bySteepness) =>
    bySteepness.reduce((sum, log) => sum + Math.exp(log - maxLog), 0),
  )
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const findQuantile = (share: number) => {
    let sum = 0
    return capacities.find((_, i) => {
      sum += weights[i]!
      return sum >= share * total
    })!
  }
  return { median: findQuantile(0.5), ci90: [findQuantile(0.05), findQuantile(0.95)] }
}

function createCapacityGrid(windows: readonly ObservedWindow[]): number[] {
  const rates = windows.map(({ rateRps }) => rateRps)
  const low = Math.log(Math.min(...rates) / gridExtensionFactor)
  const high = Math.log(Math.max(...rates) * gridExtensionFactor)
  return Array.from({ length: gridSize }, (_, i) =>
    Math.exp(low + ((high - low) * i) / (gridSize - 1)),
  )
}

/** Computes the ln likelihood of the violations in a window, by the curve q(r). */
function computeLnLikelihood(
  { rateRps, nEff, violationShare }: ObservedWindow,
  capacity: number,
  steepness: number,
  allowed: number,
): number {
  const exponent = Math.min(maxExponent, steepness * (rateRps / capacity - 1))
  const lnMet = Math.log1p(-allowed) * Math.exp(exponent)
  const lnViolated = Math.max(lnMinProbability, Math.log(-Math.expm1(lnMet)))
  return (
    nEff * ((1 - violationShare) * Math.max(lnMinProbability, lnMet) + violationShare * lnViolated)
  )
}

/** Averages a function over the uncertainty of the throughput, log-normal about its estimate. */
function averageOverThroughput(
  { rps, relativeError }: { readonly rps: number; readonly relativeError: number },
  evaluate: (rps: number) => number,
): number {
  const weightedValues = throughputZScores.map(
    (z) => [Math.exp(-0.5 * z * z), evaluate(rps * Math.exp(z * relativeError))] as const,
  )
  return (
    weightedValues.reduce((sum, [weight, value]) => sum + weight * value, 0) /
    weightedValues.reduce((sum, [weight]) => sum + weight, 0)
  )
}

/**
 * Computes the prior density of ln capacity given the overload throughput. The idle share 1 - C / µ
 * is log-normal about its heavy-traffic value, at which waits reach the limit. With a small
 * probability something else limits the capacity; it is then uniform below that value.
 */
function computeCapacityDensity(
  capacity: number,
  servedRps: number,
  waitS: number,
  allowed: number,
): number {
  const waitFactor = (2 * waitS) / Math.log(1 / allowed)
  const idleShareAtLimit = 1 / (1 + servedRps * waitFactor)
  const idleShare = Math.max(minIdleShare, 1 - capacity / servedRps)
  const zScore = Math.log(idleShare / idleShareAtLimit) / lnIdleShareSd
  const slope = (1 - idleShare) / idleShare / lnIdleShareSd
  const waitDensity =
    capacity > servedRps
      ? 0
      : ((1 - otherLimitProbability) * slope * Math.exp(-0.5 * zScore ** 2)) /
        Math.sqrt(2 * Math.PI)
  const otherDensity =
    capacity > servedRps * (1 - idleShareAtLimit)
      ? 0
      : otherLimitProbability / Math.log(2 * gridExtensionFactor)
  return waitDensity + otherDensity
}

/**
 * Limits the effective sample size of a window by the relaxation time of its queue, 1 / (µ (1 -
 * utilization)²). Beyond µ the queue grows without end, so a window counts as one violated request,
 * or as none where it ended before its queue had grown.
 */
function discountCorrelation(
  { rateRps, seconds, nEff, violationShare }: ObservedWindow,
  servedRps: number,
  allowed: number,
): Pick<ObservedWindow, 'nEff' | 'violationShare'> {
  const utilization = rateRps / servedRps
  if (utilization >= 1)
    return { nEff: violationShare > allowed ? Math.min(1, nEff) : 0, violationShare: 1 }
  const relaxationS = 1 / (servedRps * (1 - utilization) ** 2)
  return { nEff: Math.min(nEff, seconds / (2 * relaxationS)), violationShare }
}
