/**
 * Posterior of the capacity given windows of open load, by way of the slowness of the queue model.
 *
 * The model is not exactly the server, so it has one free parameter: its slowness, a factor on the
 * duration of every step. At each slowness the model is simulated under the observed arrivals. The
 * simulated number of requests over the limit is compared with the observed one. The arrivals act
 * as a control variate: their randomness, the largest part of the noise of a short window, cancels.
 */
import { gammaln, sum } from 'simple-statistics'
import type { Capacity, IntervalAdjustment } from '../../model/measurement.ts'
import type { Slo } from '../../model/slo.ts'
import { createUniform } from '../../seeded-random.ts'
import { computeMoments } from '../../statistics/moments.ts'
import { overlapsAny } from '../host-interference.ts'
import { joinServiceLogs, type ObservedRun, type ServiceLog } from '../service-log/service-log.ts'
import { computeModelCapacities, shrinkSimulationNoise } from './model-capacity.ts'
import {
  type Outage,
  replayOutages,
  type SeparatedOutages,
  sampleOutageRates,
  separateOutages,
} from './outages.ts'
import {
  bootstrap,
  buildQueueModel,
  computeSaturation,
  computeSaturationError,
  estimateMaxBatch,
  isServiceSample,
  type QueueModel,
  simulate,
} from './queue-model.ts'
import type { CalibratedDiscipline } from './service-discipline.ts'

/** The part of an open window that is compared with the model. */
interface ComparedWindow {
  readonly arrivalsMs: Float64Array
  /** By request: 1 where it counts, 0 where host interference overlaps it. */
  readonly counts: Uint8Array
  /** Requests that count and failed or exceeded the limit. */
  readonly violations: number
  readonly failed: number
  readonly outages: readonly Outage[]
}

/** Median and 90 % interval of the capacity, and properties of the model behind them. */
export interface CapacityPosterior extends Omit<Capacity, 'bounds'> {
  /**
   * The model refuses requests as the server does once its system is full, so the estimate includes
   * failures.
   */
  readonly refusesWhenFull: boolean
  /**
   * Rare outages were observed. Their number decides the capacity, so the search uses its whole
   * budget.
   */
  readonly hasOutages: boolean
  /** The median was capped: the model serves far more than any observed rate. */
  readonly isCapped?: boolean
  /** Rules that changed the interval of the posterior, in their order. */
  readonly adjustments?: readonly IntervalAdjustment[]
  /** Throughput of the model when requests queue without end, per second. */
  readonly saturationRps: number
  /** Relative standard error of the saturation for a single answer; for n answers 1 / √n of it. */
  readonly saturationError: number
  /** Posterior probability of a capacity below this rate. */
  computeProbabilityBelow(rateRps: number): number
}

/** Slownesses at which the model is simulated: 17 steps of 4 %, from 0.73 to 1.38. */
const slownessGrid = Float64Array.from({ length: 17 }, (_, i) => Math.exp((i - 8) * 0.04))
/** Points of the refined grid for each interval of the slowness grid. */
const refinementFactor = 5
/** Smallest share of requests that a simulation can bound. */
const minAllowedShare = 1e-4
/** Slownesses whose log weight lies this far below the maximum are ignored: 1 in 8,000. */
const maxLogWeightGap = 9
/**
 * Outages that a simulation should contain: with few, their number dominates the noise of the
 * capacity.
 */
const targetOutages = 100
/** Longest simulation for that purpose, as a multiple of the usual length. */
const maxOutageRunFactor = 8
/**
 * Requests of a window that are compared with the model, from its start: there both queues are
 * empty.
 */
const maxRequestsPerWindow = 8000

/**
 * Computes the log prior density of ln slowness: a mixture of two normals, whose standard
 * deviations are once and three times the model discrepancy, and of a wide normal for models that
 * may be wrong.
 */
const computeLogSlownessPrior = (logSlowness: number, sd: number, widePriorShare: number) =>
  Math.log(
    (1 - widePriorShare) *
      (0.75 * computeNormalDensity(logSlowness, sd) +
        0.25 * computeNormalDensity(logSlowness, 3 * sd)) +
      widePriorShare * computeNormalDensity(logSlowness, widePriorSd),
  )
