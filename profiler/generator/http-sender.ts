import { type Dispatcher, Pool } from 'undici'
import type { HttpTarget } from './messages.ts'
import { errorKind } from './recorder.ts'
import type { Ended, Sender } from './sender.ts'

const defaultConnections = 512

/** A pool of keep-alive connections to the target, without time-outs of its own. */
export const poolFor = (target: HttpTarget): Pool =>
  new Pool(target.url, {
    connections: target.connections ?? defaultConnections,
    allowH2: target.http2 ?? false,
    pipelining: target.http2 ? 100 : 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 60_000,
    connect: { timeout: target.timeoutMs },
  })

/** The target's bodies as requests, made once. */
export const requestsOf = (target: HttpTarget): Dispatcher.DispatchOptions[] =>
  target.bodies.map(({ contentType, body }) => ({
    method: 'POST',
    path: target.path,
    headers: { ...target.headers, 'content-type': contentType },
    body: typeof body === 'string' ? Buffer.from(body) : body,
  }))

/** One answer to one request, over HTTP. */
export class HttpSender implements Sender {
  private readonly pool: Pool
  private readonly requests: Dispatcher.DispatchOptions[]

  constructor(private readonly target: HttpTarget) {
    this.pool = poolFor(target)
    this.requests = requestsOf(target)
  }

  async connect(): Promise<void> {}

  send(index: number, ended: Ended): { abandon(): void } {
    const answer = new Answer(ended, this.target.expect)
    this.pool.dispatch(this.requests[index % this.requests.length]!, answer)
    return answer
  }

  close(): Promise<void> {
    return this.pool.destroy()
  }
}

class Answer implements Dispatcher.DispatchHandler {
  private controller: Dispatcher.DispatchController | undefined
  private abandoned = false
  private status = 0
  private text: Buffer[] = []

  constructor(
    private readonly ended: Ended,
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
    if (this.abandoned) return
    if (this.status < 200 || this.status > 299) this.ended(`status ${this.status}`)
    else if (this.expect !== undefined && !Buffer.concat(this.text).includes(this.expect)) this.ended('bad answer')
    else this.ended(undefined)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (!this.abandoned) this.ended(errorKind(error))
  }
}
