import { validateHeaderName, validateHeaderValue } from 'node:http'
import { getMaxAnswerBytes } from '../bounded-reader.ts'
import type { HttpTarget } from '../model/target.ts'
import { parseServerAddress } from '../server-address.ts'
import {
  type AnswerReader,
  answerTooLarge,
  badEncoding,
  ExpectedTextReader,
  resolveOutcome,
} from './answer-reader.ts'
import { AnswerSampler } from './answer-sampler.ts'
import { BodyDecoder } from './content-encoding.ts'
import {
  type Endpoint,
  Http1Connection,
  type RequestEvents,
  type RequestFailure,
} from './http1-connection.ts'
import { classifyError } from './recorder.ts'
import { type ConnectionCounts, convertBodies, type OnRequestEnd, type Sender } from './sender.ts'
import { buildTlsOptions } from './tls.ts'

/** Limit on the connections where the target sets none. Assumed. */
const defaultConnections = 512
/** Longer bodies are written separately from their heads, which saves a copy. */
const maxCopiedBytes = 16 * 1024
/**
 * A connection is no longer reused this long before its announced idle timeout, but is for at least
 * half of that.
 */
const idleMarginMs = 500

/**
 * Sends requests over HTTP/1.1 on a pool of connections, one at a time on each, without timeouts of
 * its own. The connection that has been idle longest is used next: a server may assign connections
 * to its workers, and every worker should get requests. Connections that the server closes are
 * replaced. A request that crossed such a close (close-race.ts) is sent once more, on a new
 * connection.
 */
export class HttpSender implements Sender {
  readonly counts: ConnectionCounts = { opened: 0, closed: 0, retried: 0 }
  private readonly requests: readonly (readonly Uint8Array[])[]
  private readonly endpoint: Endpoint
  private readonly maxConnections: number
  private readonly sampler: AnswerSampler
  /** All connections: opening, idle and busy. */
  private readonly connections = new Set<Http1Connection>()
  /** The longest idle one first. */
  private idle: Http1Connection[] = []
  /** Requests without a connection, in the order of their sends. */
  private queued: Http1Exchange[] = []
  private connecting = 0

  /** @param createReader called when a request is sent, for the reader of its answer */
  constructor(
    target: HttpTarget,
    private readonly createReader: () => AnswerReader = () => new ExpectedTextReader(target.expect),
  ) {
    this.sampler = new AnswerSampler(target)
    this.endpoint = {
      url: target.url,
      tls: buildTlsOptions(target.tls),
      session: { last: undefined },
    }
    this.maxConnections = target.connections ?? defaultConnections
    this.requests = convertBodies(target, (body) => encodeRequest(target, body))
  }

  /** Connections open on demand. */
  async connect(): Promise<void> {}

  takeSamples() {
    return this.sampler.takeSamples()
  }

  send(index: number, onEnd: OnRequestEnd): { abandon(): void } {
    const bodyIndex = index % this.requests.length
    const exchange = new Http1Exchange(
      this.requests[bodyIndex]!,
      onEnd,
      this.sampler.wrapReader(bodyIndex, this.createReader()),
      (failed) => this.retry(failed),
    )
    const connection = this.takeIdle()
    if (connection !== undefined) exchange.start(connection)
    else {
      this.queued.push(exchange)
      this.openIfNeeded()
    }
    return exchange
  }

  async close(): Promise<void> {
    this.queued = []
    this.idle = []
    for (const connection of [...this.connections]) connection.destroy()
  }

  /** Takes the longest idle connection, and closes those whose idle timeout is near. */
  private takeIdle(): Http1Connection | undefined {
    for (
      let connection = this.idle.shift();
      connection !== undefined;
      connection = this.idle.shift()
    ) {
      if (
        performance.now() - connection.idleSinceMs <
        Math.max(connection.idleTimeoutMs - idleMarginMs, connection.idleTimeoutMs / 2)
      )
        return connection
      this.counts.closed++
      connection.destroy()
    }
    return undefined
  }

  private takeQueued(): Http1Exchange | undefined {
    let exchange = this.queued.shift()
    while (exchange?.isAbandoned) exchange = this.queued.shift()
    return exchange
  }

