/**
 * A pipeline in virtual time: a discrete-event simulation of the queues of all replicas of all
 * stages under one stream of arrivals at the entry (a network of queues: Harchol-Balter,
 * Performance Modeling and Design of Computer Systems, part V).
 *
 * A request does the work of its stage, then makes the calls of the stage, and is answered when the
 * last call is. A stage that waits for its calls occupies no worker. Each call goes to a random
 * replica, as with the Service of a cluster.
 */
import { sum } from 'simple-statistics'
import type { Load } from '../../../profiler/model/load.ts'
import type { Slo } from '../../../profiler/model/slo.ts'
import type {
  CapacityPrediction,
  ViolationCounts,
  VirtualRun,
  VirtualServer,
} from '../../../profiler/model/virtual-server.ts'
import type { Pipeline } from '../../pipeline/pipeline.ts'
import { drawCallCount, mixHash, toUniform } from '../../pipeline/request-draws.ts'
import { BatchQueue, type BatchQueueOptions } from './batch-queue.ts'
import { TimedHeap } from './timed-heap.ts'

export interface SimulatedStage {
  readonly queue: BatchQueueOptions
  readonly replicas: number
}

interface PipelineServerOptions {
  readonly pipeline: Pipeline
  /** Stages by name. */
  readonly stages: ReadonlyMap<string, SimulatedStage>
  /** Intended send times of an open load, ms, ascending. */
  readonly schedule: (load: Extract<Load, { kind: 'open' }>) => Float64Array
  readonly predictCapacity: (slo: Pick<Slo, 'percentile' | 'limitMs'>) => CapacityPrediction
}

interface SimulatedStageUsage {
  readonly stage: string
  readonly visits: number
  /** Time of all visits without their calls, ms. */
  readonly visitMs: number
  readonly cpuBusyMs: number
  readonly deviceBusyMs: number
}

interface PlayedLoad {
  readonly elapsedMs: number
  readonly requests: number
  readonly stages: readonly SimulatedStageUsage[]
}

const subtractUsage = (
  after: SimulatedStageUsage,
  before: SimulatedStageUsage,
): SimulatedStageUsage => ({
  stage: after.stage,
  visits: after.visits - before.visits,
  visitMs: after.visitMs - before.visitMs,
  cpuBusyMs: after.cpuBusyMs - before.cpuBusyMs,
  deviceBusyMs: after.deviceBusyMs - before.deviceBusyMs,
})

interface StageState {
  readonly name: string
  readonly overheadMs: number
  readonly calls: readonly { readonly stage: number; readonly ratio: number }[]
  readonly parallelCalls: boolean
  /** Indices of its replicas among all queues. */
  readonly queues: readonly number[]
  visits: number
  visitMs: number
}

/** One visit of a request to a stage. */
interface Visit {
  readonly request: number
  readonly stage: number
  readonly parent: Visit | undefined
  /** Decides its replica and its calls: the same at every rate and for every configuration. */
  readonly hash: number
  readonly arrivedMs: number
  /** Calls that are still to be made, if they are made one after the other. */
  pending: readonly { readonly stage: number; readonly hash: number }[]
  /** Calls under way. */
  open: number
  answeredMs: number
  failed: boolean
}

const failure = 'status 429'
/** Stands for the next request of a closed load, in place of the number of a visit. */
const newRequest = -1

export class PipelineServer implements VirtualServer {
  readonly #options: PipelineServerOptions
  readonly #stages: readonly StageState[]
  readonly #queues: readonly BatchQueue[]
  #lastPlay: PlayedLoad = { elapsedMs: 0, requests: 0, stages: [] }

