/**
 * Open loop: requests leave at the times of a schedule whatever the server does, and each is timed from its intended send,
 * so that a stalled server cannot hide the requests it delayed (coordinated omission: Schroeder et al., NSDI 2006; wrk2).
 */
import { performance } from 'node:perf_hooks'
import type { Load, LoadRun } from '../types.ts'
import { schedule } from './arrivals.ts'
import type { HttpTarget } from './child-messages.ts'
import { Recorder } from './recorder.ts'
import type { Sender, StreamTimes } from './sender.ts'
import { StallWatch } from './stall-watch.ts'

type OpenLoad = Extract<Load, { kind: 'open' }>

/** Requests under way beyond which further ones are dropped and counted. */
const maxUnderWay = 20_000
const leadMs = 5
const sweepPeriodMs = 10

/** Plays an open load and waits for every answer, each up to the target's timeout. */
export async function playOpen(target: HttpTarget, load: OpenLoad, sender: Sender, signal: AbortSignal): Promise<LoadRun> {
  await sender.connect()
  return new OpenRun(target, load, sender).play(signal)
}

class OpenRun {
  private readonly recorder = new Recorder()
  private readonly atMs: Float64Array
  private readonly underWay = new Set<Request>()
  private readonly startMs = performance.now() + leadMs
  private next = 0
  private over = 0
  private readonly cut: OpenLoad['cut']
  private cutMs: number | undefined
  private done: () => void = () => {}

  constructor(
    private readonly target: HttpTarget,
    private readonly load: OpenLoad,
    private readonly sender: Sender,
  ) {
    this.atMs = schedule(load)
    this.cut = load.cut
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
    const watch = new StallWatch(sweepPeriodMs)
    const sweeper = setInterval(() => {
      watch.tick(this.now())
      this.sweep()
    }, sweepPeriodMs)
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
      stallsMs: watch.stallsMs(),
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
    let sent: { abandon(): void } | undefined
    const request: Request = { index, intendedMs, abandon: () => sent?.abandon() }
    this.underWay.add(request)
    sent = this.sender.send(index, (failure, stream) => this.ended(request, failure, stream))
  }

  /** The end of a request: its latency, or the class of its failure. */
  private ended(request: Request, failure: string | undefined, stream?: StreamTimes): void {
    if (!this.underWay.delete(request)) return
    const latencyMs = this.now() - request.intendedMs
    if (failure === undefined) this.recorder.answered(request.index, latencyMs, stream)
    else this.recorder.failed(request.index, failure)
    if (this.cut !== undefined && (failure !== undefined || latencyMs > this.cut.overMs)) this.over++
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
    const { cut } = this
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

interface Request {
  readonly index: number
  readonly intendedMs: number
  abandon(): void
}
