import { type ClientHttp2Stream, constants } from 'node:http2'
import { getMaxAnswerBytes } from '../bounded-reader.ts'
import type { HttpTarget } from '../model/target.ts'
import {
  type AnswerReader,
  answerTooLarge,
  badEncoding,
  ExpectedTextReader,
  resolveOutcome,
} from './answer-reader.ts'
import { AnswerSampler } from './answer-sampler.ts'
import { BodyDecoder } from './content-encoding.ts'
import { Http2Connection, type Http2Request } from './http2-connection.ts'
import { type ConnectionCounts, convertBodies, type OnRequestEnd, type Sender } from './sender.ts'
import { buildTlsOptions } from './tls.ts'

/** Limit on the connections where the target sets none. Assumed. */
const defaultConnections = 512
/** Concurrent requests per connection, unless the server allows fewer. Assumed. */
const maxStreamsPerConnection = 100

/**
 * Sends requests as streams over shared connections. It opens another connection when all are full;
 * further requests wait.
 */
export class Http2Sender implements Sender {
  private readonly requests: readonly Http2Request[]
  private readonly sampler: AnswerSampler
  private readonly tlsOptions: ReturnType<typeof buildTlsOptions>
  /** Number of requests in progress on each connection. */
  private readonly connections = new Map<Http2Connection, number>()
  private readonly queued: Http2Exchange[] = []
  readonly counts: ConnectionCounts = { opened: 0, closed: 0, retried: 0 }

  constructor(
    private readonly target: HttpTarget,
    private readonly createReader: () => AnswerReader = () => new ExpectedTextReader(target.expect),
  ) {
    this.sampler = new AnswerSampler(target)
    this.tlsOptions = buildTlsOptions(target.tls)
    this.requests = convertBodies(target, ({ contentType, body }) => ({
      headers: {
        ...target.headers,
        ':method': 'POST',
        ':path': target.path,
        'content-type': contentType,
      },
      body: typeof body === 'string' ? Buffer.from(body) : body,
    }))
  }

  /** Connections open on demand. */
  async connect(): Promise<void> {}

  takeSamples() {
    return this.sampler.takeSamples()
  }

  send(index: number, onEnd: OnRequestEnd): { abandon(): void } {
    const bodyIndex = index % this.requests.length
    const exchange = new Http2Exchange(
      this.requests[bodyIndex]!,
      onEnd,
      this.sampler.wrapReader(bodyIndex, this.createReader()),
      (exchange) => {
        // A request that failed on a closing connection is retried first, once.
        this.counts.retried++
        this.queued.unshift(exchange)
        this.startQueued()
      },
    )
    this.queued.push(exchange)
    this.startQueued()
    return exchange
  }

  async close(): Promise<void> {
    for (const { session } of this.connections.keys()) session.destroy()
    this.connections.clear()
  }

  private startQueued(): void {
    while (this.queued.length > 0) {
      if (this.queued[0]!.isAbandoned) {
        this.queued.shift()
        continue
      }
      const connection = this.findConnection() ?? this.openConnection()
      if (connection === undefined) return
      this.addStreams(connection, 1)
      this.queued.shift()!.start(connection, () => {
        this.addStreams(connection, -1)
        this.startQueued()
      })
    }
  }

  /** Changes the number of requests in progress on a connection. */
  private addStreams(connection: Http2Connection, streams: number): void {
    const before = this.connections.get(connection)
    if (before !== undefined) this.connections.set(connection, before + streams)
  }

  /** A connection that can carry another stream. */
  private findConnection(): Http2Connection | undefined {
    for (const [connection, streams] of this.connections) {
      // The session reports its end one iteration of the event loop later.
      if (connection.session.closed || connection.session.destroyed) continue
      const maxStreams = Math.min(
        maxStreamsPerConnection,
        connection.session.remoteSettings?.maxConcurrentStreams ?? maxStreamsPerConnection,
      )
      if (streams < maxStreams) return connection
    }
    return undefined
  }

  /** Undefined where the limit on connections is reached. */
  private openConnection(): Http2Connection | undefined {
    if (this.connections.size >= (this.target.connections ?? defaultConnections)) return undefined
    this.counts.opened++
    const connection: Http2Connection = new Http2Connection(
      this.target.url,
      this.tlsOptions,
      () => {
        if (this.connections.delete(connection)) this.counts.closed++
      },
    )
    this.connections.set(connection, 0)
    return connection
  }
}

/** One request over HTTP/2 and its answer. */
class Http2Exchange {
  isAbandoned = false
  private stream: ClientHttp2Stream | undefined
  private wasRetried = false

  constructor(
    private readonly request: Http2Request,
    private readonly onEnd: OnRequestEnd,
    private readonly reader: AnswerReader,
    private readonly retry: (exchange: Http2Exchange) => void,
  ) {}

  abandon(): void {
    this.isAbandoned = true
    this.stream?.close(constants.NGHTTP2_CANCEL)
  }

  /** @param onRelease called once, when the connection can carry another stream instead */
  start(connection: Http2Connection, onRelease: () => void): void {
    let bytesLeft = getMaxAnswerBytes()
    const read = (chunk: Buffer) => {
      bytesLeft -= chunk.length
      if (bytesLeft >= 0) this.reader.read(chunk)
      else this.stream?.close(constants.NGHTTP2_CANCEL)
    }
    let decoder: BodyDecoder | undefined
    let encoding: string | undefined
    const decode = (chunk: Buffer) => {
      decoder ??= new BodyDecoder(encoding, read)
      decoder.write(chunk)
    }
    this.stream = connection.send(this.request, decode, (end) => {
      onRelease()
      if (this.isAbandoned) return decoder?.abandon()
      if (bytesLeft < 0) return this.onEnd(answerTooLarge)
      if ('failure' in end) {
        if (!end.retriable || this.wasRetried)
          return this.onEnd(this.reader.classifyInterruption() ?? end.failure)
        this.wasRetried = true
        return this.retry(this)
      }
      const finish = (isEncodingInvalid: boolean) => {
        if (this.isAbandoned) return
        if (bytesLeft < 0) return this.onEnd(answerTooLarge)
        const { failure, stream } = isEncodingInvalid
          ? { failure: badEncoding }
          : resolveOutcome(Number(end.headers[':status']), this.reader)
        this.onEnd(failure, stream)
      }
      if (decoder === undefined) finish(false)
      else decoder.end(finish)
    })
    this.stream.on('response', (headers) => {
      encoding = headers['content-encoding']
    })
  }
}
