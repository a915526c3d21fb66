/**
 * One version of a model from request to reply: admit, decode on a CPU worker, wait in the batcher,
 * compute on an idle engine instance, encode.
 */

import type { CpuPool } from '../cpu/cpu-pool.ts'
import { OutOfMemoryError, type Tensor, type Tensors } from '../engine.ts'
import type { EngineHost, EngineInstance } from '../engines/engine-host.ts'
import { encodeReply } from '../protocol/codec.ts'
import {
  type Reply,
  type ReplyFormat,
  RequestError,
  type ServedModelInfo,
} from '../protocol/tensors.ts'
import { Batcher, type BatchPolicy, type QueuedUnit } from './batcher.ts'
import type { ModelMetrics } from './metrics.ts'

/** Rows `from` to `from + items` of a request's tensors, which travel in one batch. */
interface Unit {
  readonly tensors: Tensors
  readonly from: number
  readonly items: number
  resolve(outputs: Tensors): void
  reject(error: Error): void
}

/**
 * Larger replies are encoded by a CPU worker; for smaller ones, the transfer costs more than the
 * work.
 */
const inlineReplyNumbers = 128

/**
 * Timers fire on whole milliseconds: a batch is sent up to half of one early or late rather than up
 * to one late.
 */
const timerMs = 1

/** One version of a model: CPU stage, batcher and engine instances in a row. */
export class ServedModel {
  readonly info: ServedModelInfo
  readonly host: EngineHost
  readonly #pool: CpuPool
  readonly #metrics: ModelMetrics
  readonly #policy: BatchPolicy
  readonly #batcher: Batcher<Unit>
  readonly #idle: EngineInstance[]
  #decoding = 0
  #answering = 0
  #computeMsPerItem = 0
  #pumping = false
  #timer: NodeJS.Timeout | undefined
  #drained: (() => void) | undefined

  constructor(
    info: ServedModelInfo,
    host: EngineHost,
    pool: CpuPool,
    policy: BatchPolicy,
    metrics: ModelMetrics,
  ) {
    this.info = info
    this.host = host
    this.#pool = pool
    this.#policy = policy
    this.#metrics = metrics
    this.#batcher = new Batcher(policy, () => performance.now())
    this.#idle = [...host.instances]
  }

  /** Items in the queue, and requests on their way to it. */
  get waiting(): number {
    return this.#batcher.items + this.#decoding
  }