  private openIfNeeded(): void {
    if (this.connecting < this.queued.length) this.open()
  }

  /**
   * Opens a connection, unless there are as many as allowed: then the request waits, ahead of
   * others.
   * @param exchange first request of the new connection; absent: the next one that waits
   */
  private open(exchange?: Http1Exchange): void {
    if (this.connections.size >= this.maxConnections) {
      if (exchange !== undefined) this.queued.unshift(exchange)
      return
    }
    this.counts.opened++
    this.connecting++
    const connection: Http1Connection = new Http1Connection(this.endpoint, {
      onConnect: () => {
        this.connecting--
        this.assign(connection, exchange)
      },
      onUnreachable: (error) => {
        this.connecting--
        this.connections.delete(connection)
        const failedExchange = exchange ?? this.takeQueued()
        failedExchange?.onFailure({ error, retriable: false })
        this.openIfNeeded()
      },
      onReusable: () => this.assign(connection),
      onClose: (byServer) => {
        if (byServer) this.counts.closed++
        this.connections.delete(connection)
        const position = this.idle.indexOf(connection)
        if (position >= 0) this.idle.splice(position, 1)
        this.openIfNeeded()
      },
    })
    this.connections.add(connection)
  }

  /**
   * Sends `reserved`, else the next queued request, on a free connection; without one it is idle.
   */
  private assign(connection: Http1Connection, reserved?: Http1Exchange): void {
    const exchange = reserved === undefined || reserved.isAbandoned ? this.takeQueued() : reserved
    if (exchange === undefined) this.idle.push(connection)
    else exchange.start(connection)
  }

  private retry(exchange: Http1Exchange): void {
    this.counts.retried++
    this.open(exchange)
  }
}

/**
 * Encodes a request: its head and its body in one part, or in two for a long body.
 * @throws TypeError for a header that HTTP does not allow
 */
function encodeRequest(
  { url, path, headers }: HttpTarget,
  { body, contentType }: HttpTarget['bodies'][number],
): Uint8Array[] {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const fields = {
    host: parseServerAddress(url)!.host,
    ...lowerCaseNames(headers),
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

const lowerCaseNames = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** One request and its answer, over one or two connections. */
class Http1Exchange implements RequestEvents {
  isAbandoned = false
  private connection: Http1Connection | undefined
  private wasRetried = false
  private decoder: BodyDecoder | undefined
  /** Bytes that the answer may still have. */
  private bytesLeft = getMaxAnswerBytes()

  constructor(
    private readonly request: readonly Uint8Array[],
    private readonly onEnd: OnRequestEnd,
    private readonly reader: AnswerReader,
    private readonly retry: (exchange: Http1Exchange) => void,
  ) {}

  start(connection: Http1Connection): void {
    this.connection = connection
    connection.send(this.request, this)
  }

  abandon(): void {
    if (this.isAbandoned) return
    this.isAbandoned = true
    this.decoder?.abandon()
    this.connection?.destroy()
  }

  onBody(chunk: Buffer, encoding: string | undefined): void {
    if (this.isAbandoned) return
    this.decoder ??= new BodyDecoder(encoding, (part) => this.read(part))
    this.decoder.write(chunk)
  }

  private read(chunk: Buffer): void {
    if (this.isAbandoned) return
    this.bytesLeft -= chunk.length
    if (this.bytesLeft >= 0) this.reader.read(chunk)
    else {
      this.abandon()
      this.onEnd(answerTooLarge)
    }
  }

  onAnswer(status: number): void {
    this.connection = undefined
    if (this.isAbandoned) return
    const end = (isEncodingInvalid: boolean) => {
      if (this.isAbandoned) return
      const { failure, stream } = isEncodingInvalid
        ? { failure: badEncoding }
        : resolveOutcome(status, this.reader)
      this.onEnd(failure, stream)
    }
    if (this.decoder === undefined) end(false)
    else this.decoder.end(end)
  }

  onFailure({ error, retriable }: RequestFailure): void {
    this.connection = undefined
    if (this.isAbandoned) return
    if (retriable && !this.wasRetried) {
      this.wasRetried = true
      this.retry(this)
    } else this.onEnd(this.reader.classifyInterruption() ?? classifyError(error))
  }
}
