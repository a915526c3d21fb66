/**
 * The queueing core of a simulated predictor: CPU stage, dynamic batcher, engine instances and
 * devices. The caller feeds arrivals and dispatches in the order of time.
 */
import type { CpuStage } from './cpu-stage.ts'
import { getJitterFactors } from './jitter.ts'

/**
 * A limit of CPU time as the kernel has it: work goes at full speed until the CPU time of a period
 * is used, and then waits for the next one.
 */
interface CpuQuota {
  readonly periodMs: number
  /** What uses the CPU time. */
  readonly usedBy: 'requests' | 'batches'
}

export interface BatchQueueOptions {
  readonly cpu: CpuStage
  /** May be a fraction: a container's limit. */
  readonly cpuCores: number
  /** How a limit of CPU time stops the cores. Absent: it slows them evenly. */
  readonly quota?: CpuQuota
  readonly maxBatchSize: number
  readonly maxDelayMs: number
  /** Requests that may wait, on the CPU or for a batch; one more is refused. */
  readonly queueLimit: number
  /** Concurrent batches on each device. */
  readonly instances: number
  readonly devices: number
  /** Device time of a batch, ms. */
  readonly batchMs: (batch: number) => number
  /** Standard deviation of ln(device time). */
  readonly deviceJitter: number
  /** Uniform in (0, 1). */
  readonly uniform: () => number
}

/** Usage over all simulation runs. */
export interface BatchQueueUsage {
  readonly cpuBusyMs: number
  readonly deviceBusyMs: number
  readonly batches: number
  readonly batchedRequests: number
}

/**
 * Every simulation run starts idle, and the i-th request and the i-th batch draw the same jitter in
 * each run: loads differ only in their rate (common random numbers; Law, Simulation Modeling and
 * Analysis, section 11.2).
 */
export class BatchQueue {
  readonly #options: BatchQueueOptions
  readonly #batchMs: (batch: number) => number
  readonly #cpuFactors: Float64Array
  readonly #deviceFactors: Float64Array
  /**
   * Random positions in the tables of factors, at which the first request and batch draw theirs.
   */
  readonly #requestJitterOffset: number
  readonly #batchJitterOffset: number
  /** When each core is free, ms. */
  readonly #coreFreeMs: Float64Array
  /** When the event loop is free, ms. */
  #eventLoopFreeMs = 0
  /** With a quota: the current period, and the CPU time used in it, ms. */
  #period = 0
  #usedInPeriodMs = 0
  /** Numbers of the requests that wait for a batch, by the time at which they are ready. */
  #waiting: Int32Array
  /** When each of them is ready, ms. */
  #readyMs: Float64Array
  /** Indices into `#waiting`: the first waiting request, and one past the last. */
  #head = 0
  #tail = 0
  /** When each device is free, ms. */
  readonly #deviceFreeMs: Float64Array
  /** When each instance is free, ms; instance i belongs to device i mod devices. */
  readonly #instanceFreeMs: Float64Array
  #nextInstance = 0
  /** Batches of this run. */
  #dispatched = 0
  readonly #usage = { cpuBusyMs: 0, deviceBusyMs: 0, batches: 0, batchedRequests: 0 }

  constructor(options: BatchQueueOptions, initialCapacity = 64) {
    this.#options = options
    this.#batchMs = memoiseBatchMs(options.batchMs, options.maxBatchSize)
    this.#cpuFactors = getJitterFactors(options.cpu.jitter)
    this.#deviceFactors = getJitterFactors(options.deviceJitter)
    this.#requestJitterOffset = Math.floor(options.uniform() * 2 ** 20)
    this.#batchJitterOffset = Math.floor(options.uniform() * 2 ** 20)
    this.#coreFreeMs = new Float64Array(Math.ceil(options.cpuCores))
    this.#deviceFreeMs = new Float64Array(options.devices)
    this.#instanceFreeMs = new Float64Array(options.devices * options.instances)
    this.#waiting = new Int32Array(initialCapacity)
    this.#readyMs = new Float64Array(initialCapacity)
  }

  get usage(): BatchQueueUsage {
    return this.#usage
  }

  /** Empties the queue and frees all workers, for the next simulation run. */
  reset(): void {
    this.#coreFreeMs.fill(0)
    this.#deviceFreeMs.fill(0)
    this.#instanceFreeMs.fill(0)
    this.#eventLoopFreeMs = 0
    this.#period = 0
    this.#usedInPeriodMs = 0
    this.#head = 0
    this.#tail = 0
    this.#nextInstance = 0
    this.#dispatched = 0
  }

