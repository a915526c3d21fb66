import { performance } from 'node:perf_hooks'
import type { Dispatcher, Pool } from 'undici'
import { poolFor, requestsOf } from './http-sender.ts'
import type { HttpTarget } from './messages.ts'
import { errorKind } from './recorder.ts'
import type { Ended, Sender } from './sender.ts'
import { TokenStream } from './token-stream.ts'

/** Streamed completions of the OpenAI protocol, their tokens timed as their chunks come. */
export class SseSender implements Sender {
  private readonly pool: Pool
  private readonly requests: Dispatcher.DispatchOptions[]

  constructor(target: HttpTarget) {
    this.pool = poolFor(target)
    this.requests = requestsOf(target)
  }

  async connect(): Promise<void> {}

  send(index: number, ended: Ended): { abandon(): void } {
    const answer = new StreamedAnswer(ended)
    this.pool.dispatch(this.requests[index % this.requests.length]!, answer)
    return answer
  }

  close(): Promise<void> {
    return this.pool.destroy()
  }
}

class StreamedAnswer implements Dispatcher.DispatchHandler {
  private readonly sentMs = performance.now()
  private readonly tokens = new TokenStream()
  private controller: Dispatcher.DispatchController | undefined
  private abandoned = false
  private status = 0

  constructor(private readonly ended: Ended) {}

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
    this.tokens.push(chunk, performance.now() - this.sentMs)
  }

  onResponseEnd(): void {
    if (this.abandoned) return
    if (this.status < 200 || this.status > 299) this.ended(`status ${this.status}`)
    else this.ended(this.tokens.fault, this.tokens.times)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.abandoned) return
    this.ended(this.tokens.started ? 'cut stream' : errorKind(error))
  }
}