/** Standard deviation of the wide component. */
const widePriorSd = 0.2
/**
 * Share of overtaking requests from which the order of service counts as unknown. The model may
 * then serve in another order than the server, so the prior of the slowness gets the wide
 * component.
 */
const maxOvertakingShare = 0.1
/** Weight of the wide component in that case. */
const overtakingWidePriorShare = 0.3
const computeNormalDensity = (x: number, sd: number) => Math.exp(-0.5 * (x / sd) ** 2) / sd

/** Length and number of simulations, a trade-off of simulation noise and computing time. */
export interface SimulationBudget {
  /** Requests of a simulation. */
  readonly requests: number
  /** Requests of a simulation near saturation, where queues take longest to become stationary. */
  readonly maxRequests: number
  /** Bootstrap samples of the model, each with its own simulations. */
  readonly replicates: number
}

/**
 * Estimates the posterior of the capacity. The runs of open load calibrate the queue model and are
 * then compared with it. Deterministic in the seed. Throws a RangeError when no run has a service
 * step.
 * @param systemCapacity number of requests in the system from which the server refuses
 * @param discipline discipline that fits, whose service times replace the service logs
 * @param loops service logs of the closed loops, which show the largest batch
 */
export function estimatePosterior(
  runs: readonly ObservedRun[],
  slo: Slo,
  { requests, maxRequests, replicates }: SimulationBudget,
  seed: number,
  systemCapacity?: number,
  discipline?: CalibratedDiscipline,
  loops: readonly ServiceLog[] = [],
): CapacityPosterior {
  const uniform = createUniform(seed)
  const { model, outages, typicalLogs, outageProbability } = calibrate(
    runs,
    systemCapacity,
    discipline,
    loops,
  )
  const windows = runs.map((run, i) => prepareWindow(run, slo, outages[i]!))
  // Full-queue refusals are part of the model; other failures are a constant share.
  const failedShare = systemCapacity === undefined ? computeFailedShare(windows) : 0
  const outageCount = sum(outages.map((outagesOfRun) => outagesOfRun.length))
  // Where every service time is known, or there are outages, the largest error is that of the
  // sample, not of the model. More bootstrap samples represent it better.
  const modelCount =
    outageCount > 0 || (isServiceSample(model) && isVariable(model.log.tookMs))
      ? 2 * replicates
      : replicates
  const models = Array.from({ length: modelCount }, () => bootstrap(model, uniform))
  const modelsWithOutages = Math.ceil(outageProbability * modelCount)
  const outageRates = sampleOutageRates(typicalLogs, outages, modelsWithOutages, uniform)
  // The discrepancy enters twice: in the prior of the slowness, which the windows correct, and as
  // an error of the capacity at the right slowness, which they do not correct.
  const discrepancySd = computeDiscrepancySd(model)
  // The model starts after the overhead, which leaves less of the limit.
  const limitMs = slo.limitMs - (discipline?.overheadMs ?? 0)
  const { slownesses, weights } = weighSlownesses(
    computeSlownessLogLikelihoods(models, windows, limitMs, failedShare, seed),
    discrepancySd,
    hasUnknownOrder(model) ? overtakingWidePriorShare : 0,
  )
  // Rare outages are few in a simulation too, so it must be longer to contain enough of them.
  const served = sum(typicalLogs.map((log) => sum([...log.departed])))
  const outageRunRequests = Math.min(
    maxOutageRunFactor * requests,
    Math.ceil((targetOutages * served) / outageCount),
  )
  const runRequests = outageCount > 0 ? Math.max(requests, outageRunRequests) : requests
  const capacities = models.map((replicate, r) => {
    const query = {
      model: replicate,
      outages: outageRates[r],
      slownesses,
      limitMs,
      allowed: Math.max(minAllowedShare, 1 - slo.percentile - failedShare),
      allowedFailed: Math.max(minAllowedShare, slo.maxErrorRate),
      seed: seed + 101 * r,
    }
    const { rps, simulationVariance } = computeModelCapacities(
      query,
      runRequests,
      Math.max(runRequests, maxRequests),
    )
    return { logs: refine(rps.map(Math.log)), simulationVariance: refine(simulationVariance) }
  })
  const logCapacities = shrinkSimulationNoise(capacities, weights)
  return {
    ...summariseParticles(weighParticles(models, logCapacities, weights, discrepancySd)),
    refusesWhenFull: systemCapacity !== undefined,
    hasOutages: outageRates[0] !== undefined,
    saturationRps: computeSaturation(model),
    saturationError: computeSaturationError(model),
  }
}

