/**
 * Queue model of a server, calibrated on its service log: each simulated step is sampled from the
 * observed ones at the same queue length.
 *
 * A step leads from one departure to the next. It is recorded with the number of requests k present
 * at its start, its duration, its number of departures (a batch), and the arrival rank of the first
 * departing request. This is the embedded Markov chain of an M/G/1 queue and its batch variants
 * (Kendall 1953; Bailey 1954), estimated without assuming a service distribution. For several
 * workers or processor sharing it is an approximation. The model can be simulated under any load
 * for any time, at no cost to the server.
 */
import { sum } from 'simple-statistics'
import type { Uniform } from '../../seeded-random.ts'
import { computeMoments } from '../../statistics/moments.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { type BatchLine, evaluateLine, fitLine, simulateBulkService } from './bulk-service.ts'
import type { OutageProcess } from './outages.ts'
import { binByQueueLength } from './queue-length-bins.ts'
import type { ServiceDiscipline } from './service-discipline.ts'

/** Service steps binned by queue length; neighbouring bins are merged where they do not differ. */
export interface QueueModel {
  readonly log: ServiceLog
  /** Bin of each queue length; the last one also serves longer queues. */
  readonly binOf: Int32Array
  /** Indices into `log` of the steps of each bin, by ascending queue length. */
  readonly bins: readonly Int32Array[]
  readonly gated?: GatedService
  /**
   * Service time over batch size, for a model with a discipline. It transfers a service observed at
   * one size to another.
   */
  readonly line?: BatchLine
  /**
   * Last come, first served: a step removes the request with as many younger ones behind it as were
   * observed. Otherwise the request with as many older ones ahead of it.
   */
  readonly lastComeFirst?: boolean
  /**
   * Workers serve single requests or batches; the steps are their service times. Absent: steps
   * follow one another.
   */
  readonly discipline?: ServiceDiscipline
  /** System capacity K: further requests are refused. Absent: unlimited. */
  readonly systemCapacity?: number
}

/** Identified properties of the server, in addition to its service log. */
interface ModelOptions extends Pick<QueueModel, 'discipline' | 'systemCapacity'> {
  /** Largest batch of the closed loops. Default 0: unknown. */
  readonly largestLoopBatch?: number
}

/**
 * Gated service: each step takes all requests present, up to `maxBatch`. A step observed at one
 * queue length is transferred to another by its number of requests.
 */
interface GatedService {
  readonly maxBatch: number
  /** Time by which one more request lengthens a step, ms. */
  readonly msEach: number
}

/**
 * A server is gated where at least this share of its steps takes all requests present. A step may
 * leave `maxLeftBehindShare` of them behind: cores may still be decoding the last ones.
 */
const minGatedShare = 0.8
const maxLeftBehindShare = 0.2
/** Steps of a kind that a decision about the server needs. Assumed. */
const minStepsToFit = 12

/**
 * Fits gated service. Undefined for servers that serve one by one or take only some of the
 * requests.
 * @param largestLoopBatch largest batch of the closed loops, 0 if unknown
 */
function fitGatedService(log: ServiceLog, largestLoopBatch: number): GatedService | undefined {
  const maxObserved = log.departed.reduce((a, b) => Math.max(a, b), 0)
  /** Steps that took all requests present. */
  const steps = [...log.present.keys()].filter((i) => hasTakenAll(log, i, maxObserved))
  if (
    maxObserved < 2 ||
    steps.length < minStepsToFit ||
    steps.length < minGatedShare * log.present.length
  )
    return undefined
  const [ms, size] = [computeMoments(log.tookMs, steps), computeMoments(log.departed, steps)]
  const covariance =
    steps.reduce((sum, i) => sum + (log.tookMs[i]! - ms.mean) * (log.departed[i]! - size.mean), 0) /
    steps.length
  return {
    maxBatch: Math.max(maxObserved, largestLoopBatch),
    msEach: size.variance > 0 ? Math.max(0, covariance / size.variance) : 0,
  }
}

/**
 * Minimum observations of a batch size. A single one may be two batches in quick succession.
 */
