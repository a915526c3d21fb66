/**
 * Queue model of a server, calibrated on its service log: each simulated step is drawn from the
 * observed ones.
 *
 * A step leads from one departure to the next. It is recorded with the number of requests k present
 * at its start, its duration, its number of departures (a batch), and the arrival rank of the first
 * departing request. This is the embedded Markov chain of an M/G/1 queue and its batch variants
 * (Kendall 1953; Bailey 1954), estimated without assuming a service distribution. For several
 * workers or processor sharing it is an approximation. The model can be simulated under any load
 * for any time, at no cost to the server.
 */
import type { Uniform } from '../../seeded-random.ts'
import { indexOfMin } from '../../statistics/index-of-min.ts'
import { computeMoments, type ServiceLog } from '../service-log/service-log.ts'
import {
  type Batching,
  type BatchLine,
  evaluateLine,
  fitLine,
  simulateBatches,
} from './batching.ts'
import type { OutageProcess } from './outages.ts'
import { simulateSharing } from './processor-sharing.ts'
import { binByQueueLength } from './queue-length-bins.ts'
import { maxCoresRps, simulateTwoStages } from './two-stages.ts'

/** Service steps binned by queue length; neighbouring bins are merged where they do not differ. */
export interface QueueModel {
  readonly log: ServiceLog
  /** Bin of each queue length; the last one also serves longer queues. */
  readonly binOf: Int32Array
  /** Indices into `log`. */
  readonly bins: readonly Int32Array[]
  readonly gated?: GatedService
  /**
   * Batch duration over batch size, for a model with `batching`. It transfers a step observed at
   * one size to another.
   */
  readonly line?: BatchLine
  /**
   * Departures are matched by how many younger requests stay, not by how many older ones: last
   * come, first served.
   */
  readonly lastComeFirst?: boolean
  /**
   * Number of workers that serve one request each, in arrival order; the steps are service times.
   * Absent: steps follow one another.
   */
  readonly workers?: number
  /** Workers share all requests (processor-sharing.ts); the steps are the work of each request. */
  readonly sharesCores?: boolean
  /** Workers serve batches; the steps are batch durations by batch size. */
  readonly batching?: Batching
  /** System capacity K: further requests are refused. Absent: unlimited. */
  readonly systemCapacity?: number
}

/** Identified properties of the server, beside its service log. */
interface ModelOptions
  extends Pick<QueueModel, 'workers' | 'sharesCores' | 'batching' | 'systemCapacity'> {
  /** Largest observed batch, in closed loops too. */
  readonly largest?: number
}

/**
 * Gated service: each step takes all requests present, up to `maxBatch`, and one more request
 * lengthens it by `msEach`. This transfers a step observed at one queue length to another.
 */
interface GatedService {
  readonly maxBatch: number
  readonly msEach: number
}

/**
 * A gated server takes all requests present in at least this share of its steps, but for
 * `maxLeftBehindShare` of them: cores that decode leave one or two behind.
 */
const minGatedShare = 0.8
const maxLeftBehindShare = 0.2
const minStepsToFit = 12

/**
 * Fits gated service. Undefined for servers that select requests otherwise or serve one by one. The
 * largest batch may have been observed elsewhere.
 */
function fitGatedService(log: ServiceLog, largest: number): GatedService | undefined {
  const observed = log.departed.reduce((a, b) => Math.max(a, b), 0)
  const whole = [...log.present.keys()].filter((i) => tookAll(log, i, observed))
  if (
    observed < 2 ||
    whole.length < minStepsToFit ||
    whole.length < minGatedShare * log.present.length
  )
    return undefined
  const [ms, size] = [computeMoments(log.tookMs, whole), computeMoments(log.departed, whole)]
  const covariance =
    whole.reduce((sum, i) => sum + (log.tookMs[i]! - ms.mean) * (log.departed[i]! - size.mean), 0) /
    whole.length
  return {
    maxBatch: Math.max(observed, largest),
    msEach: size.variance > 0 ? Math.max(0, covariance / size.variance) : 0,
  }
}

