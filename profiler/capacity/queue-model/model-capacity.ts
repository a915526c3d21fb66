/** Capacity of a queue model, by long simulations. */
import { createUniform } from '../../seeded-random.ts'
import { type OutageRate, simulateOutages } from './outages.ts'
import { computeSaturation, type QueueModel, simulate } from './queue-model.ts'

/** Number of rates in the coarse and in the fine grid. Assumed. */
const coarseRateCount = 14
const fineRateCount = 6
/** Highest rate of the coarse grid, as a share of the saturation: beyond it, queues only grow. */
const maxRateShare = 1.1
/**
 * Lowest rate of the coarse grid, as a share of the saturation, and two lower ones to try. Servers
 * with rare long services need a lower one. Assumed.
 */
const minRateShares = [0.2, 0.05, 0.0125] as const
/**
 * A lower rate is tried if the share of violations at the lowest one exceeds the allowed share by
 * more than this factor.
 */
const maxFirstViolationFactor = 2
/**
 * No lower rate is tried if that share is larger: even the unloaded latency comes close to the
 * limit. Assumed.
 */
const maxRecoverableShare = 0.1
/** Fewer requests could not show the smallest allowed share, 1 in 10,000. */
const minRequests = 3000
/** Length of the short simulations, as a share of the long ones. Assumed. */
const coarseRequestShare = 1 / 8
/** Requests that are left out at the start, as a share: the queue begins empty. Assumed. */
const warmUpShare = 0.1
/**
 * Added to a count of violations before its logarithm is taken, so that a share of 0 has a finite
 * one, below that of a single violation.
 */
const continuityCorrection = 0.1
/**
 * Higher rates are skipped once the fastest model has this multiple of the allowed violations.
 * Assumed.
 */
const maxViolationFactor = 4
/**
 * Margins of the fine grid in ln rate, below and above the crossings of the coarse grid. The lower
 * one is wider, as short simulations overestimate the capacity. Assumed.
 */
const fineMargins = [0.12, 0.05] as const

/** A queue model and the SLO for which its capacity is sought. */
interface CapacityQuery {
  readonly model: QueueModel
  readonly outages: OutageRate | undefined
  /** Factors on all durations, ascending. */
  readonly slownesses: Float64Array
  readonly limitMs: number
  /** Share of requests that may exceed the limit. */
  readonly allowed: number
  /** Share of requests that may be refused, for a model with a system capacity. */
  readonly allowedFailed: number
  readonly seed: number
}

/** Capacities by slowness. */
interface ModelCapacities {
  readonly rps: Float64Array
  /** Variance of ln capacity by the noise of the simulation. */
  readonly simulationVariance: Float64Array
}

/**
 * Computes the capacity of the model at each slowness by simulation: short runs over a coarse grid
 * of rates, then long ones over a fine grid. A model of slowness s behaves, with time in units of
 * s, as one of slowness 1 under s times the rate and 1/s of the limit. So one simulation serves all
 * slownesses.
 */
