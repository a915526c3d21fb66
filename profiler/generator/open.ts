/**
 * Open loop: requests leave at the times of a schedule whatever the server does, and each is timed from its intended send,
 * so that a stalled server cannot hide the requests it delayed (coordinated omission: Schroeder et al., NSDI 2006; wrk2).
 */
import { performance } from 'node:perf_hooks'
import { type Dispatcher, Pool } from 'undici'
import type { Load, LoadRun } from '../types.ts'
import { schedule } from './arrivals.ts'
import type { HttpTarget } from './messages.ts'
import { errorKind, Recorder } from './recorder.ts'

type OpenLoad = Extract<Load, { kind: 'open' }>

const defaultConnections = 512
/** Requests under way beyond which further ones are dropped and counted. */
const maxUnderWay = 20_000
const leadMs = 5

/** Plays an open load and waits for every answer, each up to the target's timeout. */
export async function playOpen(target: HttpTarget, load: OpenLoad, signal: AbortSignal): Promise<LoadRun> {
  const pool = new Pool(target.url, {
    connections: target.connections ?? defaultConnections,
    allowH2: target.http2 ?? false,
    pipelining: target.http2 ? 100 : 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 60_000,
    connect: { timeout: target.timeoutMs },
  })
  try {
    return await new OpenRun(target, load, pool).play(signal)
  } finally {
    await pool.destroy()
  }
}

class OpenRun {
  private readonly recorder = new Recorder()
  private readonly atMs: Float64Array
  private readonly requests: Dispatcher.DispatchOptions[]
  private readonly underWay = new Set<Request>()
  private readonly startMs = performance.now() + leadMs
  private next = 0
  private over = 0
  private cutMs: number | undefined
  private done: () => void = () => {}

  constructor(
    private readonly target: HttpTarget,
    private readonly load: OpenLoad,
    private readonly pool: Pool,
  ) {
    this.atMs = schedule(load)
    this.requests = target.bodies.map(({ contentType, body }) => ({
      method: 'POST',
      path: target.path,
      headers: { ...target.headers, 'content-type': contentType },
      body: typeof body === 'string' ? Buffer.from(body) : body,
    }))
  }

  now(): number {
    return performance.now() - this.startMs
  }

  async play(signal: AbortSignal): Promise<LoadRun> {
    const cpu = process.cpuUsage()
    const finished = new Promise<void>((resolve) => {
      this.done = resolve
    })
    const abort = () => this.done()
    signal.addEventListener('abort', abort, { once: true })
    const sweeper = setInterval(() => this.sweep(), 10)
    this.sendTimer = setTimeout(() => this.sendDue(), leadMs)
    try {
      await finished
    } finally {
      clearInterval(sweeper)
      clearTimeout(this.sendTimer)
      signal.removeEventListener('abort', abort)
    }
    signal.throwIfAborted()
    const used = process.cpuUsage(cpu)
    return this.recorder.finish(this.load, {
      planned: this.cutMs === undefined ? this.atMs.length : this.next,
      seconds: Math.min((this.cutMs ?? Number.POSITIVE_INFINITY) / 1000, this.load.durationS),
      elapsedS: (this.now() + leadMs) / 1000,
      generatorCores: (used.user + used.system) / 1e3 / (this.now() + leadMs),
      cutMs: this.cutMs,
    })
  }

  private sendTimer: NodeJS.Timeout | undefined

  private sendDue(): void {
    const { atMs } = this
    while (this.cutMs === undefined && this.next < atMs.length && atMs[this.next]! <= this.now()) this.send(atMs[this.next++]!)
    if (this.cutMs !== undefined) return
    if (this.next < atMs.length) this.sendTimer = setTimeout(() => this.sendDue(), atMs[this.next]! - this.now())
    else this.finishIfDone()
  }

  private send(intendedMs: number): void {
    const index = this.recorder.open(intendedMs, this.now() - intendedMs)
    if (this.underWay.size >= maxUnderWay) {
      this.recorder.failed(index, 'dropped')
      return
    }
    const request = new Request(this, index, intendedMs, this.target.expect)
    this.underWay.add(request)
    this.pool.dispatch(this.requests[index % this.requests.length]!, request)
  }

  /** The end of a request: its latency, or the class of its failure. */
  ended(request: Request, failure: string | undefined): void {
    if (!this.underWay.delete(request)) return
    const latencyMs = this.now() - request.intendedMs
    if (failure === undefined) this.recorder.answered(request.index, latencyMs)
    else this.recorder.failed(request.index, failure)
    if (this.load.cut !== undefined && (failure !== undefined || latencyMs > this.load.cut.overMs)) this.over++
    this.finishIfDone()
  }

  /** Ends requests past their deadline, and the whole window once it is lost. Requests under way stand in the order of their sends. */
  private sweep(): void {
    const now = this.now()
    for (const request of this.underWay) {
      if (now - request.intendedMs < this.target.timeoutMs) break
      this.ended(request, 'timeout')
      request.abandon()
    }
    const { cut } = this.load
    if (cut === undefined) return
    let over = this.over
    for (const request of this.underWay) {
      if (now - request.intendedMs <= cut.overMs) break
      over++
    }
    if (over > cut.requests) this.cutShort(now)
  }

  /** Requests under way count with the age they reached: a lower bound of their latency. */
  private cutShort(now: number): void {
    this.cutMs = now
    for (const request of this.underWay) {
      this.recorder.answered(request.index, now - request.intendedMs)
      this.underWay.delete(request)
      request.abandon()
    }
    this.done()
  }

  private finishIfDone(): void {
    if (this.next >= this.atMs.length && this.underWay.size === 0) this.done()
  }
}

class Request implements Dispatcher.DispatchHandler {
  private controller: Dispatcher.DispatchController | undefined
  private abandoned = false
  private status = 0
  private text: Buffer[] = []

  constructor(
    private readonly run: OpenRun,
    readonly index: number,
    readonly intendedMs: number,
    private readonly expect: string | undefined,
  ) {}

  abandon(): void {
    this.abandoned = true
    this.controller?.abort(new Error('abandoned'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller
    if (this.abandoned) controller.abort(new Error('abandoned'))
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    this.status = status
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.expect !== undefined) this.text.push(chunk)
  }

  onResponseEnd(): void {
    if (this.status < 200 || this.status > 299) this.run.ended(this, `status ${this.status}`)
    else if (this.expect !== undefined && !Buffer.concat(this.text).includes(this.expect)) this.run.ended(this, 'bad answer')
    else this.run.ended(this, undefined)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.run.ended(this, errorKind(error))
  }
}
