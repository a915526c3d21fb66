/**
 * Estimates the capacity from a few open windows that are too short to show it directly: each began
 * with an empty server, and a queue near the capacity takes longer to fill. A window beyond the
 * capacity shows the throughput µ while the server falls behind. From µ follows the rate at which
 * waits reach the limit: those of a busy queue are exponential with mean variance / (2 (1 -
 * utilization)) (heavy traffic: Kingman 1961). Violations in sufficiently long windows correct that
 * estimate. With the capacity C, the allowed share a and the steepness s, the share q(r) = 1 - (1 -
 * a)^exp(s (r / C - 1)) of requests violates the limit at rate r.
 */
import { max, mean, min, sampleVariance } from 'simple-statistics'
import type { LoadRun } from '../../model/load-run.ts'
import {
  exceedsErrorRate,
  resolveLimits,
  type Slo,
  selectLimits,
  splitByClass,
} from '../../model/slo.ts'
import { overShare } from '../../statistics/dependence.ts'

/** Effective sample size of requests, and the share of them over the limit. */
interface Violations {
  readonly nEff: number
  readonly over: number
}

/** Violations among all requests of an open window, at its rate. */
export interface ObservedWindow extends Violations {
  readonly rateRps: number
  readonly seconds: number
  /** Violations of each class that has to meet the percentile on its own, by name. */
  readonly classes?: Readonly<Record<string, Violations>>
  /** Throughput while the server fell behind; undefined where it kept up. */
  readonly overload?: OverloadPhase
}

interface OverloadPhase {
  readonly answers: number
  readonly seconds: number
  /** Index of dispersion of the answers: 1 for exponential services, 0 for constant ones. */
  readonly dispersion: number
}

/** Requests that a share or a rate needs. */
const minRequests = 20

/**
 * Counts the violations of a window. With too many errors, all of its requests count as violations.
 * @param rampS time from the start in which the server fills; these requests find a shorter queue
 * than later ones
 */
export function observeWindow(run: LoadRun, slo: Slo, rampS: number): ObservedWindow {
  const { latencyMs, load } = run
  const rateRps = load.kind === 'open' ? load.rateRps : Number.NaN
  const rampMs = Math.min(1000 * rampS, (1000 * load.durationS) / 3)
  const failed = exceedsErrorRate(
    { requests: latencyMs.length, errors: latencyMs.filter(Number.isNaN).length },
    slo,
  )
  const countViolations = (of: Pick<LoadRun, 'sentMs' | 'latencyMs'>): Violations => {
    const late = of.latencyMs.filter((_, i) => of.sentMs[i]! >= rampMs)
    const { n, over, nEff } = overShare(
      late.length >= minRequests ? late : of.latencyMs,
      slo.limitMs,
    )
    return { nEff, over: failed ? 1 : n === 0 ? 0 : over / n }
  }
  const classes = splitByClass(run, slo).flatMap((own) =>
    own.requestClass === undefined ? [] : [[own.requestClass, countViolations(own)] as const],
  )
  return {
    rateRps,
    seconds: load.durationS,
    ...countViolations(run),
    ...(classes.length > 0 && { classes: Object.fromEntries(classes) }),
    overload: findOverloadPhase(run, rateRps),
  }
}

/**
 * The server counts as behind from the first to the last time at which this share of the maximum
 * backlog was present.
 */
const minBacklogShare = 0.5
/** Standard deviations of the arrivals by which the answers must fall short. */
const minStandardErrors = 2
const slices = 4
const minDispersion = 0.1

/**
 * Finds the span in which at least half of the maximum backlog was present. Undefined where the
 * answers kept up with the arrivals, but for chance.
 */
