/**
 * A predictor in virtual time: arrivals, CPU stage, dynamic batcher, engine instances and devices,
 * as a discrete-event simulation.
 */
import type { Load } from '../../../profiler/model/load.ts'
import type { Slo } from '../../../profiler/model/slo.ts'
import type {
  CapacityPrediction,
  ViolationCounts,
  VirtualRun,
  VirtualServer,
} from '../../../profiler/model/virtual-server.ts'
import type { CpuStage } from './cpu-stage.ts'
import { predictCapacity } from './estimated-capacity.ts'
import { getJitterFactors } from './jitter.ts'

export interface SimulatedServerOptions {
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
  /** Intended send times of an open load, ms, ascending. */
  readonly schedule: (load: Extract<Load, { kind: 'open' }>) => Float64Array
  /** Uniform in (0, 1). */
  readonly uniform: () => number
}

/** Usage of the server over all its runs. */
interface SimulatedUsage {
  readonly elapsedMs: number
  readonly cpuBusyMs: number
  readonly deviceBusyMs: number
  readonly batches: number
  readonly batched: number
}

const failure = 'status 429'

/**
 * Every play starts idle, and the i-th request and the i-th batch draw the same jitter in each:
 * loads differ in their rate alone (common random numbers; Law, Simulation Modeling and Analysis,
 * section 11.2).
 */
export class SimulatedServer implements VirtualServer {
  readonly #options: SimulatedServerOptions
  readonly #batchMs: (batch: number) => number
  readonly #jitter: Jitter
  #buffers: Buffers = createBuffers(4096)
  #usage: SimulatedUsage = { elapsedMs: 0, cpuBusyMs: 0, deviceBusyMs: 0, batches: 0, batched: 0 }

  constructor(options: SimulatedServerOptions) {
    this.#options = options
    this.#batchMs = memoiseBatchMs(options.batchMs, options.maxBatchSize)
    this.#jitter = {
      cpu: getJitterFactors(options.cpu.jitter),
      device: getJitterFactors(options.deviceJitter),
      fromRequest: Math.floor(options.uniform() * 2 ** 20),
      fromBatch: Math.floor(options.uniform() * 2 ** 20),
    }
  }

  get usage(): SimulatedUsage {
    return this.#usage
  }

  /** Prediction of the closed form. */
  predictCapacity(slo: Pick<Slo, 'percentile' | 'limitMs'>): CapacityPrediction {
    return predictCapacity({ ...this.#options, batchMs: this.#batchMs }, slo)
  }

  /** Plays a load on the idle server, to its last answer. */
  play(load: Load): VirtualRun {
    const { arrivals, buffers, requests } = this.#run(
      load,
      Number.POSITIVE_INFINITY,
      Number.POSITIVE_INFINITY,
    )
    return {
      sentMs: arrivals.slice(0, requests),
      latencyMs: buffers.latency.slice(0, requests),
      failure,
    }
  }

  /**
   * Plays a load as `play` does, but no longer than until more than `most` requests are over the
   * limit.
   */
  countViolations(load: Load, limitMs: number, most: number): ViolationCounts {
    const { requests, over, failed } = this.#run(load, limitMs, most)
    return { requests, over, failed }
  }

  #run(load: Load, limitMs: number, most: number): Run {
    const run = new Run(this.#options, this.#batchMs, this.#jitter, load, this.#buffers)
    run.toTheEnd(limitMs, most)
    this.#buffers = run.buffers
    const before = this.#usage
    this.#usage = {
      elapsedMs: before.elapsedMs + run.elapsedMs,
      cpuBusyMs: before.cpuBusyMs + run.cpuBusyMs,
      deviceBusyMs: before.deviceBusyMs + run.deviceBusyMs,
      batches: before.batches + run.batches,
      batched: before.batched + run.batched,
    }
    return run
  }
}

interface Jitter {
  readonly cpu: Float64Array
  readonly device: Float64Array
  readonly fromRequest: number
  readonly fromBatch: number
}

/**
 * One play. Only two kinds of events decide anything, the next arrival and the next dispatch of a
 * batch; both are known ahead, so the earlier of the two is done and no event queue is needed.
 */
class Run {
  readonly #o: SimulatedServerOptions
  readonly #batchMs: (batch: number) => number
  readonly #jitter: Jitter
  /**
   * Times of requests, of those that came and of those known to come; a closed loop adds to it as
   * answers return.
   */
  arrivals: Float64Array
  #known: number
  /** Requests that came. */
  requests = 0
  buffers: Buffers
  readonly #endMs: number
  readonly #closed: boolean
  /** When each core is free, and the event loop. */
  readonly #coreFree: Float64Array
  #acceptFree = 0
  /** Places in `ready`; those before the head have left. */
  #head = 0
  #tail = 0
  readonly #deviceFree: Float64Array
  /** When each instance is free; instance i belongs to device i mod devices. */
  readonly #instanceFree: Float64Array
  #nextInstance = 0
  over = 0
  failed = 0
  elapsedMs = 0
  cpuBusyMs = 0
  deviceBusyMs = 0
  batches = 0
  batched = 0

  constructor(
    options: SimulatedServerOptions,
    batchMs: (batch: number) => number,
    jitter: Jitter,
    load: Load,
    buffers: Buffers,
  ) {
    this.#o = options
    this.#batchMs = batchMs
    this.#jitter = jitter
    this.#closed = load.kind === 'closed'
    this.#endMs = load.durationS * 1000
    this.buffers = buffers
    this.arrivals =
      load.kind === 'closed'
        ? new Float64Array(2 * load.connections + 1024)
        : options.schedule(load)
    this.#known = load.kind === 'closed' ? load.connections : this.arrivals.length
    if (this.arrivals.length > buffers.latency.length)
      this.buffers = createBuffers(this.arrivals.length)
    this.#coreFree = new Float64Array(Math.ceil(options.cpuCores))
    this.#deviceFree = new Float64Array(options.devices)
    this.#instanceFree = new Float64Array(options.devices * options.instances)
  }

