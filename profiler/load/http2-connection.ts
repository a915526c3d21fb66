/**
 * HTTP/2 (RFC 9113): by ALPN over TLS, else by prior knowledge, for probes and loads. It uses
 * Node's own client. Undici's ends the process with an exception when a server without HTTP/2
 * closes the connection, and offers HTTP/1.1 first over TLS.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2'
import { connect as connectSocket } from 'node:net'
import { serverAddress } from '../server-address.ts'
import { Sent } from './close-race.ts'
import { errorKind } from './recorder.ts'
import type { tlsChecks } from './tls.ts'

/** Flow-control window of a connection, bytes. */
const windowBytes = 16 * 1024 * 1024
const memoryMiB = 1000

export interface Http2Request {
  /** Includes ':method' and ':path'. */
  readonly headers: OutgoingHttpHeaders
  readonly body?: Uint8Array
}

/**
 * Headers of a whole answer, or the error class of a load point's `errorKinds`. `untaken`: the
 * server cannot have processed the request (RFC 9113, section 8.7, or its connection was closing).
 */
type Http2End =
  | { readonly headers: IncomingHttpHeaders }
  | { readonly failure: string; readonly error: Error | undefined; readonly untaken: boolean }

export class Http2Connection {
  readonly session: ClientHttp2Session
  /** The server has sent HTTP/2 frames. */
  private greeted = false
  /** Why the connection broke, or must not be used any more. */
  private error: Error | undefined
  private answers = 0
  /** Time of its last request or answer. */
  private usedMs = performance.now()
  private readonly openedMs = performance.now()
  private roundTripMs = 0
  /** Last stream that the server will process. */
  private lastTaken = Number.POSITIVE_INFINITY

  /** @param unusable called when no further request may be sent, possibly more than once */
  constructor(url: string, checks: ReturnType<typeof tlsChecks>, unusable: () => void = () => {}) {
    const { socketPath, host } = serverAddress(url) ?? {}
    this.session =
      socketPath === undefined
        ? connect(url, { maxSessionMemory: memoryMiB, ...checks })
        : connect(`http://${host}`, {
            maxSessionMemory: memoryMiB,
            createConnection: () => connectSocket(socketPath),
          })
    const { session } = this
    const over = (error: Error) => {
      this.error ??= error
      unusable()
    }
    session.once('connect', () => {
      this.roundTripMs = performance.now() - this.openedMs
      session.setLocalWindowSize(windowBytes)
    })
    session.once('remoteSettings', () => {
      this.greeted = true
    })
    session.on('error', over)
    session.on('goaway', (_code, lastStream) => {
      this.lastTaken = lastStream
      over(new Error('closed by server'))
    })
    session.on('close', () => over(new Error('closed by server')))
  }

  /** Sends a request. `ended` is called once, when its slot on the connection is free again. */
  send(
    { headers, body }: Http2Request,
    read: (chunk: Buffer) => void,
    ended: (end: Http2End) => void,
  ): ClientHttp2Stream {
    const sent = new Sent(performance.now() - this.usedMs)
    this.usedMs = performance.now()
    const stream = this.session.request(withAuthority(headers))
    let answer: IncomingHttpHeaders | undefined
    let complete = false
    let error: Error | undefined
    stream.on('response', (headers) => {
      answer = headers
    })
    stream.on('data', read)
    stream.on('end', () => {
      complete = true
    })
    stream.on('error', (cause) => {
      error = cause
    })
    stream.on('close', () => {
      // A broken answer may end like a complete one, except for this code.
      const whole = complete && stream.rstCode === constants.NGHTTP2_NO_ERROR
      if (error === undefined && whole && answer !== undefined) {
        this.answers++
        this.usedMs = performance.now()
        return ended({ headers: answer })
      }
      // A connection that could not be opened is first reported to the stream.
      const cause = this.error ?? (error?.cause instanceof Error ? error.cause : error)
      const refused =
        stream.rstCode === constants.NGHTTP2_REFUSED_STREAM ||
        (stream.id ?? Number.POSITIVE_INFINITY) > this.lastTaken
      const met =
        this.answers > 0 &&
        answer === undefined &&
        this.error !== undefined &&
        sent.metClose(this.roundTripMs)
      ended({ failure: this.failureOf(cause), error: cause, untaken: refused || met })
    })
    stream.end(body)
    return stream
  }

  private failureOf(cause: (Error & { code?: unknown }) | undefined): string {
    const code = String(cause?.code)
    if (!this.greeted && (/NO_APPLICATION_PROTOCOL/.test(code) || code.startsWith('ERR_HTTP2')))
      return 'no HTTP/2'
    if (
      cause === undefined ||
      code === 'ERR_HTTP2_STREAM_ERROR' ||
      code === 'ERR_HTTP2_STREAM_CANCEL'
    )
      return 'reset'
    return errorKind(cause)
  }
}

/** HTTP/2 uses :authority for the Host of HTTP/1.1; gateways route by it. */
function withAuthority(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  const name = Object.keys(headers).find((key) => key.toLowerCase() === 'host')
  if (name === undefined) return headers
  const { [name]: authority, ...others } = headers
  return { ':authority': authority, ...others }
}