export function computeModelCapacities(
  query: CapacityQuery,
  requests: number,
  maxRequests = requests,
): ModelCapacities {
  const { model, slownesses, allowed } = query
  const logSaturation = Math.log(computeSaturation(model))
  const findCrossings = (logRates: Float64Array, logViolationShares: readonly Float64Array[]) =>
    logViolationShares.map((ys) => findCrossing(logRates, ys, Math.log(allowed)).at)
  const coarseRequests = Math.max(minRequests, Math.ceil(requests * coarseRequestShare))
  /** Index of the model as calibrated, slowness 1. */
  const calibratedIndex = Math.max(
    0,
    slownesses.findIndex((slowness) => slowness >= 1),
  )
  let coarseRates = new Float64Array()
  let coarse: readonly Float64Array[] = []
  for (const minShare of minRateShares) {
    coarseRates = spaceEvenly(
      logSaturation + Math.log(minShare),
      logSaturation + Math.log(maxRateShare),
      coarseRateCount,
    )
    coarse = simulateViolationShares(query, coarseRates, coarseRequests).logViolationShares
    const logShareAtLowest = coarse[calibratedIndex]![0]!
    const needsLower =
      logShareAtLowest > Math.log(maxFirstViolationFactor * allowed) &&
      logShareAtLowest < Math.log(maxRecoverableShare)
    if (!needsLower) break
  }
  const coarseCrossings = findCrossings(coarseRates, coarse)
  const fineRates = spaceEvenly(
    Math.min(...coarseCrossings) - fineMargins[0],
    Math.max(...coarseCrossings) + fineMargins[1],
    fineRateCount,
  )
  const fine = simulateViolationShares(
    query,
    fineRates,
    chooseRunLength(Math.exp(Math.max(...coarseCrossings) - logSaturation), requests, maxRequests),
  )
  // Outside the fine grid the coarse results are used, in case the crossing lies there.
  const [low, high] = [fineRates[0]!, fineRates.at(-1)!]
  const below = coarseRates.filter((x) => x < low).length
  const above = coarseRates.filter((x) => x <= high).length
  const mergeGrids = <T extends Float64Array>(a: T, b: T) =>
    Float64Array.from([...a.subarray(0, below), ...b, ...a.subarray(above)])
  const logRates = mergeGrids(coarseRates, fineRates)
  const crossings = coarse.map((ys, s) =>
    findCrossing(logRates, mergeGrids(ys, fine.logViolationShares[s]!), Math.log(allowed)),
  )
  return {
    rps: Float64Array.from(crossings, ({ at }, s) => Math.exp(at) / slownesses[s]!),
    simulationVariance: Float64Array.from(
      crossings,
      ({ slope }, s) => fine.simulationVariance[s]! / slope ** 2,
    ),
  }
}

/**
 * Chooses the length of a simulation. A queue near saturation takes about 1 / (1 − utilization)²
 * services to reach its steady state (relaxation time; Asmussen, Applied Probability and Queues,
 * chapter X), and shorter runs lie mostly below the mean.
 */
const chooseRunLength = (utilization: number, requests: number, maxRequests: number): number =>
  Math.round(
    Math.max(
      requests,
      Math.min(maxRequests, relaxationTimes / Math.max(1e-3, 1 - utilization) ** 2),
    ),
  )
/** Length of a run in relaxation times. Assumed. */
const relaxationTimes = 400

const spaceEvenly = (from: number, to: number, n: number) =>
  Float64Array.from({ length: n }, (_, j) => from + (j * (to - from)) / (n - 1))

/**
 * Batches of the batch-means estimate of the simulation noise. Consecutive requests are correlated,
 * batches this long hardly are. As in statistics/dependence.ts.
 */
const batchCount = 20

/**
 * Simulates the log share of requests over the limit, by slowness and rate. `simulationVariance` is
 * its variance at the rate whose share is nearest to the allowed one, by batch means.
 */