/**
 * Observations that make a batch size credible: two batches in quick succession may look like one.
 */
const minBatchRepeats = 3

/**
 * Estimates the largest batch from closed loops; open windows seldom fill a batch that takes long.
 * It is the largest repeatedly observed size. Where larger queues were nearly always served whole,
 * it is the largest of those: no limit was observed.
 */
export function estimateMaxBatch(loops: readonly ServiceLog[]): number {
  const descending = loops.flatMap(({ departed }) => departed).sort((a, b) => b - a)
  const known = descending.find((size, i) => size === descending[i + minBatchRepeats - 1]) ?? 0
  const beyond = loops.flatMap(({ present, departed }) =>
    present.flatMap((count, i) =>
      count > known ? [{ size: count, whole: departed[i] === count }] : [],
    ),
  )
  const whole = beyond.filter((step) => step.whole)
  return whole.length > 0 && whole.length >= minGatedShare * beyond.length
    ? Math.max(...whole.map(({ size }) => size))
    : known
}

/**
 * Whether the departing request is determined better by the requests behind it than by those ahead
 * of it.
 */
function isLastComeFirstServed({ present, rank, departed }: ServiceLog): boolean {
  const several = [...present.keys()].filter((i) => present[i]! > 2 && departed[i] === 1)
  const lastComeFirst = present.map((k, i) => k - rank[i]!)
  return (
    several.length >= minStepsToFit &&
    computeMoments(lastComeFirst, several).variance < 0.5 * computeMoments(rank, several).variance
  )
}

/**
 * Whether steps with several requests present took all of them, up to a maximum: a server of
 * batches.
 */
export function isBatchServer(log: ServiceLog): boolean {
  const maxBatch = log.departed.reduce((a, b) => Math.max(a, b), 0)
  const several = [...log.present.keys()].filter((i) => log.present[i]! > 1)
  return (
    maxBatch > 1 &&
    several.length >= minStepsToFit &&
    several.filter((i) => tookAll(log, i, maxBatch)).length >= minGatedShare * several.length
  )
}

const tookAll = ({ present, departed }: ServiceLog, i: number, maxBatch: number): boolean =>
  departed[i]! >= (1 - maxLeftBehindShare) * Math.min(present[i]!, maxBatch) &&
  departed[i]! <= Math.min(present[i]!, maxBatch)

/**
 * Factor on the bootstrap variance. Departures and batches describe the server incompletely;
 * service times of workers describe it fully.
 */
const bootstrapVarianceFactor = { departures: 2, services: 1.5 } as const

/**
 * Probability that the simulated server continues with the next observed step, which preserves what
 * the other workers are doing (stationary bootstrap: Politis and Romano 1994). Runs are five steps
 * long on average.
 */
export const continueProbability = 0.8

/** Builds the queue model of a service log. Throws a RangeError for an empty log. */
export function buildQueueModel(
  log: ServiceLog,
  { largest = 0, ...options }: ModelOptions = {},
): QueueModel {
  if (!(Math.max(...log.present) >= 1)) throw new RangeError('no step of the server was observed')
  const line = options.batching && fitLine(log)
  const compared = line ? [divideByLine(line, log)] : [log.tookMs, log.departed]
  const { binOf, bins } = binByQueueLength(log, compared, largest)
  return {
    log,
    binOf,
    bins,
    gated: options.batching ? undefined : fitGatedService(log, largest),
    line,
    lastComeFirst: isLastComeFirstServed(log),
    ...options,
  }
}

const divideByLine = (line: BatchLine, { tookMs, departed }: ServiceLog): number[] =>
  tookMs.map((ms, i) => ms / evaluateLine(line, departed[i]!))