  /** Ends early once more than `most` requests have failed or taken longer than the limit. */
  toTheEnd(limitMs: number, most: number): void {
    let dispatch = Number.POSITIVE_INFINITY
    while (this.over <= most) {
      const arrival =
        this.requests < this.#known ? this.arrivals[this.requests]! : Number.POSITIVE_INFINITY
      if (arrival === Number.POSITIVE_INFINITY && dispatch === Number.POSITIVE_INFINITY) break
      if (arrival <= dispatch) this.#arrive(arrival)
      else this.#dispatch(dispatch, limitMs)
      dispatch = this.#dispatchAt()
    }
  }

  #arrive(at: number): void {
    const { cpu, cpuCores, queueLimit } = this.#o
    const request = this.requests++
    if (this.#tail - this.#head >= queueLimit) {
      this.buffers.latency[request] = Number.NaN
      this.over++
      this.failed++
      this.#recordAnswer(at + cpu.overheadMs)
      return
    }
    const coreFree = this.#coreFree
    const core = findEarliest(coreFree)
    const start = Math.max(at, coreFree[core]!, this.#acceptFree)
    // A limit of 1.5 cores slows two cores by a quarter.
    const slowdown = coreFree.length / cpuCores
    const factors = this.#jitter.cpu
    const prepareMs =
      cpu.prepareMs * factors[(this.#jitter.fromRequest + request) & (factors.length - 1)]!
    const service = slowdown * (cpu.acceptMs + prepareMs)
    const ready = cpu.within ? start : start + service
    this.#acceptFree = start + slowdown * cpu.acceptMs
    coreFree[core] = start + service
    this.cpuBusyMs += service / slowdown
    // Nearly in order: cores overtake one another by a few places at most.
    const { waiting, readyAt } = this.buffers
    let place = this.#tail++
    for (; place > this.#head && readyAt[place - 1]! > ready; place--) {
      waiting[place] = waiting[place - 1]!
      readyAt[place] = readyAt[place - 1]!
    }
    waiting[place] = request
    readyAt[place] = ready
  }

  /** When the next batch is dispatched, given the requests that have arrived by then. */
  #dispatchAt(): number {
    const waiting = this.#tail - this.#head
    if (waiting === 0) return Number.POSITIVE_INFINITY
    const { maxBatchSize, maxDelayMs } = this.#o
    const { readyAt } = this.buffers
    let leaves = readyAt[this.#head]! + maxDelayMs
    if (waiting >= maxBatchSize) leaves = Math.min(leaves, readyAt[this.#head + maxBatchSize - 1]!)
    return Math.max(this.#instanceFree[this.#nextInstance]!, leaves)
  }

  #dispatch(at: number, limitMs: number): void {
    const { maxBatchSize, devices, cpu } = this.#o
    const { latency, waiting, readyAt } = this.buffers
    const head = this.#head
    const most = Math.min(maxBatchSize, this.#tail - head)
    let size = 1
    while (size < most && readyAt[head + size]! <= at) size++
    const instance = this.#nextInstance
    const device = instance % devices
    const factors = this.#jitter.device
    const busy =
      this.#batchMs(size) * factors[(this.#jitter.fromBatch + this.batches) & (factors.length - 1)]!
    const end = Math.max(at, this.#deviceFree[device]!) + busy
    this.#deviceFree[device] = end
    this.#instanceFree[instance] = end
    this.#nextInstance = findEarliest(this.#instanceFree)
    this.deviceBusyMs += busy
    this.batches++
    this.batched += size
    const answered = end + cpu.overheadMs
    for (let i = head; i < head + size; i++) {
      const request = waiting[i]!
      const tookMs = answered - this.arrivals[request]!
      latency[request] = tookMs
      if (tookMs > limitMs) this.over++
      this.#recordAnswer(answered)
    }
    this.#head += size
  }

  #recordAnswer(at: number): void {
    if (at > this.elapsedMs) this.elapsedMs = at
    if (!this.#closed || at >= this.#endMs) return
    if (this.#known === this.arrivals.length) this.#grow()
    let place = this.#known++
    for (; place > this.requests && this.arrivals[place - 1]! > at; place--)
      this.arrivals[place] = this.arrivals[place - 1]!
    this.arrivals[place] = at
  }

  #grow(): void {
    this.arrivals = copyArray(this.arrivals, new Float64Array(2 * this.arrivals.length))
    const { latency, waiting, readyAt } = this.buffers
    if (this.arrivals.length <= latency.length) return
    const larger = createBuffers(this.arrivals.length)
    copyArray(latency, larger.latency)
    copyArray(waiting, larger.waiting)
    copyArray(readyAt, larger.readyAt)
    this.buffers = larger
  }
}

/** Room for the requests of a play, used again by the next one. */
interface Buffers {
  readonly latency: Float64Array
  /** Requests ready for a batch, by time: their numbers and times. */
  readonly waiting: Int32Array
  readonly readyAt: Float64Array
}

const createBuffers = (requests: number): Buffers => ({
  latency: new Float64Array(requests),
  waiting: new Int32Array(requests),
  readyAt: new Float64Array(requests),
})

function copyArray<T extends Float64Array | Int32Array>(from: T, to: T): T {
  to.set(from)
  return to
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
