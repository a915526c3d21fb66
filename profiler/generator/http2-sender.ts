/**
 * Requests over HTTP/2 (RFC 9113): over TLS by ALPN, else by prior knowledge. By Node's own client, for undici's ends the process
 * with an exception when a server that does not speak HTTP/2 closes the connection, and over TLS offers HTTP/1.1 first.
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants, type OutgoingHttpHeaders } from 'node:http2'
import { type AnswerReader, oncePerBody, outcomeOf, WholeAnswer } from './http-sender.ts'
import type { HttpTarget } from './messages.ts'
import { errorKind } from './recorder.ts'
import type { Ended, Sender } from './sender.ts'

const defaultConnections = 512
/** Requests under way on one connection, unless the server allows fewer. */
const streamsPerConnection = 100
/** Bytes that answers may be ahead of their reading, over a whole connection. */
const windowBytes = 16 * 1024 * 1024
const memoryMiB = 1000

interface Connection {
  readonly session: ClientHttp2Session
  streams: number
  /** The server has spoken HTTP/2. */
  greeted: boolean
  /** Why it broke, or is no more to be used. */
  error: Error | undefined
}

interface Request {
  readonly headers: OutgoingHttpHeaders
  readonly body: Uint8Array
}

/** Streams share a connection; a further one is opened when all are full, and requests beyond the last wait. */
export class Http2Sender implements Sender {
  private readonly requests: readonly Request[]
  private readonly connections = new Set<Connection>()
  private readonly waiting: Exchange[] = []

  constructor(
    private readonly target: HttpTarget,
    private readonly reader: () => AnswerReader = () => new WholeAnswer(target.expect),
  ) {
    this.requests = oncePerBody(target, ({ contentType, body }) => ({
      headers: { ...target.headers, ':method': 'POST', ':path': target.path, 'content-type': contentType },
      body: typeof body === 'string' ? Buffer.from(body) : body,
    }))
  }

  async connect(): Promise<void> {}

  send(index: number, ended: Ended): { abandon(): void } {
    const exchange = new Exchange(this.requests[index % this.requests.length]!, ended, this.reader())
    this.waiting.push(exchange)
    this.startWaiting()
    return exchange
  }

  async close(): Promise<void> {
    for (const { session } of this.connections) session.destroy()
    this.connections.clear()
  }

  private startWaiting(): void {
    while (this.waiting.length > 0) {
      if (this.waiting[0]!.abandoned) {
        this.waiting.shift()
        continue
      }
      const connection = this.withRoom() ?? this.open()
      if (connection === undefined) return
      connection.streams++
      this.waiting.shift()!.start(connection, () => {
        connection.streams--
        this.startWaiting()
      })
    }
  }

  private withRoom(): Connection | undefined {
    for (const connection of this.connections) {
      const most = Math.min(streamsPerConnection, connection.session.remoteSettings?.maxConcurrentStreams ?? streamsPerConnection)
      if (connection.streams < most) return connection
    }
    return undefined
  }

  private open(): Connection | undefined {
    if (this.connections.size >= (this.target.connections ?? defaultConnections)) return undefined
    const session = connect(this.target.url, { maxSessionMemory: memoryMiB })
    const connection: Connection = { session, streams: 0, greeted: false, error: undefined }
    const unusable = (error: Error) => {
      connection.error ??= error
      this.connections.delete(connection)
    }
    session.once('connect', () => session.setLocalWindowSize(windowBytes))
    session.once('remoteSettings', () => {
      connection.greeted = true
    })
    session.on('error', unusable)
    session.on('goaway', () => unusable(new Error('closed by server')))
    session.on('close', () => unusable(new Error('closed by server')))
    this.connections.add(connection)
    return connection
  }
}

/** One request and its answer. */
class Exchange {
  abandoned = false
  private stream: ClientHttp2Stream | undefined

  constructor(
    private readonly request: Request,
    private readonly ended: Ended,
    private readonly reader: AnswerReader,
  ) {}

  abandon(): void {
    this.abandoned = true
    this.stream?.close(constants.NGHTTP2_CANCEL)
  }

  /** @param released called once, when its place on the connection is free again */
  start(connection: Connection, released: () => void): void {
    const stream = connection.session.request(this.request.headers)
    this.stream = stream
    let status = 0
    let complete = false
    let error: Error | undefined
    stream.on('response', (headers) => {
      status = Number(headers[':status'])
    })
    stream.on('data', (chunk: Buffer) => this.reader.read(chunk))
    stream.on('end', () => {
      complete = true
    })
    stream.on('error', (cause) => {
      error = cause
    })
    stream.on('close', () => {
      released()
      if (this.abandoned) return
      if (error === undefined && complete && status > 0) {
        const { failure, stream: times } = outcomeOf(status, this.reader)
        this.ended(failure, times)
      } else this.ended(this.reader.broken() ?? failureOf(connection, error))
    })
    stream.end(this.request.body)
  }
}

/** Error class of a request that was not answered. */
function failureOf({ greeted, error }: Connection, ofStream: Error | undefined): string {
  const cause = error ?? ofStream
  const code = String((cause as { code?: unknown } | undefined)?.code)
  if (!greeted && (/NO_APPLICATION_PROTOCOL/.test(code) || code.startsWith('ERR_HTTP2'))) return 'no HTTP/2'
  if (cause === undefined || code === 'ERR_HTTP2_STREAM_ERROR' || code === 'ERR_HTTP2_STREAM_CANCEL') return 'reset'
  return errorKind(cause)
}