/**
 * Resamples the steps of a model in blocks, to represent its sampling error (stationary bootstrap:
 * Politis and Romano 1994). It draws fewer steps than were observed: a few slow ones in hundreds
 * decide the capacity, and a full-size bootstrap would understate the uncertainty (m out of n
 * bootstrap: Bickel, Götze and van Zwet 1997). A bin without any step of positive duration keeps
 * its original steps, or it would serve infinitely fast.
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
    n /
      bootstrapVarianceFactor[
        model.workers === undefined || model.batching !== undefined ? 'departures' : 'services'
      ];
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
    line: model.batching && fitLine(resampled),
  }
}

/** Whether requests depart in arrival order: by workers, by gated batches, or one by one. */
export function servesInOrder({ log, workers, gated }: QueueModel): boolean {
  return workers !== undefined || gated !== undefined || log.rank.every((rank) => rank === 0)
}

/** Throughput of the model when requests queue without end, per second. */
export function computeSaturation(model: QueueModel): number {
  const { log, bins, gated, batching, workers = 1 } = model
  if (batching !== undefined) {
    const byBatchesRps =
      (1000 * workers * batching.maxBatch * bins.at(-1)!.length) /
      collectFullDurations(model).reduce((sum, ms) => sum + ms, 0)
    return Math.min(byBatchesRps, maxCoresRps(batching.cores))
  }
  let ms = 0
  let departed = 0
  for (const i of bins.at(-1)!) {
    const leaving =
      gated !== undefined && tookAll(log, i, gated.maxBatch) ? gated.maxBatch : log.departed[i]!
    ms += log.tookMs[i]! + (gated?.msEach ?? 0) * (leaving - log.departed[i]!)
    departed += leaving
  }
  return (1000 * workers * departed) / ms
}

/**
 * Relative standard error of the saturation for a single answer. A batch has many answers but one
 * duration.
 */
export function computeSaturationError(model: QueueModel): number {
  const tookMs = collectFullDurations(model)
  const { mean, variance } = computeMoments(tookMs, [...tookMs.keys()])
  const answers = (computeSaturation(model) * mean) / 1000 / (model.workers ?? 1)
  return (Math.sqrt(variance) / mean) * Math.sqrt(answers)
}

/** Durations of the steps of a saturated queue, ms, with full batches. */
export const collectFullDurations = (model: QueueModel): number[] =>
  Array.from(model.bins.at(-1)!, (i) =>
    model.batching === undefined
      ? model.log.tookMs[i]!
      : batchDurationMs(model, i, model.batching.maxBatch),
  )

/** Duration of an observed batch, transferred to another size, ms. */
function batchDurationMs({ log, line }: QueueModel, step: number, size: number): number {
  const [tookMs, observed] = [log.tookMs[step]!, log.departed[step]!]
  return line === undefined
    ? tookMs
    : (tookMs * evaluateLine(line, size)) / evaluateLine(line, observed)
}

/**
 * Draws the step that follows another: the next observed step, or any other that fits.
 * @param fitting indices of steps that fit the queue length, ascending
 * @param last -1 for none
 */
function drawNextStep(fitting: Int32Array, last: number, uniform: Uniform): number {
  return last >= 0 && contains(fitting, last + 1) && uniform() < continueProbability
    ? last + 1
    : fitting[Math.floor(uniform() * fitting.length)]!
}