  constructor(options: PipelineServerOptions) {
    this.#options = options
    const { pipeline, stages } = options
    const indices = new Map(pipeline.stages.map(({ name }, i) => [name, i]))
    const queues: BatchQueue[] = []
    this.#stages = pipeline.stages.map(({ name, calls, parallelCalls }) => {
      const { queue, replicas } = stages.get(name)!
      return {
        name,
        overheadMs: queue.cpu.overheadMs,
        calls: calls.map(({ stage, ratio }) => ({ stage: indices.get(stage)!, ratio })),
        parallelCalls,
        queues: Array.from({ length: replicas }, () => queues.push(new BatchQueue(queue)) - 1),
        visits: 0,
        visitMs: 0,
      }
    })
    this.#queues = queues
  }

  /** Usage by the last load of `play`, which is the one at the measured rate. */
  get lastPlay(): PlayedLoad {
    return this.#lastPlay
  }

  predictCapacity(slo: Pick<Slo, 'percentile' | 'limitMs'>): CapacityPrediction {
    return this.#options.predictCapacity(slo)
  }

  /** Simulates a load on the idle pipeline until the last answer. */
  play(load: Load): VirtualRun {
    const before = this.#sumUsage()
    const { sentMs, latencyMs, elapsedMs } = this.#run(
      load,
      Number.POSITIVE_INFINITY,
      Number.POSITIVE_INFINITY,
    )
    const stages = this.#sumUsage().map((after, i) => subtractUsage(after, before[i]!))
    this.#lastPlay = { elapsedMs, requests: sentMs.length, stages }
    return {
      sentMs: Float64Array.from(sentMs),
      latencyMs: Float64Array.from(latencyMs),
      failure,
    }
  }

  /** Plays a load, but no longer than until more than `most` requests are over the limit. */
  countViolations(load: Load, limitMs: number, most: number): ViolationCounts {
    const { sentMs, violations, failed } = this.#run(load, limitMs, most)
    return { requests: sentMs.length, violations, failed }
  }

  #run(load: Load, limitMs: number, most: number): Run {
    for (const queue of this.#queues) queue.reset()
    const run = new Run(this.#stages, this.#queues, limitMs)
    const arrivals =
      load.kind === 'open' ? this.#options.schedule(load) : new Float64Array(load.connections)
    run.toTheEnd(arrivals, load.kind === 'closed' ? load.durationS * 1000 : 0, most)
    return run
  }

  /** Usage of each stage over all loads. */
  #sumUsage(): readonly SimulatedStageUsage[] {
    return this.#stages.map(({ name, queues, visits, visitMs }) => ({
      stage: name,
      visits,
      visitMs,
      cpuBusyMs: sum(queues.map((i) => this.#queues[i]!.usage.cpuBusyMs)),
      deviceBusyMs: sum(queues.map((i) => this.#queues[i]!.usage.deviceBusyMs)),
    }))
  }
}

class Run {
  readonly sentMs: number[] = []
  readonly latencyMs: number[] = []
  violations = 0
  failed = 0
  elapsedMs = 0
  /** Visits under way, by their numbers; free numbers are used again. */
  readonly #visits: Visit[] = []
  readonly #free: number[] = []
  /** Visits that arrive later, by number. */
  readonly #coming = new TimedHeap()
  readonly #dueMs: Float64Array
  #closedUntilMs = 0

  constructor(
    private readonly stages: readonly StageState[],
    private readonly queues: readonly BatchQueue[],
    private readonly limitMs: number,
  ) {
    this.#dueMs = new Float64Array(queues.length).fill(Number.POSITIVE_INFINITY)
  }

