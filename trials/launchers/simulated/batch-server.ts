/** A predictor in virtual time, as a discrete-event simulation over its queue. */
import type { Load } from '../../../profiler/model/load.ts'
import type { Slo } from '../../../profiler/model/slo.ts'
import type {
  CapacityPrediction,
  ViolationCounts,
  VirtualRun,
  VirtualServer,
} from '../../../profiler/model/virtual-server.ts'
import { BatchQueue, type BatchQueueOptions, type BatchQueueUsage } from './batch-queue.ts'
import { predictCapacity } from './estimated-capacity.ts'

export interface SimulatedServerOptions extends BatchQueueOptions {
  /** Intended send times of an open load, ms, ascending. */
  readonly schedule: (load: Extract<Load, { kind: 'open' }>) => Float64Array
}

const failure = 'status 429'
/** Initial capacity of arrays of requests. */
const initialCapacity = 4096

export class SimulatedServer implements VirtualServer {
  readonly #options: SimulatedServerOptions
  readonly #queue: BatchQueue
  /** Latencies by request, ms; reused by each simulation run. */
  #latency: Float64Array = new Float64Array(initialCapacity)
  #elapsedMs = 0

  constructor(options: SimulatedServerOptions) {
    this.#options = options
    this.#queue = new BatchQueue(options, initialCapacity)
  }

  /** Usage over all simulation runs. */
  get usage(): BatchQueueUsage & { readonly elapsedMs: number } {
    return { ...this.#queue.usage, elapsedMs: this.#elapsedMs }
  }

  /** Prediction of the closed form. */
  predictCapacity(slo: Pick<Slo, 'percentile' | 'limitMs'>): CapacityPrediction {
    return predictCapacity(this.#options, slo)
  }

  /** Simulates a load on the idle server until the last answer. */
  play(load: Load): VirtualRun {
    const { arrivals, latency, requests } = this.#run(
      load,
      Number.POSITIVE_INFINITY,
      Number.POSITIVE_INFINITY,
    )
    return {
      sentMs: arrivals.slice(0, requests),
      latencyMs: latency.slice(0, requests),
      failure,
    }
  }

  /**
   * Simulates a load like `play`, but ends early once more than `maxViolations` exceed the limit.
   */
  countViolations(load: Load, limitMs: number, maxViolations: number): ViolationCounts {
    const { requests, violations, failed } = this.#run(load, limitMs, maxViolations)
    return { requests, violations, failed }
  }

  #run(load: Load, limitMs: number, maxViolations: number): Run {
    this.#queue.reset()
    const run = new Run(this.#options, this.#queue, load, this.#latency)
    run.simulate(limitMs, maxViolations)
    this.#latency = run.latency
    this.#elapsedMs += run.elapsedMs
    return run
  }
}

/**
 * One simulation run. There are only two kinds of events, the next arrival and the next dispatch of
 * a batch. Both are known ahead, so the earlier of the two is processed, and no event queue is
 * needed.
 */
class Run {
  readonly #overheadMs: number
  readonly #queue: BatchQueue
  /** Arrival times of past and scheduled requests, ms; a closed loop adds one for each answer. */
  arrivals: Float64Array
  /** Number of scheduled arrivals, past ones included. */
  #scheduled: number
  /** Number of requests that have arrived. */
  requests = 0
  latency: Float64Array
  readonly #endMs: number
  readonly #isClosedLoop: boolean
  /** Requests that failed or exceeded the limit. */
  violations = 0
  failed = 0
  elapsedMs = 0

  constructor(
    { cpu, schedule }: SimulatedServerOptions,
    queue: BatchQueue,
    load: Load,
    latency: Float64Array,
  ) {
    this.#overheadMs = cpu.overheadMs
    this.#queue = queue
    this.#isClosedLoop = load.kind === 'closed'
    this.#endMs = load.durationS * 1000
    this.arrivals =
      load.kind === 'closed' ? new Float64Array(2 * load.connections + 1024) : schedule(load)
    this.#scheduled = load.kind === 'closed' ? load.connections : this.arrivals.length
    this.latency =
      this.arrivals.length > latency.length ? new Float64Array(this.arrivals.length) : latency
  }

  /** Ends early once more than `maxViolations` requests have failed or exceeded the limit. */
  simulate(limitMs: number, maxViolations: number): void {
    const queue = this.#queue
    const answer = (request: number, answeredMs: number) => {
      const tookMs = answeredMs - this.arrivals[request]!
      this.latency[request] = tookMs
      if (tookMs > limitMs) this.violations++
      this.#recordAnswer(answeredMs)
    }
    let dispatchMs = Number.POSITIVE_INFINITY
    while (this.violations <= maxViolations) {
      const arrival =
        this.requests < this.#scheduled ? this.arrivals[this.requests]! : Number.POSITIVE_INFINITY
      if (arrival === Number.POSITIVE_INFINITY && dispatchMs === Number.POSITIVE_INFINITY) break
      if (arrival <= dispatchMs) this.#arrive(arrival)
      else queue.dispatch(dispatchMs, answer)
      dispatchMs = queue.computeNextDispatchMs()
    }
  }

  #arrive(at: number): void {
    const request = this.requests++
    if (this.#queue.arrive(request, at)) return
    this.latency[request] = Number.NaN
    this.violations++
    this.failed++
    this.#recordAnswer(at + this.#overheadMs)
  }

  #recordAnswer(at: number): void {
    if (at > this.elapsedMs) this.elapsedMs = at
    if (!this.#isClosedLoop || at >= this.#endMs) return
    if (this.#scheduled === this.arrivals.length) this.#grow()
    let index = this.#scheduled++
    for (; index > this.requests && this.arrivals[index - 1]! > at; index--)
      this.arrivals[index] = this.arrivals[index - 1]!
    this.arrivals[index] = at
  }

  #grow(): void {
    const arrivals = new Float64Array(2 * this.arrivals.length)
    arrivals.set(this.arrivals)
    this.arrivals = arrivals
    if (arrivals.length <= this.latency.length) return
    const latency = new Float64Array(arrivals.length)
    latency.set(this.latency)
    this.latency = latency
  }
}