/** The queue model of a server, calibrated on steps without outages, and the outages themselves. */
interface Calibration {
  readonly model: QueueModel
  /** Outages of each run, and of each closed loop behind the model. */
  readonly outages: SeparatedOutages['outages']
  /** The logs without their outages: the time over which the outage rate is taken. */
  readonly typicalLogs: readonly ServiceLog[]
  /** Probability that the outages belong to the server. */
  readonly outageProbability: number
}

function calibrate(
  runs: readonly ObservedRun[],
  systemCapacity: number | undefined,
  discipline: CalibratedDiscipline | undefined,
  loops: readonly ServiceLog[],
): Calibration {
  const logs = discipline && [...discipline.windows, ...discipline.loops]
  const { typical, outages } = separateOutages(logs ?? runs.map(({ log }) => log))
  return {
    model: buildQueueModel(joinServiceLogs([...typical]), {
      discipline,
      systemCapacity,
      largestLoopBatch: estimateMaxBatch(loops),
    }),
    outages,
    typicalLogs: typical,
    outageProbability: computeOutageProbability(typical, outages, runs.length),
  }
}

/**
 * Computes the probability that outages belong to the server: 1 where windows had outages as well.
 * Outages of closed loops alone may stem from a cold server or a busy generator. The probability
 * then starts from even odds, weighed by the probability that all of them fell on loops by chance.
 * @param windows number of windows; the logs after them are those of closed loops
 */
function computeOutageProbability(
  typical: readonly ServiceLog[],
  outages: SeparatedOutages['outages'],
  windows: number,
): number {
  const count = sum(outages.map((outagesOfRun) => outagesOfRun.length))
  if (count === 0 || outages.slice(0, windows).some((outagesOfRun) => outagesOfRun.length > 0))
    return 1
  const countSteps = (logs: readonly ServiceLog[]) => sum(logs.map(({ tookMs }) => tookMs.length))
  const byChance = (countSteps(typical.slice(windows)) / countSteps(typical)) ** count
  return byChance / (1 + byChance)
}

function computeFailedShare(windows: readonly ComparedWindow[]): number {
  const sent = windows.reduce((sum, w) => sum + w.arrivalsMs.length, 0)
  return windows.reduce((sum, w) => sum + w.failed, 0) / Math.max(1, sent)
}

/**
 * Computes posterior weights on the refined grid, restricted to slownesses of relevant weight and
 * their neighbours. The slownesses returned are those of the original grid.
 */
function weighSlownesses(
  logLikelihoods: Float64Array,
  discrepancySd: number,
  widePriorShare: number,
): { readonly slownesses: Float64Array; readonly weights: Float64Array } {
  const addPrior = (logs: Float64Array, logSlowness: Float64Array) =>
    logs.map(
      (log, i) => log + computeLogSlownessPrior(logSlowness[i]!, discrepancySd, widePriorShare),
    )
  const logWeights = addPrior(logLikelihoods, slownessGrid.map(Math.log))
  const minLogWeight = Math.max(...logWeights) - maxLogWeightGap
  const from = Math.max(0, logWeights.findIndex((log) => log > minLogWeight) - 1)
  const to = Math.min(logWeights.length, logWeights.findLastIndex((log) => log > minLogWeight) + 2)
  const slownesses = slownessGrid.slice(from, to)
  const weights = normaliseWeights(
    addPrior(refine(logLikelihoods.slice(from, to)), refine(slownesses.map(Math.log))),
  )
  return { slownesses, weights }
}

/** Whether requests overtake one another in an order that the model may not reproduce. */
const hasUnknownOrder = (model: QueueModel): boolean =>
  !model.lastComeFirst && computeOvertakingShare(model) >= maxOvertakingShare

/** Slownesses of a smaller posterior weight are left out: together at most 1 in 10,000. */
const minParticleWeight = 1e-6