const minBatchRepeats = 3

/**
 * Estimates the largest batch from closed loops, as open windows seldom fill a batch that takes
 * long. It is the largest repeatedly observed size. Where longer queues were nearly always served
 * whole, no limit was observed, and it is the longest of these queues.
 */
export function estimateMaxBatch(loops: readonly ServiceLog[]): number {
  const descending = loops.flatMap(({ departed }) => departed).sort((a, b) => b - a)
  const largestRepeated =
    descending.find((size, i) => size === descending[i + minBatchRepeats - 1]) ?? 0
  const longerQueues = loops.flatMap(({ present, departed }) =>
    present.flatMap((count, i) =>
      count > largestRepeated ? [{ queue: count, servedWhole: departed[i] === count }] : [],
    ),
  )
  const servedWhole = longerQueues.filter((step) => step.servedWhole)
  return servedWhole.length > 0 && servedWhole.length >= minGatedShare * longerQueues.length
    ? Math.max(...servedWhole.map(({ queue }) => queue))
    : largestRepeated
}

/** Maximum ratio of two variances at which the first is much smaller than the second. Assumed. */
const maxVarianceRatio = 0.5

/**
 * Whether the server is last come, first served: the number of younger requests behind a departing
 * one varies much less than the number of older ones ahead of it.
 */
function isLastComeFirstServed({ present, rank, departed }: ServiceLog): boolean {
  const comparedSteps = [...present.keys()].filter((i) => present[i]! > 2 && departed[i] === 1)
  const youngerCounts = present.map((k, i) => k - rank[i]!)
  return (
    comparedSteps.length >= minStepsToFit &&
    computeMoments(youngerCounts, comparedSteps).variance <
      maxVarianceRatio * computeMoments(rank, comparedSteps).variance
  )
}

/**
 * Whether the server takes all requests present as a batch, up to a maximum, in most steps with
 * several requests.
 */
export function isBatchServer(log: ServiceLog): boolean {
  const maxBatch = log.departed.reduce((a, b) => Math.max(a, b), 0)
  const stepsOfSeveral = [...log.present.keys()].filter((i) => log.present[i]! > 1)
  return (
    maxBatch > 1 &&
    stepsOfSeveral.length >= minStepsToFit &&
    stepsOfSeveral.filter((i) => hasTakenAll(log, i, maxBatch)).length >=
      minGatedShare * stepsOfSeveral.length
  )
}

/** Whether a step took all requests present, up to `maxBatch`, or nearly all. */
const hasTakenAll = ({ present, departed }: ServiceLog, i: number, maxBatch: number): boolean =>
  departed[i]! >= (1 - maxLeftBehindShare) * Math.min(present[i]!, maxBatch) &&
  departed[i]! <= Math.min(present[i]!, maxBatch)

/**
 * Factor on the bootstrap variance, by the type of steps. It is larger for departures and batches,
 * which describe the server incompletely.
 */
const bootstrapVarianceFactor = { departures: 2, services: 1.5 } as const

/**
 * Probability that a simulation continues with the next observed step. Consecutive steps are
 * correlated through the state of other workers, which this preserves (stationary bootstrap:
 * Politis and Romano 1994). Runs are five steps long on average.
 */
const continueProbability = 0.8

/** Whether each step is the service time of one request. */
export const isServiceSample = ({ discipline }: Pick<QueueModel, 'discipline'>): boolean =>
  discipline?.maxBatch === 1

/** Builds the queue model of a service log. Throws a RangeError for an empty log. */
export function buildQueueModel(
  log: ServiceLog,
  { largestLoopBatch = 0, ...options }: ModelOptions = {},
): QueueModel {
  if (Math.max(...log.present) < 1) throw new RangeError('no step of the server was observed')
  const line = options.discipline && fitLine(log)
  const comparedColumns = line ? [divideByLine(line, log)] : [log.tookMs, log.departed]
  const { binOf, bins } = binByQueueLength(log, comparedColumns, largestLoopBatch)
  return {
    log,
    binOf,
    bins,
    gated: options.discipline ? undefined : fitGatedService(log, largestLoopBatch),
    line,
    lastComeFirst: isLastComeFirstServed(log),
    ...options,
  }
}

