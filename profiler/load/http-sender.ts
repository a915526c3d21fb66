import { validateHeaderName, validateHeaderValue } from 'node:http'
import { answerBytes } from '../bounded-reader.ts'
import { serverAddress } from '../server-address.ts'
import {
  type AnswerReader,
  badEncoding,
  resolveOutcome,
  tooLarge,
  WholeAnswer,
} from './answer-reader.ts'
import { AnswerSampler } from './answer-sampler.ts'
import type { HttpTarget } from './child-messages.ts'
import { BodyDecoder } from './content-encoding.ts'
import { type Broken, Http1Connection, type OnConnection, type Place } from './http1-connection.ts'
import { errorKind } from './recorder.ts'
import { type ConnectionCounts, type Ended, oncePerBody, type Sender } from './sender.ts'
import { tlsChecks } from './tls.ts'

const defaultConnections = 512
/** Longer bodies are written after their heads instead of being copied behind them. */
const maxCopiedBytes = 16 * 1024
/** A connection is not reused within this time before its announced idle timeout. */
const idleMarginMs = 500

/**
 * Sends requests over HTTP/1.1 on a pool of connections, one at a time on each, without timeouts of
 * its own. The longest idle connection is next, so that every worker of a server with connections
 * per worker gets work. Connections that the server closes are replaced; a request that met such a
 * close is sent once more on a new connection.
 */
export class HttpSender implements Sender {
  readonly counts: ConnectionCounts = { opened: 0, closed: 0, retried: 0 }
  private readonly requests: readonly (readonly Uint8Array[])[]
  private readonly place: Place
  private readonly most: number
  private readonly sampler: AnswerSampler
  private readonly all = new Set<Http1Connection>()
  private idle: Http1Connection[] = []
  private waiting: Exchange[] = []
  private connecting = 0

  /** @param reader creates the reader of an answer when its request is sent */
  constructor(
    target: HttpTarget,
    private readonly reader: () => AnswerReader = () => new WholeAnswer(target.expect),
  ) {
    this.sampler = new AnswerSampler(target)
    this.place = { url: target.url, checks: tlsChecks(target.tls), session: { last: undefined } }
    this.most = target.connections ?? defaultConnections
    this.requests = oncePerBody(target, (body) => requestBytes(target, body))
  }

  async connect(): Promise<void> {}

  takeSampled() {
    return this.sampler.take()
  }

  send(index: number, ended: Ended): { abandon(): void } {
    const body = index % this.requests.length
    const exchange = new Exchange(
      this.requests[body]!,
      ended,
      this.sampler.reading(body, this.reader()),
      (again) => this.again(again),
    )
    const connection = this.nextIdle()
    if (connection !== undefined) exchange.start(connection)
    else {
      this.waiting.push(exchange)
      if (this.connecting < this.waiting.length) this.open()
    }
    return exchange
  }

  async close(): Promise<void> {
    this.waiting = []
    this.idle = []
    for (const connection of [...this.all]) connection.destroy()
  }

  private nextIdle(): Http1Connection | undefined {
    for (
      let connection = this.idle.shift();
      connection !== undefined;
      connection = this.idle.shift()
    ) {
      if (
        performance.now() - connection.idleSinceMs <
        Math.max(connection.keptMs - idleMarginMs, connection.keptMs / 2)
      )
        return connection
      this.counts.closed++
      connection.destroy()
    }
    return undefined
  }

  private nextWaiting(): Exchange | undefined {
    let exchange = this.waiting.shift()
    while (exchange?.abandoned) exchange = this.waiting.shift()
    return exchange
  }

  /** @param exchange first request of the new connection */
  private open(exchange?: Exchange): void {
    if (this.all.size >= this.most) {
      if (exchange !== undefined) this.waiting.unshift(exchange)
      return
    }
    this.counts.opened++
    this.connecting++
    const connection: Http1Connection = new Http1Connection(this.place, {
      connected: () => {
        this.connecting--
        this.use(connection, exchange)
      },
      unreachable: (error) => {
        this.connecting--
        this.all.delete(connection)
        ;(exchange ?? this.nextWaiting())?.broken({ error, untaken: false })
        if (this.connecting < this.waiting.length) this.open()
      },
      free: () => this.use(connection),
      gone: (byServer) => {
        if (byServer) this.counts.closed++
        this.all.delete(connection)
        const at = this.idle.indexOf(connection)
        if (at >= 0) this.idle.splice(at, 1)
        if (this.connecting < this.waiting.length) this.open()
      },
    })
    this.all.add(connection)
  }

  private use(connection: Http1Connection, own?: Exchange): void {
    const exchange = own === undefined || own.abandoned ? this.nextWaiting() : own
    if (exchange === undefined) this.idle.push(connection)
    else exchange.start(connection)
  }

  private again(exchange: Exchange): void {
    this.counts.retried++
    this.open(exchange)
  }
}

/** Bytes of a request: its head and its body. */
function requestBytes(
  { url, path, headers }: HttpTarget,
  { body, contentType }: HttpTarget['bodies'][number],
): Uint8Array[] {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const fields = {
    host: serverAddress(url)!.host,
    ...lowerCased(headers),
    'content-type': contentType,
    'content-length': String(bytes.byteLength),
  }
  for (const [name, value] of Object.entries(fields)) {
    validateHeaderName(name)
    validateHeaderValue(name, value)
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1')
  return bytes.byteLength <= maxCopiedBytes ? [Buffer.concat([head, bytes])] : [head, bytes]
}

const lowerCased = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** One request and its answer. */
class Exchange implements OnConnection {
  abandoned = false
  private connection: Http1Connection | undefined
  private retried = false
  private decoder: BodyDecoder | undefined
  private room = answerBytes()

  constructor(
    private readonly request: readonly Uint8Array[],
    private readonly ended: Ended,
    private readonly reader: AnswerReader,
    private readonly again: (exchange: Exchange) => void,
  ) {}

  start(connection: Http1Connection): void {
    this.connection = connection
    connection.send(this.request, this)
  }

  abandon(): void {
    if (this.abandoned) return
    this.abandoned = true
    this.decoder?.abandon()
    this.connection?.destroy()
  }

  body(chunk: Buffer, encoding: string | undefined): void {
    if (this.abandoned) return
    this.decoder ??= new BodyDecoder(encoding, (part) => this.read(part))
    this.decoder.write(chunk)
  }

  private read(chunk: Buffer): void {
    if (this.abandoned) return
    this.room -= chunk.length
    if (this.room >= 0) this.reader.read(chunk)
    else {
      this.abandon()
      this.ended(tooLarge)
    }
  }

  answered(status: number): void {
    this.connection = undefined
    if (this.abandoned) return
    const end = (fault: boolean) => {
      if (this.abandoned) return
      const { failure, stream } = fault
        ? { failure: badEncoding }
        : resolveOutcome(status, this.reader)
      this.ended(failure, stream)
    }
    if (this.decoder === undefined) end(false)
    else this.decoder.end(end)
  }

  broken({ error, untaken }: Broken): void {
    this.connection = undefined
    if (this.abandoned) return
    if (untaken && !this.retried) {
      this.retried = true
      this.again(this)
    } else this.ended(this.reader.broken() ?? errorKind(error))
  }
}
