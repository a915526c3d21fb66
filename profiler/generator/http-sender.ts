import { type Dispatcher, Pool } from 'undici'
import type { HttpTarget } from './child-messages.ts'
import { errorKind } from './recorder.ts'
import type { Ended, Sender, StreamTimes } from './sender.ts'
import { tlsChecks } from './tls.ts'

const defaultConnections = 512

/** Reads one answer with a 2xx status. */
export interface AnswerReader {
  read(chunk: Buffer): void
  /** Its end: the class of an error, undefined for a good answer. */
  end(): { readonly failure: string | undefined; readonly stream?: StreamTimes | undefined }
  /** The class of an error that is the answer's rather than the connection's, which broke. */
  broken(): string | undefined
}

/** Requests over HTTP/1.1 on a pool of keep-alive connections, without time-outs of its own. */
export class HttpSender implements Sender {
  private readonly pool: Pool
  private readonly requests: readonly Dispatcher.DispatchOptions[]

  /** @param reader of one answer, made when its request is sent */
  constructor(
    target: HttpTarget,
    private readonly reader: () => AnswerReader = () => new WholeAnswer(target.expect),
  ) {
    this.pool = new Pool(target.url, {
      connections: target.connections ?? defaultConnections,
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: 60_000,
      connect: { timeout: target.timeoutMs, ...tlsChecks(target.tls) },
    })
    this.requests = oncePerBody(target, ({ contentType, body }) => ({
      method: 'POST',
      path: target.path,
      headers: { ...target.headers, 'content-type': contentType },
      body: typeof body === 'string' ? Buffer.from(body) : body,
    }))
  }

  async connect(): Promise<void> {}

  send(index: number, ended: Ended): { abandon(): void } {
    const exchange = new Exchange(ended, this.reader())
    this.pool.dispatch(this.requests[index % this.requests.length]!, exchange)
    return exchange
  }

  close(): Promise<void> {
    return this.pool.destroy()
  }
}

/** What is made of each of the target's bodies, once for those that a trace repeats. */
export function oncePerBody<T>({ bodies }: Pick<HttpTarget, 'bodies'>, make: (body: HttpTarget['bodies'][number]) => T): T[] {
  const made = new Map<HttpTarget['bodies'][number], T>()
  return bodies.map((body) => {
    const known = made.get(body) ?? make(body)
    made.set(body, known)
    return known
  })
}

/** Good with the string that every good answer contains. */
export class WholeAnswer implements AnswerReader {
  private readonly text: Buffer[] = []

  constructor(private readonly expect: string | undefined) {}

  read(chunk: Buffer): void {
    if (this.expect !== undefined) this.text.push(chunk)
  }

  end() {
    const good = this.expect === undefined || Buffer.concat(this.text).includes(this.expect)
    return { failure: good ? undefined : 'bad answer' }
  }

  broken(): undefined {}
}

/** What an answer that came to its end is: an error class by its status, else what its reader says. */
export const outcomeOf = (status: number, reader: AnswerReader): ReturnType<AnswerReader['end']> =>
  status < 200 || status > 299 ? { failure: `status ${status}` } : reader.end()

/** One request and its answer. */
class Exchange implements Dispatcher.DispatchHandler {
  private controller: Dispatcher.DispatchController | undefined
  private abandoned = false
  private status = 0

  constructor(
    private readonly ended: Ended,
    private readonly reader: AnswerReader,
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
    this.reader.read(chunk)
  }

  onResponseEnd(): void {
    if (this.abandoned) return
    const { failure, stream } = outcomeOf(this.status, this.reader)
    this.ended(failure, stream)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (!this.abandoned) this.ended(this.reader.broken() ?? errorKind(error))
  }
}