/** A capacity with its posterior weight. */
interface Particle {
  readonly rps: number
  readonly weight: number
}

/**
 * Combines the capacities of each model and slowness with the model discrepancy into weighted
 * particles. None exceeds the saturation of its model.
 */
function weighParticles(
  models: readonly QueueModel[],
  logCapacities: readonly Float64Array[],
  weights: Float64Array,
  discrepancySd: number,
): Particle[] {
  const particles: Particle[] = []
  for (const [r, model] of models.entries()) {
    // Durations of concurrent batches are inferred, so the discrepancy may also raise the
    // saturation.
    const isConcurrent = servesConcurrentBatches(model)
    const maxRps = computeSaturation(model)
    for (const [i, weight] of weights.entries()) {
      if (weight < minParticleWeight) continue
      for (const { offset, share } of discretiseDiscrepancy(discrepancySd))
        particles.push({
          rps: Math.min(
            maxRps * (isConcurrent ? Math.exp(Math.max(0, offset)) : 1),
            Math.exp(logCapacities[r]![i]! + offset),
          ),
          weight: (weight * share) / models.length,
        })
    }
  }
  return particles
}

/** Whether the standard deviation exceeds 5 % of the mean. */
function isVariable(values: readonly number[]): boolean {
  const { mean, variance } = computeMoments(values)
  return variance > (0.05 * mean) ** 2
}

const minDiscrepancySd = 0.005
const concurrentDiscrepancySd = 0.008

/**
 * Computes the standard deviation of the model discrepancy in ln capacity, which no amount of load
 * reduces. It is 0.5 %; 0.8 % for concurrent batches (two simultaneous departures may look like
 * one). Overtaking adds up to 5 %, in proportion to its share. Batches whose answers leave one
 * after another add up to 6 %, in proportion to the share of their duration that this takes. A
 * server that takes one step at a time is described completely by its service log. Set on the bench
 * of virtual servers with known capacities (`npm run bench:profiler`).
 */
function computeDiscrepancySd(model: QueueModel): number {
  const { log } = model
  const answerSpreadShare = sum(log.spreadMs) / sum(log.tookMs)
  const baseSd = servesConcurrentBatches(model) ? concurrentDiscrepancySd : minDiscrepancySd
  return baseSd + 0.05 * computeOvertakingShare(model) + 0.06 * answerSpreadShare
}

/** Whether several batches are served at once. */
const servesConcurrentBatches = ({ discipline }: QueueModel): boolean =>
  discipline !== undefined && discipline.workers > 1 && discipline.maxBatch > 1

/** Computes the share of steps in which a request departs before an older one. */
const computeOvertakingShare = ({ log }: QueueModel): number =>
  log.rank.filter((rank) => rank > 0).length / log.rank.length

/** Discretises the model discrepancy, normal: offsets of ln capacity and their probabilities. */
function discretiseDiscrepancy(sd: number): { offset: number; share: number }[] {
  const nodes = [-2, -1, 0, 1, 2]
  const total = sum(nodes.map((z) => Math.exp(-0.5 * z * z)))
  return nodes.map((z) => ({ offset: z * sd, share: Math.exp(-0.5 * z * z) / total }))
}

/** Selects the part of a window that is compared with the model, and counts its violations. */
function prepareWindow(
  { run, disturbed }: ObservedRun,
  slo: Slo,
  outages: readonly Outage[],
): ComparedWindow {
  // In a window that was cut short, requests sent less than a limit before its end are undecided.
  const lastMs = run.cutMs === undefined ? Number.POSITIVE_INFINITY : run.cutMs - slo.limitMs
  const firstUndecided = run.sentMs.findIndex((at) => at > lastMs)
  const n = Math.min(maxRequestsPerWindow, firstUndecided < 0 ? run.sentMs.length : firstUndecided)
  let violations = 0
  let failed = 0
  const counts = new Uint8Array(n)
  for (let i = 0; i < n; i++) {
    const sentMs = run.sentMs[i]!
    if (overlapsAny(disturbed, sentMs, sentMs + (run.latencyMs[i]! || 0))) continue
    counts[i] = 1
    if (!(run.latencyMs[i]! <= slo.limitMs)) violations++ // NaN, a failure, included.
    if (Number.isNaN(run.latencyMs[i]!)) failed++
  }
  return { arrivalsMs: run.sentMs.slice(0, n), counts, violations, failed, outages }
}