function findOverloadPhase(
  { sentMs, latencyMs, stream }: LoadRun,
  rateRps: number,
): OverloadPhase | undefined {
  const staysMs = stream?.latenciesMs.e2e ?? latencyMs
  const answered = [...sentMs.keys()].filter((i) => !Number.isNaN(staysMs[i]!))
  const arrivals = answered.map((i) => ({ atMs: sentMs[i]!, step: 1 }))
  const departures = answered.map((i) => ({ atMs: sentMs[i]! + staysMs[i]!, step: -1 }))
  const events = [...arrivals, ...departures].sort((a, b) => a.atMs - b.atMs)
  let inSystem = 0
  const counts = events.map(({ step }) => {
    inSystem += step
    return inSystem
  })
  const minBacklog = minBacklogShare * max([0, ...counts])
  const first = counts.findIndex((count) => count >= minBacklog)
  if (first < 0) return undefined
  const [fromMs, untilMs] = [
    events[first]!.atMs,
    events[counts.findLastIndex((count) => count >= minBacklog)]!.atMs,
  ]
  // The span runs from one answer to another: batch answers come together, and a span that begins
  // between two would hold part of a batch.
  const departuresMs = departures
    .map(({ atMs }) => atMs)
    .filter((atMs) => atMs > fromMs && atMs <= untilMs)
  const beginMs = min([Number.POSITIVE_INFINITY, ...departuresMs])
  const seconds = (max([beginMs, ...departuresMs]) - beginMs) / 1000
  const leftMs = departuresMs.filter((atMs) => atMs > beginMs).map((atMs) => atMs - beginMs)
  const answers = leftMs.length
  if (
    answers < minRequests ||
    rateRps * seconds - answers <= minStandardErrors * Math.sqrt(rateRps * seconds)
  )
    return undefined
  const bySlice = new Array<number>(slices).fill(0)
  for (const ms of leftMs)
    bySlice[Math.min(slices, Math.ceil((slices * ms) / 1000 / seconds)) - 1]!++
  return {
    answers,
    seconds,
    dispersion: Math.max(minDispersion, sampleVariance(bySlice) / mean(bySlice)),
  }
}

/**
 * Throughput of a server that fell behind, over all windows, with its relative standard error.
 * Undefined where it always kept up.
 */
export function estimateOverloadThroughput(
  windows: readonly ObservedWindow[],
): { readonly rps: number; readonly relativeError: number } | undefined {
  const overload = windows.flatMap((window) => window.overload ?? [])
  if (overload.length === 0) return undefined
  const sum = (of: (one: OverloadPhase) => number) =>
    overload.reduce((total, one) => total + of(one), 0)
  const answers = sum((one) => one.answers)
  return {
    rps: answers / sum(({ seconds }) => seconds),
    relativeError: Math.sqrt(sum((one) => one.answers * one.dispersion)) / answers,
  }
}

/**
 * Factors on the steepness 1 + C t of a single worker with exponential services. Bursts are
 * flatter, constant services steeper, and limits on other latencies than waiting are cliffs.
 */
const steepnessFactors = [0.5, 1, 2, 4, 16, 64, 256]
const gridSize = 400
/** Stands for an allowed share of zero. */
const minAllowedShare = 1e-4
/** No probability is smaller than this, as the curve is only a model. */
const lnMinProbability = Math.log(1e-3)
const gridReach = 4
/**
 * Smallest share of the limit left for waiting. Where a single answer takes nearly all of it,
 * nothing is known about the rest.
 */
const minWaitShare = 0.05
/** Quadrature points for the overload throughput, in standard errors. */
const throughputDeviations = [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2]
const minDensity = 1e-9
/**
 * Standard deviation of ln of the heavy-traffic factor; smallest idle share at the capacity;
 * probability that something other than waiting limits it.
 */
const [lnFactorSd, minIdleShare, otherLimitProbability] = [0.6, 0.005, 0.15]

/** Median and 90 % interval of the capacity, requests per second. */
export interface JointCapacity {
  readonly median: number
  readonly ci90: readonly [number, number]
}

/**
 * Estimates the capacity; with classes of requests, the lowest of theirs. Throws without windows.
 * @param idleMs latency of a request that does not wait, as the SLO counts it
 */
export function estimateJointCapacity(
  windows: readonly ObservedWindow[],
  slo: Slo,
  unloadedMs: number,
): JointCapacity {
  const names = [...new Set(windows.flatMap(({ classes = {} }) => Object.keys(classes)))]
  if (names.length === 0) return estimateCapacity(windows, slo, unloadedMs)
  const each = names.map((name) => {
    const own = windows.map((window) => ({
      ...window,
      ...(window.classes?.[name] ?? { nEff: 0, over: 0 }),
    }))
    // Waiting is measured against the limit of the class.
    const limitMs = selectLimits(resolveLimits(slo), name)[0]?.limitMs ?? slo.limitMs
    return estimateCapacity(own, { ...slo, limitMs }, (unloadedMs * limitMs) / slo.limitMs)
  })
  const lowest = (of: (one: JointCapacity) => number) => Math.min(...each.map(of))
  return {
    median: lowest(({ median }) => median),
    ci90: [lowest(({ ci90 }) => ci90[0]), lowest(({ ci90 }) => ci90[1])],
  }
}