function simulateViolationShares(
  { model, outages, slownesses, limitMs, allowed, allowedFailed, seed }: CapacityQuery,
  logRates: Float64Array,
  requests: number,
): { readonly logViolationShares: Float64Array[]; readonly simulationVariance: Float64Array } {
  /** Poisson arrivals at rate 1; every rate plays them, stretched. */
  const unitArrivals = new Float64Array(requests)
  // Arrivals, services and outages have separate random numbers, the same at every rate.
  const uniform = createUniform(seed + 7)
  let total = 0
  for (let i = 0; i < requests; i++) unitArrivals[i] = total += -Math.log(uniform())
  const arrivals = new Float64Array(requests)
  const latencyMs = new Float64Array(requests)
  const warmUp = Math.floor(requests * warmUpShare)
  const logViolationShares = Array.from(slownesses, () => new Float64Array(logRates.length))
  const nearestDistances = slownesses.map(() => Number.POSITIVE_INFINITY)
  const simulationVariance = new Float64Array(slownesses.length)
  const batchViolations = Array.from(slownesses, () => new Float64Array(batchCount))
  const limitsMs = slownesses.map((slowness) => limitMs / slowness)
  const minLimitMs = limitsMs.at(-1)!
  for (const [j, logRate] of logRates.entries()) {
    const scale = (1000 * requests) / total / Math.exp(logRate)
    for (let i = 0; i < requests; i++) arrivals[i] = unitArrivals[i]! * scale
    simulate(
      model,
      arrivals,
      1,
      createUniform(seed + 11),
      latencyMs,
      simulateOutages(outages, createUniform(seed + 13)),
    )
    for (const counts of batchViolations) counts.fill(0)
    for (let i = warmUp; i < requests; i++) {
      const ms = latencyMs[i]!
      if (ms <= minLimitMs) continue
      const batch = Math.floor((batchCount * (i - warmUp)) / (requests - warmUp))
      for (let s = batchViolations.length - 1; s >= 0 && ms > limitsMs[s]!; s--)
        batchViolations[s]![batch]!++
    }
    const violations = Int32Array.from(batchViolations, (counts) =>
      counts.reduce((total, count) => total + count, 0),
    )
    const refused =
      model.systemCapacity === undefined
        ? 0
        : latencyMs
            .subarray(warmUp)
            .reduce((count, ms) => (ms === Number.POSITIVE_INFINITY ? count + 1 : count), 0)
    // Refusals have their own allowed share; they are scaled to that of violations.
    const includeRefused = (count: number) => Math.max(count, (refused * allowed) / allowedFailed)
    for (const [s, count] of violations.entries()) {
      logViolationShares[s]![j] = Math.log(
        (includeRefused(count) + continuityCorrection) / (requests - warmUp),
      )
      const distance = Math.abs(logViolationShares[s]![j]! - Math.log(allowed))
      if (distance >= nearestDistances[s]! || count === 0) continue
      nearestDistances[s] = distance
      const mean = count / batchCount
      simulationVariance[s] =
        batchViolations[s]!.reduce((total, batch) => total + (batch / mean - 1) ** 2, 0) /
        (batchCount * (batchCount - 1))
    }
    // Even the fastest model is far over the limit. Higher rates keep their initial value 0, the
    // log of a share of 1.
    if (violations[0]! > maxViolationFactor * allowed * requests) break
  }
  return { logViolationShares, simulationVariance }
}

/**
 * Finds where a curve, made monotone, first reaches a level, and its slope there. Where the curve
 * starts above the level, or never reaches it, this is the first or last abscissa with an infinite
 * slope.
 */
function findCrossing(
  xs: Float64Array,
  ys: Float64Array,
  level: number,
): { readonly at: number; readonly slope: number } {
  const slope = Number.POSITIVE_INFINITY
  let highest = Number.NEGATIVE_INFINITY
  for (let i = 0; i < xs.length; i++) {
    const y = Math.max(highest, ys[i]!)
    if (y >= level) {
      if (i === 0) return { at: xs[0]!, slope }
      const share = (level - highest) / (y - highest)
      return {
        at: xs[i - 1]! + share * (xs[i]! - xs[i - 1]!),
        slope: (y - highest) / (xs[i]! - xs[i - 1]!),
      }
    }
    highest = y
  }
  return { at: xs.at(-1)!, slope }
}

/**
 * Shrinks ln capacities of resampled models towards their mean by the share of their variance that
 * is simulation noise. Simulations of 20,000 requests determine a capacity to about 2 %, and that
 * noise is no uncertainty of the server. The noise of the mean remains.
 * @param simulated ln capacities of each model, and the variance of each by simulation noise
 * @param weights posterior weight of each slowness
 */
export function shrinkSimulationNoise(
  simulated: readonly { readonly logs: Float64Array; readonly simulationVariance: Float64Array }[],
  weights: Float64Array,
): Float64Array[] {
  const n = simulated.length
  const means = weights.map(
    (_, i) => simulated.reduce((total, { logs }) => total + logs[i]!, 0) / n,
  )
  let variance = 0
  let simulationVariance = 0
  for (const [i, weight] of weights.entries())
    for (const model of simulated) {
      variance += (weight * (model.logs[i]! - means[i]!) ** 2) / (n - 1)
      simulationVariance += (weight * model.simulationVariance[i]!) / n
    }
  const remainingShare =
    variance > 0
      ? Math.sqrt(
          Math.min(
            1,
            (Math.max(0, variance - simulationVariance) + simulationVariance / n) / variance,
          ),
        )
      : 1
  return simulated.map(({ logs }) =>
    logs.map((log, i) => means[i]! + remainingShare * (log - means[i]!)),
  )
}
