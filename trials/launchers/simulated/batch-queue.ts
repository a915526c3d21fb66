/**
 * The queueing core of a simulated predictor: CPU stage, dynamic batcher, engine instances and
 * devices. Whoever drives it plays arrivals and dispatches in the order of time.
 */
import type { CpuStage } from './cpu-stage.ts'
import { getJitterFactors } from './jitter.ts'

export interface BatchQueueOptions {
  readonly cpu: CpuStage
  /** May be a fraction: a container's limit. */
  readonly cpuCores: number
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

/** Usage over all plays. */
export interface BatchQueueUsage {
  readonly cpuBusyMs: number
  readonly deviceBusyMs: number
  readonly batches: number
  readonly batched: number
}

/**
 * Every play starts idle, and the i-th request and the i-th batch draw the same jitter in each:
 * loads differ in their rate alone (common random numbers; Law, Simulation Modeling and Analysis,
 * section 11.2).
 */
export class BatchQueue {
  readonly #o: BatchQueueOptions
  readonly #batchMs: (batch: number) => number
  readonly #cpuFactors: Float64Array
  readonly #deviceFactors: Float64Array
  readonly #fromRequest: number
  readonly #fromBatch: number
  /** When each core is free, and the event loop. */
  readonly #coreFree: Float64Array
  #acceptFree = 0
  /** Requests ready for a batch, by time: their numbers and times. */
  #waiting: Int32Array
  #readyAt: Float64Array
  /** Places in `waiting`; those before the head have left. */
  #head = 0
  #tail = 0
  readonly #deviceFree: Float64Array
  /** When each instance is free; instance i belongs to device i mod devices. */
  readonly #instanceFree: Float64Array
  #nextInstance = 0
  /** Batches of this play. */
  #dispatched = 0
  readonly #usage = { cpuBusyMs: 0, deviceBusyMs: 0, batches: 0, batched: 0 }

  constructor(options: BatchQueueOptions, places = 64) {
    this.#o = options
    this.#batchMs = memoiseBatchMs(options.batchMs, options.maxBatchSize)
    this.#cpuFactors = getJitterFactors(options.cpu.jitter)
    this.#deviceFactors = getJitterFactors(options.deviceJitter)
    this.#fromRequest = Math.floor(options.uniform() * 2 ** 20)
    this.#fromBatch = Math.floor(options.uniform() * 2 ** 20)
    this.#coreFree = new Float64Array(Math.ceil(options.cpuCores))
    this.#deviceFree = new Float64Array(options.devices)
    this.#instanceFree = new Float64Array(options.devices * options.instances)
    this.#waiting = new Int32Array(places)
    this.#readyAt = new Float64Array(places)
  }

  get usage(): BatchQueueUsage {
    return this.#usage
  }

  /** Empties the queue and frees all workers, for the next play. */
  reset(): void {
    this.#coreFree.fill(0)
    this.#deviceFree.fill(0)
    this.#instanceFree.fill(0)
    this.#acceptFree = 0
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
    const { cpu, cpuCores, queueLimit } = this.#o
    if (this.#tail - this.#head >= queueLimit) return false
    const coreFree = this.#coreFree
    const core = findEarliest(coreFree)
    const start = Math.max(atMs, coreFree[core]!, this.#acceptFree)
    // A limit of 1.5 cores slows two cores by a quarter.
    const slowdown = coreFree.length / cpuCores
    const factors = this.#cpuFactors
    const prepareMs = cpu.prepareMs * factors[(this.#fromRequest + jitter) & (factors.length - 1)]!
    const service = slowdown * (cpu.acceptMs + prepareMs)
    const ready = cpu.within ? start : start + service
    this.#acceptFree = start + slowdown * cpu.acceptMs
    coreFree[core] = start + service
    this.#usage.cpuBusyMs += service / slowdown
    if (this.#tail === this.#waiting.length) this.#makeRoom()
    // Nearly in order: cores overtake one another by a few places at most.
    const [waiting, readyAt] = [this.#waiting, this.#readyAt]
    let place = this.#tail++
    for (; place > this.#head && readyAt[place - 1]! > ready; place--) {
      waiting[place] = waiting[place - 1]!
      readyAt[place] = readyAt[place - 1]!
    }
    waiting[place] = request
    readyAt[place] = ready
    return true
  }

  /** When the next batch is dispatched, given the requests that have arrived by then. */
  nextDispatchMs(): number {
    const waiting = this.#tail - this.#head
    if (waiting === 0) return Number.POSITIVE_INFINITY
    const { maxBatchSize, maxDelayMs } = this.#o
    const readyAt = this.#readyAt
    let leaves = readyAt[this.#head]! + maxDelayMs
    if (waiting >= maxBatchSize) leaves = Math.min(leaves, readyAt[this.#head + maxBatchSize - 1]!)
    return Math.max(this.#instanceFree[this.#nextInstance]!, leaves)
  }

  /**
   * Dispatches the batch that is due.
   * @param answer called for each of its requests, with the time of its answer
   */
  dispatch(atMs: number, answer: (request: number, answeredMs: number) => void): void {
    const { maxBatchSize, devices, cpu } = this.#o
    const [waiting, readyAt] = [this.#waiting, this.#readyAt]
    const head = this.#head
    const most = Math.min(maxBatchSize, this.#tail - head)
    let size = 1
    while (size < most && readyAt[head + size]! <= atMs) size++
    const instance = this.#nextInstance
    const device = instance % devices
    const factors = this.#deviceFactors
    const busy =
      this.#batchMs(size) * factors[(this.#fromBatch + this.#dispatched++) & (factors.length - 1)]!
    const end = Math.max(atMs, this.#deviceFree[device]!) + busy
    this.#deviceFree[device] = end
    this.#instanceFree[instance] = end
    this.#nextInstance = findEarliest(this.#instanceFree)
    this.#usage.deviceBusyMs += busy
    this.#usage.batches++
    this.#usage.batched += size
    this.#head += size
    const answeredMs = end + cpu.overheadMs
    for (let i = head; i < head + size; i++) answer(waiting[i]!, answeredMs)
  }

  /** Moves the waiting requests to the front, into larger arrays where they fill half of these. */
  #makeRoom(): void {
    const count = this.#tail - this.#head
    const isCrowded = 2 * count > this.#waiting.length
    const waiting = isCrowded ? new Int32Array(2 * this.#waiting.length) : this.#waiting
    const readyAt = isCrowded ? new Float64Array(2 * this.#readyAt.length) : this.#readyAt
    waiting.set(this.#waiting.subarray(this.#head, this.#tail))
    readyAt.set(this.#readyAt.subarray(this.#head, this.#tail))
    this.#waiting = waiting
    this.#readyAt = readyAt
    this.#head = 0
    this.#tail = count
  }
}

/** Memoises device times of whole batches. */
function memoiseBatchMs(
  batchMs: (batch: number) => number,
  maxBatchSize: number,
): (batch: number) => number {
  const known = new Float64Array(Math.min(maxBatchSize, 4096) + 1)
  return (batch) => {
    if (batch >= known.length) return batchMs(batch)
    const found = known[batch]!
    if (found > 0) return found
    const ms = batchMs(batch)
    known[batch] = ms
    return ms
  }
}

function findEarliest(times: Float64Array): number {
  let best = 0
  for (let i = 1; i < times.length; i++) if (times[i]! < times[best]!) best = i
  return best
}