const divideByLine = (line: BatchLine, { tookMs, departed }: ServiceLog): number[] =>
  tookMs.map((ms, i) => ms / evaluateLine(line, departed[i]!))

/**
 * Resamples the steps of a model in blocks, to represent its sampling error (stationary bootstrap:
 * Politis and Romano 1994). It samples fewer steps than were observed (m out of n bootstrap:
 * Bickel, Götze and van Zwet 1997). A few slow steps in hundreds decide the capacity, and a
 * bootstrap of full size would understate the uncertainty. A bin without a resampled step of
 * positive duration keeps its original steps, as it would otherwise serve infinitely fast.
 */
export function bootstrap(model: QueueModel, uniform: Uniform): QueueModel {
  const { log, binOf, bins } = model
  const n = log.present.length
  const resampled: ServiceLog = {
    present: [],
    tookMs: [],
    departed: [],
    rank: [],
    endedMs: [],
    spreadMs: [],
  }
  const add = (i: number) => {
    resampled.present.push(log.present[i]!)
    resampled.tookMs.push(log.tookMs[i]!)
    resampled.departed.push(log.departed[i]!)
    resampled.rank.push(log.rank[i]!)
    resampled.endedMs.push(log.endedMs[i]!)
    resampled.spreadMs.push(log.spreadMs[i]!)
  }
  for (
    let i = Math.floor(uniform() * n);
    resampled.present.length <
    n / bootstrapVarianceFactor[isServiceSample(model) ? 'services' : 'departures'];
    i = uniform() < continueProbability ? (i + 1) % n : Math.floor(uniform() * n)
  )
    add(i)
  const resampledBins: number[][] = bins.map(() => [])
  resampled.present.forEach((k, i) => {
    resampledBins[binOf[k]!]!.push(i)
  })
  for (const [b, bin] of resampledBins.entries()) {
    if (bin.some((i) => resampled.tookMs[i]! > 0)) continue
    for (const i of bins[b]!) {
      bin.push(resampled.present.length)
      add(i)
    }
  }
  return {
    ...model,
    log: resampled,
    bins: resampledBins.map((bin) => Int32Array.from(bin)),
    line: model.discipline && fitLine(resampled),
  }
}

/** Computes the throughput of the model when its queue is always long, per second. */
export function computeSaturation(model: QueueModel): number {
  const { log, bins, gated, discipline } = model
  if (discipline !== undefined) {
    const full = discipline.workers * discipline.maxBatch * bins.at(-1)!.length
    return (1000 * full) / sum(collectFullDurations(model))
  }
  let ms = 0
  let departed = 0
  for (const i of bins.at(-1)!) {
    const batchSize =
      gated !== undefined && hasTakenAll(log, i, gated.maxBatch) ? gated.maxBatch : log.departed[i]!
    ms += log.tookMs[i]! + (gated?.msEach ?? 0) * (batchSize - log.departed[i]!)
    departed += batchSize
  }
  return (1000 * departed) / ms
}

/**
 * Computes the relative standard error of the saturation for a single answer; for n answers it is 1
 * / √n of that. All answers of a batch share one duration, so large batches have a larger error per
 * answer.
 */
export function computeSaturationError(model: QueueModel): number {
  const tookMs = collectFullDurations(model)
  const { mean, variance } = computeMoments(tookMs)
  const answers = (computeSaturation(model) * mean) / 1000 / (model.discipline?.workers ?? 1)
  return (Math.sqrt(variance) / mean) * Math.sqrt(answers)
}

/** Collects the durations of the steps of a saturated queue, ms, with full batches. */
const collectFullDurations = (model: QueueModel): number[] =>
  Array.from(model.bins.at(-1)!, (i) =>
    model.discipline === undefined
      ? model.log.tookMs[i]!
      : transferServiceMs(model, i, model.discipline.maxBatch),
  )