  /**
   * Seconds after which a rejected client may retry: the time to process the queue, at least 1,
   * because Retry-After is in whole seconds.
   */
  get retryAfterSeconds(): number {
    return Math.max(
      1,
      Math.ceil((this.waiting * this.#computeMsPerItem) / this.host.instances.length / 1000),
    )
  }

  /**
   * Serves one inference request.
   * Rejects with RequestError: 400 for its content, 429 when the queue is full, 500 when the engine
   * fails.
   */
  async infer(
    protocol: ReplyFormat['protocol'],
    body: string | Uint8Array,
    headerLength?: number,
  ): Promise<Reply> {
    const arrivedAt = performance.now()
    this.#answering += 1
    try {
      const reply = await this.#answer(protocol, body, headerLength)
      this.#metrics.answered(performance.now() - arrivedAt)
      return reply
    } catch (error) {
      this.#metrics.refused(error instanceof RequestError ? error.status : 500)
      throw error
    } finally {
      this.#answering -= 1
      if (this.#answering === 0) this.#drained?.()
    }
  }

  /**
   * Sends waiting units without delay, and resolves when every request is answered. New requests
   * are rejected.
   */
  drain(): Promise<void> {
    this.#batcher.flush()
    this.#pump()
    if (this.#answering === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#drained = resolve
    })
  }

  async #answer(
    protocol: ReplyFormat['protocol'],
    body: string | Uint8Array,
    headerLength?: number,
  ): Promise<Reply> {
    this.#admit(1)
    const { version } = this.info
    const { request, ms } = await this.#decode({
      kind: 'decode',
      protocol,
      version,
      body,
      headerLength,
    })
    this.#metrics.preprocessed(ms)
    this.#admit(request.items)
    const outputs = await this.#enqueue(request.tensors, request.items)
    const numbers = Object.values(outputs).reduce((sum, tensor) => sum + tensor.data.length, 0)
    if (numbers <= inlineReplyNumbers) return encodeReply(request.format, outputs, this.info)
    return this.#pool.encode({ kind: 'encode', version, format: request.format, outputs })
  }

  #admit(items: number): void {
    if (this.waiting + items > this.#policy.queueLimit) throw this.#createFullError()
  }

  #createFullError(): RequestError {
    return new RequestError(
      429,
      `the queue is full: ${this.waiting} of ${this.#policy.queueLimit} items are waiting`,
    )
  }

  async #decode(job: Parameters<CpuPool['decode']>[0]) {
    this.#decoding += 1
    try {
      return await this.#pool.decode(job)
    } finally {
      this.#decoding -= 1
    }
  }

  /** Queues the items, in as many units as the batch size asks for. */
  async #enqueue(tensors: Tensors, items: number): Promise<Tensors> {
    const parts: Promise<Tensors>[] = []
    for (let from = 0; from < items; from += this.#policy.maxBatchSize) {
      const count = Math.min(this.#policy.maxBatchSize, items - from)
      parts.push(
        new Promise((resolve, reject) => {
          if (!this.#batcher.offer({ tensors, from, items: count, resolve, reject }, count))
            reject(this.#createFullError())
        }),
      )
    }
    this.#schedulePump()
    return parts.length === 1 ? parts[0]! : concatenate(await Promise.all(parts))
  }

  /** After this turn of the event loop: units that arrive in it may share a batch. */
  #schedulePump(): void {
    if (this.#pumping) return
    this.#pumping = true
    setImmediate(() => {
      this.#pumping = false
      this.#pump()
    })
  }

  #pump(aheadMs = 0): void {
    while (this.#idle.length > 0) {
      const batch = this.#batcher.take(aheadMs)
      if (!batch) break
      void this.#run(this.#idle.pop()!, batch)
    }
    const dueAt = this.#idle.length > 0 ? this.#batcher.dueAt() : undefined
    clearTimeout(this.#timer)
    this.#timer =
      dueAt === undefined
        ? undefined
        : setTimeout(() => this.#pump(timerMs / 2), Math.round(dueAt - performance.now()))
  }

  async #run(instance: EngineInstance, batch: QueuedUnit<Unit>[]): Promise<void> {
    const now = performance.now()
    for (const { arrivedAt } of batch) this.#metrics.queued(now - arrivedAt)
    const units = batch.map(({ unit }) => unit)
    try {
      const { outputs, computeMs } = await instance.infer(pack(units))
      const items = units.reduce((sum, unit) => sum + unit.items, 0)
      this.#metrics.computed(items, computeMs)
      this.#computeMsPerItem = computeMs / items
      this.#free(instance)
      let from = 0
      for (const unit of units) {
        unit.resolve(sliceRows(outputs, from, unit.items))
        from += unit.items
      }
    } catch (error) {
      this.#free(instance)
      const what = error instanceof Error ? error.message : String(error)
      const failure = new RequestError(
        error instanceof OutOfMemoryError ? 503 : 500,
        `the engine failed: ${what}`,
      )
      for (const unit of units) unit.reject(failure)
    }
  }

  #free(instance: EngineInstance): void {
    this.#idle.push(instance)
    this.#pump()
  }
}

const getWidth = (tensor: Tensor) => tensor.data.length / tensor.shape[0]!

/** One batch of the units' rows, in their order. */
function pack(units: readonly Unit[]): Tensors {
  const [first] = units
  if (units.length === 1 && first!.items === Object.values(first!.tensors)[0]!.shape[0])
    return first!.tensors
  const items = units.reduce((sum, unit) => sum + unit.items, 0)
  const packed: Record<string, Tensor> = {}
  for (const [name, tensor] of Object.entries(first!.tensors)) {
    const width = getWidth(tensor)
    const data =
      tensor.data instanceof Float32Array
        ? new Float32Array(items * width)
        : new Int32Array(items * width)
    let at = 0
    for (const unit of units) {
      const rows = unit.tensors[name]!
      data.set(rows.data.subarray(unit.from * width, (unit.from + unit.items) * width), at)
      at += unit.items * width
    }
    packed[name] = { datatype: tensor.datatype, shape: [items, ...tensor.shape.slice(1)], data }
  }
  return packed
}

function sliceRows(outputs: Tensors, from: number, items: number): Tensors {
  const rows: Record<string, Tensor> = {}
  for (const name in outputs) {
    const tensor = outputs[name]!
    const width = getWidth(tensor)
    rows[name] = {
      datatype: tensor.datatype,
      shape: [items, ...tensor.shape.slice(1)],
      data: tensor.data.slice(from * width, (from + items) * width),
    }
  }
  return rows
}

const concatenate = (parts: readonly Tensors[]): Tensors =>
  pack(
    parts.map((tensors) => ({
      tensors,
      from: 0,
      items: Object.values(tensors)[0]!.shape[0]!,
      resolve: () => undefined,
      reject: () => undefined,
    })),
  )
