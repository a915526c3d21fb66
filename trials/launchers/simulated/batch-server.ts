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
const initialPlaces = 4096

export class SimulatedServer implements VirtualServer {
  readonly #options: SimulatedServerOptions
  readonly #queue: BatchQueue
  /** Reused by each play. */
  #latency: Float64Array = new Float64Array(initialPlaces)
  #elapsedMs = 0

  constructor(options: SimulatedServerOptions) {
    this.#options = options
    this.#queue = new BatchQueue(options, initialPlaces)
  }

  /** Usage over all plays. */
  get usage(): BatchQueueUsage & { readonly elapsedMs: number } {
    return { ...this.#queue.usage, elapsedMs: this.#elapsedMs }
  }

  /** Prediction of the closed form. */
  predictCapacity(slo: Pick<Slo, 'percentile' | 'limitMs'>): CapacityPrediction {
    return predictCapacity(this.#options, slo)
  }

  /** Plays a load on the idle server, to its last answer. */
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
   * Plays a load as `play` does, but no longer than until more than `most` requests are over the
   * limit.
   */
  countViolations(load: Load, limitMs: number, most: number): ViolationCounts {
    const { requests, over, failed } = this.#run(load, limitMs, most)
    return { requests, over, failed }
  }

  #run(load: Load, limitMs: number, most: number): Run {
    this.#queue.reset()
    const run = new Run(this.#options, this.#queue, load, this.#latency)
    run.toTheEnd(limitMs, most)
    this.#latency = run.latency
    this.#elapsedMs += run.elapsedMs
    return run
  }
}

/**
 * One play. Only two kinds of events decide anything, the next arrival and the next dispatch of a
 * batch; both are known ahead, so the earlier of the two is done and no event queue is needed.
 */
class Run {
  readonly #overheadMs: number
  readonly #queue: BatchQueue
  /**
   * Times of requests, of those that came and of those known to come; a closed loop adds to it as
   * answers return.
   */
  arrivals: Float64Array
  #known: number
  /** Requests that came. */
  requests = 0
  latency: Float64Array
  readonly #endMs: number
  readonly #closed: boolean
  over = 0
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
    this.#closed = load.kind === 'closed'
    this.#endMs = load.durationS * 1000
    this.arrivals =
      load.kind === 'closed' ? new Float64Array(2 * load.connections + 1024) : schedule(load)
    this.#known = load.kind === 'closed' ? load.connections : this.arrivals.length
    this.latency =
      this.arrivals.length > latency.length ? new Float64Array(this.arrivals.length) : latency
  }

  /** Ends early once more than `most` requests have failed or taken longer than the limit. */
  toTheEnd(limitMs: number, most: number): void {
    const queue = this.#queue
    const answer = (request: number, answeredMs: number) => {
      const tookMs = answeredMs - this.arrivals[request]!
      this.latency[request] = tookMs
      if (tookMs > limitMs) this.over++
      this.#recordAnswer(answeredMs)
    }
    let dispatch = Number.POSITIVE_INFINITY
    while (this.over <= most) {
      const arrival =
        this.requests < this.#known ? this.arrivals[this.requests]! : Number.POSITIVE_INFINITY
      if (arrival === Number.POSITIVE_INFINITY && dispatch === Number.POSITIVE_INFINITY) break
      if (arrival <= dispatch) this.#arrive(arrival)
      else queue.dispatch(dispatch, answer)
      dispatch = queue.nextDispatchMs()
    }
  }

  #arrive(at: number): void {
    const request = this.requests++
    if (this.#queue.arrive(request, at)) return
    this.latency[request] = Number.NaN
    this.over++
    this.failed++
    this.#recordAnswer(at + this.#overheadMs)
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
    const arrivals = new Float64Array(2 * this.arrivals.length)
    arrivals.set(this.arrivals)
    this.arrivals = arrivals
    if (arrivals.length <= this.latency.length) return
    const latency = new Float64Array(arrivals.length)
    latency.set(this.latency)
    this.latency = latency
  }
}