  /**
   * @param arrivals of an open load, or the first requests of a closed one
   * @param closedUntilMs until then each answer of a closed load is followed by a request
   */
  toTheEnd(arrivals: Float64Array, closedUntilMs: number, most: number): void {
    this.#closedUntilMs = closedUntilMs
    const answer = (number: number, answeredMs: number) => this.#finishWork(number, answeredMs)
    let next = 0
    while (this.violations <= most) {
      const arrivalMs = next < arrivals.length ? arrivals[next]! : Number.POSITIVE_INFINITY
      let queue = 0
      for (let i = 1; i < this.#dueMs.length; i++)
        if (this.#dueMs[i]! < this.#dueMs[queue]!) queue = i
      const dueMs = this.#dueMs[queue]!
      const comingMs = this.#coming.nextMs
      const nowMs = Math.min(arrivalMs, comingMs, dueMs)
      if (nowMs === Number.POSITIVE_INFINITY) return
      if (arrivalMs === nowMs) {
        next++
        this.#send(arrivalMs)
      } else if (comingMs === nowMs) {
        const number = this.#coming.pop()
        if (number === newRequest) this.#send(nowMs)
        else this.#arrive(number)
      } else {
        this.queues[queue]!.dispatch(dueMs, answer)
        this.#dueMs[queue] = this.queues[queue]!.computeNextDispatchMs()
      }
    }
  }

  /** A request arrives at the entry. */
  #send(atMs: number): void {
    const request = this.sentMs.push(atMs) - 1
    this.latencyMs.push(Number.NaN)
    this.#arrive(this.#createVisit(request, 0, undefined, mixHash(1, request), atMs))
  }

  #createVisit(
    request: number,
    stage: number,
    parent: Visit | undefined,
    hash: number,
    arrivedMs: number,
  ): number {
    const number = this.#free.pop() ?? this.#visits.length
    this.#visits[number] = {
      request,
      stage,
      parent,
      hash,
      arrivedMs,
      pending: [],
      open: 0,
      answeredMs: arrivedMs,
      failed: false,
    }
    return number
  }

  #arrive(number: number): void {
    const visit = this.#visits[number]!
    const { queues, overheadMs } = this.stages[visit.stage]!
    const queue = queues[Math.floor(toUniform(mixHash(visit.hash, 2)) * queues.length)]!
    // The jitter of the entry follows the number of the request, as with a single predictor.
    const jitter = visit.parent === undefined ? visit.request : visit.hash & 0xfffff
    const hasRoom = this.queues[queue]!.arrive(number, visit.arrivedMs, jitter)
    if (!hasRoom) {
      visit.failed = true
      visit.answeredMs = visit.arrivedMs + overheadMs
      this.#free.push(number)
      this.#endVisit(visit)
      return
    }
    this.#dueMs[queue] = this.queues[queue]!.computeNextDispatchMs()
  }

  /** The stage has done its own work for a visit; its calls follow. */
  #finishWork(number: number, answeredMs: number): void {
    const visit = this.#visits[number]!
    this.#free.push(number)
    const stage = this.stages[visit.stage]!
    stage.visits++
    stage.visitMs += answeredMs - visit.arrivedMs
    visit.answeredMs = answeredMs
    const calls = stage.calls.flatMap(({ stage, ratio }, i) =>
      Array.from({ length: drawCallCount(ratio, mixHash(visit.hash, 16 + i)) }, (_, copy) => ({
        stage,
        hash: mixHash(visit.hash, 1024 + 64 * i + copy),
      })),
    )
    if (calls.length === 0) {
      this.#endVisit(visit)
      return
    }
    const first = stage.parallelCalls ? calls : calls.slice(0, 1)
    visit.pending = stage.parallelCalls ? [] : calls.slice(1)
    visit.open = first.length
    for (const call of first) this.#call(visit, call, answeredMs)
  }

  #call(parent: Visit, call: Visit['pending'][number], atMs: number): void {
    this.#coming.push(atMs, this.#createVisit(parent.request, call.stage, parent, call.hash, atMs))
  }

  /** A visit is answered: its caller continues, or the request is. */
  #endVisit({ parent, request, answeredMs, failed }: Visit): void {
    if (parent === undefined) {
      this.#answerRequest(request, answeredMs, failed)
      return
    }
    parent.answeredMs = Math.max(parent.answeredMs, answeredMs)
    parent.failed ||= failed
    const [next, ...pending] = parent.pending
    if (next !== undefined && !parent.failed) {
      parent.pending = pending
      this.#call(parent, next, parent.answeredMs)
    } else if (--parent.open === 0) this.#endVisit(parent)
  }

  #answerRequest(request: number, answeredMs: number, failed: boolean): void {
    const tookMs = answeredMs - this.sentMs[request]!
    this.latencyMs[request] = failed ? Number.NaN : tookMs
    if (failed) this.failed++
    if (failed || tookMs > this.limitMs) this.violations++
    this.elapsedMs = Math.max(this.elapsedMs, answeredMs)
    if (answeredMs < this.#closedUntilMs) this.#coming.push(answeredMs, newRequest)
  }
}