function contains(ascending: Int32Array, value: number): boolean {
  let [from, to] = [0, ascending.length]
  while (from < to) {
    const middle = (from + to) >> 1
    if (ascending[middle]! < value) from = middle + 1
    else to = middle
  }
  return ascending[from] === value
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
  if (model.batching !== undefined) {
    const { cores } = model.batching
    const batchDurationMs = batchSampler(model, slowness, uniform, outageProcess)
    if (cores !== undefined)
      simulateTwoStages(cores, model.batching, batchDurationMs, slowness, arrivalsMs, latencyMs)
    else simulateBatches(model.batching, batchDurationMs, slowness, arrivalsMs, latencyMs)
    return
  }
  if (model.workers !== undefined) {
    simulateWorkers(model, model.workers, arrivalsMs, slowness, uniform, latencyMs, outageProcess)
    return
  }
  const { binOf, bins, gated, lastComeFirst, systemCapacity = Number.POSITIVE_INFINITY } = model
  const { msEach = 0, maxBatch = 0 } = gated ?? {}
  const { tookMs, departed, rank } = model.log
  const n = arrivalsMs.length
  const queue = new Int32Array(n)
  const largest = binOf.length - 1
  let head = 0
  let tail = 0
  let arrived = 0
  let now = 0
  let step = -1
  while (true) {
    if (head === tail) {
      if (arrived === n) return
      now = arrivalsMs[arrived]!
      queue[tail++] = arrived++
    }
    const present = tail - head
    step = drawNextStep(bins[binOf[Math.min(present, largest)]!]!, step, uniform)
    const stayed = Math.min(model.log.present[step]!, maxBatch) - departed[step]!
    const leaving =
      maxBatch > 0 && tookAll(model.log, step, maxBatch)
        ? Math.max(1, Math.min(present - stayed, maxBatch))
        : Math.min(departed[step]!, present)
    const took = Math.max(0, tookMs[step]! + msEach * (leaving - departed[step]!))
    now += slowness * (took + outageProcess(now, took))
    const place = lastComeFirst ? present - (model.log.present[step]! - rank[step]!) : rank[step]!
    const first = Math.max(0, Math.min(place, present - leaving))
    for (; arrived < n && arrivalsMs[arrived]! <= now; arrived++) {
      if (tail - head < systemCapacity) queue[tail++] = arrived
      else latencyMs[arrived] = Number.POSITIVE_INFINITY
    }
    for (let i = 0; i < leaving; i++) {
      const request = queue[head + first + i]!
      latencyMs[request] = now - arrivalsMs[request]!
    }
    if (first > 0) queue.copyWithin(head + leaving, head, head + first)
    head += leaving
  }
}

/** Samples durations of batches by size; called in time order. */
function batchSampler(
  model: QueueModel,
  slowness: number,
  uniform: Uniform,
  outageProcess: OutageProcess,
): (size: number, beganMs: number) => number {
  const { binOf, bins } = model
  const largest = binOf.length - 1
  let step = -1
  return (size, beganMs) => {
    step = drawNextStep(bins[binOf[Math.min(size, largest)]!]!, step, uniform)
    const took = batchDurationMs(model, step, size)
    return slowness * (took + outageProcess(beganMs, took))
  }
}

/**
 * As `simulate`, with workers: each request begins at its arrival, or at the first departure while
 * all workers are busy.
 */
function simulateWorkers(
  { log, sharesCores, systemCapacity = Number.POSITIVE_INFINITY }: QueueModel,
  workers: number,
  arrivalsMs: Float64Array,
  slowness: number,
  uniform: Uniform,
  latencyMs: Float64Array,
  outageProcess: OutageProcess,
): void {
  const { tookMs } = log
  let step = -1
  const serviceMs = (beganMs: number) => {
    step =
      step >= 0 && step + 1 < tookMs.length && uniform() < continueProbability
        ? step + 1
        : Math.floor(uniform() * tookMs.length)
    return slowness * (tookMs[step]! + outageProcess(beganMs, tookMs[step]!))
  }
  if (sharesCores) {
    simulateSharing(workers, systemCapacity, arrivalsMs, serviceMs, latencyMs)
    return
  }
  const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
  const unlimited = systemCapacity === Number.POSITIVE_INFINITY
  /** Ends of the requests in the system, ascending from `head` on. */
  const endsMs = new Float64Array(unlimited ? 0 : arrivalsMs.length)
  let head = 0
  let tail = 0
  for (let i = 0; i < arrivalsMs.length; i++) {
    const atMs = arrivalsMs[i]!
    while (head < tail && endsMs[head]! <= atMs) head++
    if (tail - head >= systemCapacity) {
      latencyMs[i] = Number.POSITIVE_INFINITY
      continue
    }
    const first = indexOfMin(freeMs)
    const beganMs = Math.max(atMs, freeMs[first]!)
    const endedMs = beganMs + serviceMs(beganMs)
    freeMs[first] = endedMs
    latencyMs[i] = endedMs - atMs
    if (unlimited) continue
    let place = tail++
    for (; place > head && endsMs[place - 1]! > endedMs; place--) endsMs[place] = endsMs[place - 1]!
    endsMs[place] = endedMs
  }
}