/** Transfers the duration of an observed service to another batch size, ms. */
function transferServiceMs({ log, line }: QueueModel, step: number, size: number): number {
  const tookMs = log.tookMs[step]!
  const observedSize = log.departed[step]!
  return line === undefined
    ? tookMs
    : (tookMs * evaluateLine(line, size)) / evaluateLine(line, observedSize)
}

/**
 * Samples the step that follows another: the next observed step, or any other in the bin.
 * @param bin bin of the queue length
 * @param last index of the step before; -1 for none
 */
function sampleNextStep(
  { log: { present }, binOf, bins }: QueueModel,
  bin: number,
  last: number,
  uniform: Uniform,
): number {
  const next = last + 1
  const mayContinue = last >= 0 && next < present.length && binOf[present[next]!] === bin
  if (mayContinue && uniform() < continueProbability) return next
  const binSteps = bins[bin]!
  return binSteps[Math.floor(uniform() * binSteps.length)]!
}

/**
 * Simulates the latencies of requests under given arrivals (ms, ascending) and writes them to
 * `latencyMs`; Infinity for refused requests. All durations, outages included, are scaled by
 * `slowness`.
 */
export function simulate(
  model: QueueModel,
  arrivalsMs: Float64Array,
  slowness: number,
  uniform: Uniform,
  latencyMs: Float64Array,
  outageProcess: OutageProcess = () => 0,
): void {
  const { binOf, gated, lastComeFirst, systemCapacity = Number.POSITIVE_INFINITY } = model
  if (model.discipline !== undefined) {
    const servedMs = createServiceSampler(model, slowness, uniform, outageProcess)
    const { discipline } = model
    simulateBulkService(discipline, servedMs, slowness, arrivalsMs, systemCapacity, latencyMs)
    return
  }
  const { msEach = 0, maxBatch = 0 } = gated ?? {}
  const { tookMs, departed, rank } = model.log
  const n = arrivalsMs.length
  const queue = new Int32Array(n)
  const maxBinned = binOf.length - 1
  let head = 0
  let tail = 0
  let arrivals = 0
  let now = 0
  let step = -1
  while (true) {
    if (head === tail) {
      if (arrivals === n) return
      now = arrivalsMs[arrivals]!
      queue[tail++] = arrivals++
    }
    const present = tail - head
    step = sampleNextStep(model, binOf[Math.min(present, maxBinned)]!, step, uniform)
    // A gated step leaves as many requests behind as the observed step did.
    const leftBehind = Math.min(model.log.present[step]!, maxBatch) - departed[step]!
    const batchSize =
      maxBatch > 0 && hasTakenAll(model.log, step, maxBatch)
        ? Math.max(1, Math.min(present - leftBehind, maxBatch))
        : Math.min(departed[step]!, present)
    const stepMs = Math.max(0, tookMs[step]! + msEach * (batchSize - departed[step]!))
    now += slowness * (stepMs + outageProcess(now, stepMs))
    const position = lastComeFirst
      ? present - (model.log.present[step]! - rank[step]!)
      : rank[step]!
    const first = Math.max(0, Math.min(position, present - batchSize))
    for (; arrivals < n && arrivalsMs[arrivals]! <= now; arrivals++) {
      if (tail - head < systemCapacity) queue[tail++] = arrivals
      else latencyMs[arrivals] = Number.POSITIVE_INFINITY
    }
    for (let i = 0; i < batchSize; i++) {
      const request = queue[head + first + i]!
      latencyMs[request] = now - arrivalsMs[request]!
    }
    if (first > 0) queue.copyWithin(head + batchSize, head, head + first)
    head += batchSize
  }
}

/** Creates a sampler of service times by batch size, which is called in time order. */
function createServiceSampler(
  model: QueueModel,
  slowness: number,
  uniform: Uniform,
  outageProcess: OutageProcess,
): (size: number, beganMs: number) => number {
  const { binOf } = model
  const maxBinned = binOf.length - 1
  let step = -1
  return (size, beganMs) => {
    step = sampleNextStep(model, binOf[Math.min(size, maxBinned)]!, step, uniform)
    const serviceMs = transferServiceMs(model, step, size)
    return slowness * (serviceMs + outageProcess(beganMs, serviceMs))
  }
}