/**
 * Interpolates linearly between the points of the slowness grid, as a steep knee is narrower than
 * the grid.
 */
function refine(values: Float64Array): Float64Array {
  return Float64Array.from({ length: (values.length - 1) * refinementFactor + 1 }, (_, i) => {
    const left = Math.min(values.length - 2, Math.floor(i / refinementFactor))
    const share = i / refinementFactor - left
    return values[left]! * (1 - share) + values[left + 1]! * share
  })
}

function normaliseWeights(logWeights: Float64Array): Float64Array {
  const maxLogWeight = Math.max(...logWeights)
  const weights = logWeights.map((log) => Math.exp(log - maxLogWeight))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
}

/** Computes the log likelihood of each slowness of the grid, up to a constant. */
function computeSlownessLogLikelihoods(
  models: readonly QueueModel[],
  windows: readonly ComparedWindow[],
  limitMs: number,
  failedShare: number,
  seed: number,
): Float64Array {
  const logWeights = new Float64Array(slownessGrid.length)
  for (const window of windows) {
    const n = window.arrivalsMs.length
    if (n === 0) continue
    const latencyMs = new Float64Array(n)
    for (const [i, slowness] of slownessGrid.entries()) {
      let sum = 0
      let squares = 0
      for (const [r, model] of models.entries()) {
        simulate(
          model,
          window.arrivalsMs,
          slowness,
          createUniform(seed + 31 * r),
          latencyMs,
          replayOutages(window.outages),
        )
        let violations = failedShare * n
        for (let j = 0; j < n; j++) if (latencyMs[j]! > limitMs) violations += window.counts[j]!
        sum += violations
        squares += violations * violations
      }
      // Half a request is added, as a mean of 0 would exclude any observed one.
      const mean = (sum + 0.5) / models.length
      // Sample variance between the bootstrapped models.
      const variance =
        Math.max(0, squares / models.length - (sum / models.length) ** 2) *
        (models.length / (models.length - 1))
      // Variance of the observed count around the simulated mean:
      // 1.2 × variance: calibration error of the model, and the error of a mean of few models;
      // mean: Poisson noise of the count itself;
      // 0.25: keeps counts near zero from deciding, and the negative binomial overdispersed;
      // (5 % of the mean)²: discrepancy between model and server.
      logWeights[i]! += computeLogNegativeBinomial(
        window.violations,
        mean,
        1.2 * variance + mean + 0.25 + (0.05 * mean) ** 2,
      )
    }
  }
  return logWeights
}

/**
 * Computes the log probability of a count under a negative binomial of this mean and variance, up
 * to a constant in the count.
 */
function computeLogNegativeBinomial(count: number, mean: number, variance: number): number {
  const size = (mean * mean) / (variance - mean)
  return (
    gammaln(count + size) -
    gammaln(size) +
    size * Math.log(size / (size + mean)) +
    count * Math.log(mean / (size + mean))
  )
}

function summariseParticles(
  particles: Particle[],
): Omit<CapacityPosterior, 'refusesWhenFull' | 'hasOutages' | 'saturationRps' | 'saturationError'> {
  particles.sort((a, b) => a.rps - b.rps)
  const computeProbabilityBelow = (rateRps: number) =>
    particles.reduce((sum, { rps, weight }) => (rps < rateRps ? sum + weight : sum), 0)
  /** Finds a quantile of the particles; each is distributed evenly down to its lower neighbour. */
  const findQuantile = (probability: number): number => {
    let sum = 0
    for (const [i, { rps, weight }] of particles.entries()) {
      if (sum + weight >= probability) {
        const before = particles[i - 1]?.rps ?? rps
        return before + ((probability - sum) / weight) * (rps - before)
      }
      sum += weight
    }
    return particles.at(-1)!.rps
  }
  return {
    capacityRps: findQuantile(0.5),
    capacityCi90Rps: [findQuantile(0.05), findQuantile(0.95)],
    computeProbabilityBelow,
  }
}