  /**
   * @param jitter index of the request's CPU jitter
   * @returns whether the queue had room; a refused request is answered after `cpu.overheadMs`
   */
  arrive(request: number, atMs: number, jitter = request): boolean {
    const { cpu, cpuCores, queueLimit, quota } = this.#options
    if (this.#tail - this.#head >= queueLimit) return false
    const coreFreeMs = this.#coreFreeMs
    const core = findEarliest(coreFreeMs)
    const start = Math.max(atMs, coreFreeMs[core]!, this.#eventLoopFreeMs)
    // A limit of 1.5 cores slows two cores by a quarter.
    const slowdown = quota === undefined ? coreFreeMs.length / cpuCores : 1
    const factors = this.#cpuFactors
    const prepareMs =
      cpu.prepareMs * factors[(this.#requestJitterOffset + jitter) & (factors.length - 1)]!
    const cpuMs = cpu.acceptMs + prepareMs
    const service =
      quota?.usedBy === 'requests'
        ? this.#useQuota(start, cpuMs, quota.periodMs) - start
        : slowdown * cpuMs
    const ready = cpu.isPartOfBatchTime ? start : start + service
    this.#eventLoopFreeMs = start + slowdown * cpu.acceptMs
    coreFreeMs[core] = start + service
    this.#usage.cpuBusyMs += cpuMs
    if (this.#tail === this.#waiting.length) this.#makeRoom()
    // Nearly in order: cores overtake one another by a few places at most.
    const [waiting, readyMs] = [this.#waiting, this.#readyMs]
    let index = this.#tail++
    for (; index > this.#head && readyMs[index - 1]! > ready; index--) {
      waiting[index] = waiting[index - 1]!
      readyMs[index] = readyMs[index - 1]!
    }
    waiting[index] = request
    readyMs[index] = ready
    return true
  }

  /**
   * Uses CPU time of the quota.
   * @returns when the work has ended, ms
   */
  #useQuota(startMs: number, workMs: number, periodMs: number): number {
    const quotaMs = this.#options.cpuCores * periodMs
    if (startMs >= (this.#period + 1) * periodMs) {
      this.#period = Math.floor(startMs / periodMs)
      this.#usedInPeriodMs = 0
    }
    // A core that starts later in time may have begun the period already.
    let [atMs, leftMs] = [Math.max(startMs, this.#period * periodMs), workMs]
    while (this.#usedInPeriodMs + leftMs > quotaMs) {
      leftMs -= quotaMs - this.#usedInPeriodMs
      this.#period++
      this.#usedInPeriodMs = 0
      atMs = this.#period * periodMs
    }
    this.#usedInPeriodMs += leftMs
    return atMs + leftMs
  }

  /** Computes when the next batch is dispatched, given the requests that have arrived by then. */
  computeNextDispatchMs(): number {
    const waiting = this.#tail - this.#head
    if (waiting === 0) return Number.POSITIVE_INFINITY
    const { maxBatchSize, maxDelayMs } = this.#options
    const readyMs = this.#readyMs
    let dispatchMs = readyMs[this.#head]! + maxDelayMs
    if (waiting >= maxBatchSize)
      dispatchMs = Math.min(dispatchMs, readyMs[this.#head + maxBatchSize - 1]!)
    return Math.max(this.#instanceFreeMs[this.#nextInstance]!, dispatchMs)
  }

  /**
   * Dispatches the batch that is due.
   * @param answer called for each of its requests, with the time of its answer
   */
  dispatch(atMs: number, answer: (request: number, answeredMs: number) => void): void {
    const { maxBatchSize, devices, cpu, quota } = this.#options
    const [waiting, readyMs] = [this.#waiting, this.#readyMs]
    const head = this.#head
    const maxSize = Math.min(maxBatchSize, this.#tail - head)
    let size = 1
    while (size < maxSize && readyMs[head + size]! <= atMs) size++
    const instance = this.#nextInstance
    const device = instance % devices
    const factors = this.#deviceFactors
    const busy =
      this.#batchMs(size) *
      factors[(this.#batchJitterOffset + this.#dispatched++) & (factors.length - 1)]!
    const start = Math.max(atMs, this.#deviceFreeMs[device]!)
    const end =
      quota?.usedBy === 'batches' ? this.#useQuota(start, busy, quota.periodMs) : start + busy
    this.#deviceFreeMs[device] = end
    this.#instanceFreeMs[instance] = end
    this.#nextInstance = findEarliest(this.#instanceFreeMs)
    this.#usage.deviceBusyMs += busy
    this.#usage.batches++
    this.#usage.batchedRequests += size
    this.#head += size
    const answeredMs = end + cpu.overheadMs
    for (let i = head; i < head + size; i++) answer(waiting[i]!, answeredMs)
  }

  /** Moves the waiting requests to the front; into larger arrays if they fill more than half. */
  #makeRoom(): void {
    const count = this.#tail - this.#head
    const isOverHalfFull = 2 * count > this.#waiting.length
    const waiting = isOverHalfFull ? new Int32Array(2 * this.#waiting.length) : this.#waiting
    const readyMs = isOverHalfFull ? new Float64Array(2 * this.#readyMs.length) : this.#readyMs
    waiting.set(this.#waiting.subarray(this.#head, this.#tail))
    readyMs.set(this.#readyMs.subarray(this.#head, this.#tail))
    this.#waiting = waiting
    this.#readyMs = readyMs
    this.#head = 0
    this.#tail = count
  }
}

/** Memoises device times of whole batches. */
function memoiseBatchMs(
  batchMs: (batch: number) => number,
  maxBatchSize: number,
): (batch: number) => number {
  const memoised = new Float64Array(Math.min(maxBatchSize, 4096) + 1)
  return (batch) => {
    if (batch >= memoised.length) return batchMs(batch)
    const memoisedMs = memoised[batch]!
    if (memoisedMs > 0) return memoisedMs
    const ms = batchMs(batch)
    memoised[batch] = ms
    return ms
  }
}

function findEarliest(times: Float64Array): number {
  let best = 0
  for (let i = 1; i < times.length; i++) if (times[i]! < times[best]!) best = i
  return best
}
