/** Sends the requests of open and closed loops, enforces their deadlines and records them. */

import { performance } from 'node:perf_hooks'
import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from '../model/target.ts'
import { PauseDetector } from './pause-detector.ts'
import { Recorder } from './recorder.ts'
import type { RequestHandle, Sender, StreamTimes } from './sender.ts'

/** A request in progress, with its entry in the recorder. */
interface Exchange {
  readonly index: number
  readonly intendedMs: number
  readonly onEnd: OnExchangeEnd
  abandon(): void
}

type OnExchangeEnd = (failure: string | undefined, latencyMs: number) => void

/** Period of the checks of deadlines and for pauses of this process. */
const sweepPeriodMs = 10
/**
 * A server has fallen silent after this multiple of the longest gap between its bytes so far.
 * Assumed.
 */
const silentGapFactor = 3

/**
 * One run over a sender: its clock, the requests in progress in send order, their deadlines, and
 * the detection of pauses of this process.
 */
export class Exchanges {
  readonly inFlight = new Set<Exchange>()
  private readonly recorder = new Recorder()
  /** By performance.now(). */
  readonly startMs: number
  private readonly cpuBefore = process.cpuUsage()
  private readonly pauses = new PauseDetector(sweepPeriodMs)
  private readonly countsBefore: Sender['counts']
  private resolveFinished: () => void = () => {}

  /** @param leadMs time until the run starts */
  constructor(
    private readonly target: HttpTarget,
    private readonly sender: Sender,
    private readonly leadMs = 0,
  ) {
    this.countsBefore = sender.counts && { ...sender.counts }
    this.startMs = performance.now() + leadMs
  }

  /** Milliseconds since the start. */
  now(): number {
    return performance.now() - this.startMs
  }

  /**
   * Sends the next body and reports how it ended: by an answer, its deadline, or an error class.
   */
  send(intendedMs: number, onEnd: OnExchangeEnd): void {
    const index = this.recorder.addRequest(intendedMs, this.now() - intendedMs)
    let handle: RequestHandle | undefined
    const exchange: Exchange = { index, intendedMs, onEnd, abandon: () => handle?.abandon() }
    this.inFlight.add(exchange)
    handle = this.sender.send(index, (failure, stream) => this.recordEnd(exchange, failure, stream))
    if (handle.requestClass !== undefined) this.recorder.setClass(index, handle.requestClass)
  }

  /** Counts a request that was not sent as failed. */
  recordDropped(intendedMs: number): void {
    this.recorder.recordFailure(
      this.recorder.addRequest(intendedMs, this.now() - intendedMs),
      'dropped',
    )
  }

  /**
   * Runs until `end` is called. Rejects with the signal's reason.
   * @param start sends the first requests
   * @param sweep called every `sweepPeriodMs`
   */
  async run(
    signal: AbortSignal,
    start: () => void,
    sweep: (nowMs: number) => void = () => {},
  ): Promise<void> {
    // An abort while the connections were opened fires no event any more.
    signal.throwIfAborted()
    const finished = new Promise<void>((resolve) => {
      this.resolveFinished = resolve
    })
    const onAbort = () => this.resolveFinished()
    signal.addEventListener('abort', onAbort, { once: true })
    const sweeper = setInterval(() => {
      const now = this.now()
      this.pauses.tick(now)
      this.expire(now)
      sweep(now)
    }, sweepPeriodMs)
    try {
      start()
      await finished
    } finally {
      clearInterval(sweeper)
      signal.removeEventListener('abort', onAbort)
      if (signal.aborted) for (const exchange of this.inFlight) exchange.abandon()
    }
    signal.throwIfAborted()
  }

  end(): void {
    this.resolveFinished()
  }

  /**
   * Ends the run. Requests in progress count with the age they reached, a lower bound of their
   * latency.
   */
  cut(nowMs: number): void {
    for (const exchange of this.inFlight) {
      this.recorder.recordAnswer(exchange.index, nowMs - exchange.intendedMs)
      exchange.abandon()
    }
    this.inFlight.clear()
    this.resolveFinished()
  }

  /** Builds the record of the run, once it has ended. */
  buildRun(
    load: Load,
    { seconds, planned, cutMs }: { seconds: number; planned?: number; cutMs?: number },
  ): LoadRun {
    const cpu = process.cpuUsage(this.cpuBefore)
    const elapsedMs = this.now() + this.leadMs
    const { counts } = this.sender
    const countSince = (name: 'opened' | 'closed' | 'retried') =>
      counts![name] - this.countsBefore![name]
    return this.recorder.buildRun(load, {
      seconds,
      planned,
      cutMs,
      generatorPausesMs: this.pauses.listSpansMs(),
      elapsedS: elapsedMs / 1000,
      generatorCores: (cpu.user + cpu.system) / 1e3 / elapsedMs,
      ...(counts && {
        connections: {
          opened: countSince('opened'),
          closed: countSince('closed'),
          retried: countSince('retried'),
        },
      }),
    })
  }

  private recordEnd(exchange: Exchange, failure: string | undefined, stream?: StreamTimes): void {
    if (!this.inFlight.delete(exchange)) return
    const latencyMs = this.now() - exchange.intendedMs
    if (failure === undefined) this.recorder.recordAnswer(exchange.index, latencyMs, stream)
    else this.recorder.recordFailure(exchange.index, failure)
    exchange.onEnd(failure, latencyMs)
  }

  /**
   * Fails requests past their deadline, and all requests to a server that has fallen silent.
   * Requests are in send order, so the first one within its deadline ends the loop.
   */
  private expire(nowMs: number): void {
    const isServerSilent = this.isSilent(nowMs)
    for (const exchange of this.inFlight) {
      if (!isServerSilent && nowMs - exchange.intendedMs < this.target.timeoutMs) break
      exchange.abandon()
      this.recordEnd(exchange, 'timeout')
    }
  }

  /** Whether a server of streams has fallen silent while requests were in progress. */
  private isSilent(nowMs: number): boolean {
    const { activity } = this.sender
    const { silentMs } = this.target
    const [oldest] = this.inFlight
    if (silentMs === undefined || activity === undefined || oldest === undefined) return false
    const sinceMs = Math.max(activity.lastByteMs - this.startMs, oldest.intendedMs)
    return nowMs - sinceMs > Math.max(silentMs, silentGapFactor * activity.longestGapMs)
  }
}
