/** The CPU stage of the predictor: a pool of worker threads. */
import { Worker } from 'node:worker_threads'
import { resolveThreadEntry } from '../../../profiler/module-entry.ts'
import {
  type PreparedRequest,
  type Reply,
  RequestError,
  type ServedModelInfo,
} from '../protocol/tensors.ts'
import type {
  CpuJob,
  CpuResult,
  DecodeJob,
  EncodeJob,
  FromCpuWorker,
  ToCpuWorker,
} from './cpu-messages.ts'

interface PendingJob {
  readonly job: CpuJob
  resolve(result: Extract<CpuResult, { ok: true }>): void
  reject(error: Error): void
}

interface PoolWorker {
  readonly worker: Worker
  readonly ready: Promise<void>
  busyWith: PendingJob[]
}

/** Jobs up to this total size share a message, which makes small requests cheap. */
const maxMessageBytes = 16_384
const maxJobsPerMessage = 32

/**
 * The predictor's CPU stage: `cores` worker threads that decode, tokenise, resize and encode, each
 * one job at a time. Jobs that arrive together share messages, spread evenly over the idle workers.
 */
export class CpuPool {
  readonly #members: PoolWorker[] = []
  #report: (what: string) => void = () => undefined
  #waiting: PendingJob[] = []
  #scheduled = false
  #closed = false
  /** Resolves with a message when a worker ends by itself; never rejects. */
  readonly died: Promise<string>

  constructor(cores: number) {
    this.died = new Promise((resolve) => {
      this.#report = resolve
    })
    for (let i = 0; i < cores; i++) this.#members.push(this.#start())
  }

  #start(): PoolWorker {
    const worker = new Worker(resolveThreadEntry('./cpu-worker', import.meta.url), { execArgv: [] })
    let becomeReady: () => void
    const ready = new Promise<void>((resolve) => {
      becomeReady = resolve
    })
    const member: PoolWorker = { worker, ready, busyWith: [] }
    worker.on('message', (message: FromCpuWorker) =>
      message === 'ready' ? becomeReady() : this.#finish(member, message),
    )
    worker.once('error', (error) => this.#report(`CPU worker failed: ${error.message}`))
    worker.once('exit', (code) => {
      for (const waiting of member.busyWith.splice(0))
        waiting.reject(new RequestError(503, 'the predictor is stopping'))
      if (!this.#closed && this.#members.includes(member))
        this.#report(`CPU worker ended with code ${code}`)
    })
    return member
  }

  /** Starts or ends idle workers. Call `serve` afterwards. */
  async resize(cores: number): Promise<void> {
    while (this.#members.length < cores) this.#members.push(this.#start())
    await Promise.all(this.#members.splice(cores).map(({ worker }) => worker.terminate()))
  }

  /**
   * Sends the served models to the workers and waits until they are ready. Rejects if one fails.
   */
  async serve(models: readonly ServedModelInfo[]): Promise<void> {
    for (const { worker } of this.#members)
      worker.postMessage({ type: 'models', models } satisfies ToCpuWorker)
    const failed = this.died.then((what) => {
      throw new Error(what)
    })
    await Promise.race([failed, Promise.all(this.#members.map(({ ready }) => ready))])
  }

  /** Rejects with RequestError. `ms`: time on the worker. */
  async decode(job: DecodeJob): Promise<{ request: PreparedRequest; ms: number }> {
    const { value, ms } = await this.#run(job)
    return { request: value as PreparedRequest, ms }
  }

  /** Rejects with RequestError. */
  async encode(job: EncodeJob): Promise<Reply> {
    return (await this.#run(job)).value as Reply
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#members.map(({ worker }) => worker.terminate()))
    for (const waiting of this.#waiting.splice(0))
      waiting.reject(new RequestError(503, 'the predictor is stopping'))
  }

  #run(job: CpuJob): Promise<Extract<CpuResult, { ok: true }>> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ job, resolve, reject })
      if (this.#scheduled) return
      this.#scheduled = true
      // After this turn of the event loop, so that requests read from several sockets share
      // messages.
      setImmediate(() => this.#dispatch())
    })
  }

  #dispatch(): void {
    this.#scheduled = false
    const idle = this.#members.filter((member) => member.busyWith.length === 0)
    for (const [i, member] of idle.entries()) {
      if (this.#waiting.length === 0) return
      member.busyWith = this.#nextShare(Math.ceil(this.#waiting.length / (idle.length - i)))
      const jobs = member.busyWith.map((waiting) => waiting.job)
      member.worker.postMessage(
        { type: 'jobs', jobs } satisfies ToCpuWorker,
        jobs.flatMap(listTransferables),
      )
    }
  }

  #nextShare(fair: number): PendingJob[] {
    let count = 1
    let bytes = getJobBytes(this.#waiting[0]!.job)
    while (count < fair && count < maxJobsPerMessage) {
      bytes += getJobBytes(this.#waiting[count]!.job)
      if (bytes > maxMessageBytes) break
      count += 1
    }
    return this.#waiting.splice(0, count)
  }

  #finish(member: PoolWorker, results: readonly CpuResult[]): void {
    const done = member.busyWith
    member.busyWith = []
    if (this.#waiting.length > 0) this.#dispatch()
    results.forEach((result, i) => {
      if (result.ok) done[i]!.resolve(result)
      else done[i]!.reject(new RequestError(result.status, result.message))
    })
  }
}

const getJobBytes = (job: CpuJob): number =>
  job.kind === 'decode'
    ? job.body.length
    : Object.values(job.outputs).reduce((sum, tensor) => sum + tensor.data.byteLength, 0)

const listTransferables = (job: CpuJob): ArrayBuffer[] =>
  job.kind === 'decode' && typeof job.body !== 'string' ? [job.body.buffer as ArrayBuffer] : []