/** Estimates the capacity for the requests whose violations the windows hold. */
function estimateCapacity(
  windows: readonly ObservedWindow[],
  slo: Pick<Slo, 'percentile' | 'limitMs'>,
  unloadedMs: number,
): JointCapacity {
  const rates = windows.map(({ rateRps }) => rateRps)
  const [low, high] = [
    Math.log(Math.min(...rates) / gridReach),
    Math.log(Math.max(...rates) * gridReach),
  ]
  const capacities = Array.from({ length: gridSize }, (_, i) =>
    Math.exp(low + ((high - low) * i) / (gridSize - 1)),
  )
  const served = estimateOverloadThroughput(windows)
  const allowed = Math.max(minAllowedShare, 1 - slo.percentile)
  const known = windows.map((window) =>
    served === undefined
      ? window
      : { ...window, ...discountCorrelation(window, served.rps, allowed) },
  )
  const lnAllowedMet = Math.log1p(-allowed)
  const waitS = Math.max(minWaitShare * slo.limitMs, slo.limitMs - unloadedMs) / 1000
  const logs = capacities.map((capacity) => {
    const density =
      served &&
      averageOverThroughput(served, (rps) => computeCapacityDensity(capacity, rps, waitS, allowed))
    const lnPrior = density === undefined ? 0 : Math.log(density + minDensity)
    return steepnessFactors.map((factor) => {
      const s = factor * (1 + capacity * waitS)
      return known.reduce((sum, { rateRps, nEff, over }) => {
        const lnMet = lnAllowedMet * Math.exp(Math.min(50, s * (rateRps / capacity - 1)))
        const lnViolated = Math.max(lnMinProbability, Math.log(-Math.expm1(lnMet)))
        return sum + nEff * ((1 - over) * Math.max(lnMinProbability, lnMet) + over * lnViolated)
      }, lnPrior)
    })
  })
  const maxLog = Math.max(...logs.flat())
  const weights = logs.map((each) => each.reduce((sum, log) => sum + Math.exp(log - maxLog), 0))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const quantile = (share: number) => {
    let sum = 0
    return capacities.find((_, i) => {
      sum += weights[i]!
      return sum >= share * total
    })!
  }
  return { median: quantile(0.5), ci90: [quantile(0.05), quantile(0.95)] }
}

/** Mean of a function over the uncertain throughput. */
function averageOverThroughput(
  { rps, relativeError }: { readonly rps: number; readonly relativeError: number },
  of: (rps: number) => number,
): number {
  const weighed = throughputDeviations.map(
    (z) => [Math.exp(-0.5 * z * z), of(rps * Math.exp(z * relativeError))] as const,
  )
  return (
    weighed.reduce((sum, [weight, value]) => sum + weight * value, 0) /
    weighed.reduce((sum, [weight]) => sum + weight, 0)
  )
}

/**
 * Density of ln capacity given the overload throughput. Waits reach the limit at a heavy-traffic
 * utilization, up to a log-normal factor on the idle share. With a small probability something else
 * limits the capacity, which is then uniform below.
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
  const zScore = Math.log(idleShare / idleShareAtLimit) / lnFactorSd
  const slope = (1 - idleShare) / idleShare / lnFactorSd
  const waitDensity =
    capacity > servedRps
      ? 0
      : ((1 - otherLimitProbability) * slope * Math.exp(-0.5 * zScore ** 2)) /
        Math.sqrt(2 * Math.PI)
  const otherDensity =
    capacity > servedRps * (1 - idleShareAtLimit)
      ? 0
      : otherLimitProbability / Math.log(2 * gridReach)
  return waitDensity + otherDensity
}

/**
 * Discounts a window by the relaxation time of its queue, 1 / (µ (1 - utilization)²). At rates
 * beyond µ, all requests of a long window are late.
 */
function discountCorrelation(
  { rateRps, seconds, nEff, over }: ObservedWindow,
  servedRps: number,
  allowed: number,
): Pick<ObservedWindow, 'nEff' | 'over'> {
  const utilization = rateRps / servedRps
  if (utilization >= 1) return { nEff: over > allowed ? Math.min(1, nEff) : 0, over: 1 }
  const forgetsS = 1 / (servedRps * (1 - utilization) ** 2)
  return { nEff: Math.min(nEff, seconds / (2 * forgetsS)), over }
}
