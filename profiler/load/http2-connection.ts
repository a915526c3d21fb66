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
import { parseServerAddress } from '../server-address.ts'
import { SendTime } from './close-race.ts'
import { classifyError } from './recorder.ts'
import type { buildTlsOptions } from './tls.ts'

/** Flow-control window of a connection, bytes: large, so that answers never wait for it. */
const windowBytes = 16 * 1024 * 1024
/** Memory that Node allows a session; its default of 10 MB rejects streams under load. */
const maxSessionMemoryMB = 1000

export interface Http2Request {
  /** Includes ':method' and ':path'. */
  readonly headers: OutgoingHttpHeaders
  readonly body?: Uint8Array
}

/**
 * Headers of a complete answer, or the error class of a failure, as in a load point's `errorKinds`.
 * `retriable`: the server did not process the request, so it may be sent again. It refused the
 * stream (RFC 9113, section 8.7), or the request crossed a close.
 */
type Http2End =
  | { readonly headers: IncomingHttpHeaders }
  | { readonly failure: string; readonly error: Error | undefined; readonly retriable: boolean }

export class Http2Connection {
  readonly session: ClientHttp2Session
  /** The server has sent its HTTP/2 settings. */
  private speaksHttp2 = false
  /** Why the connection broke, or must not be used any more. */
  private error: Error | undefined
  private answers = 0
  /** Time of its last request or answer. */
  private usedMs = performance.now()
  private readonly openedMs = performance.now()
  private roundTripMs = 0
  /** Id of the last stream that the server processes, as its GOAWAY announces. */
  private lastStreamId = Number.POSITIVE_INFINITY

  /** @param onUnusable called when no further request may be sent; possibly more than once */
  constructor(
    url: string,
    tlsOptions: ReturnType<typeof buildTlsOptions>,
    onUnusable: () => void = () => {},
  ) {
    const { socketPath, host } = parseServerAddress(url) ?? {}
    this.session =
      socketPath === undefined
        ? connect(url, { maxSessionMemory: maxSessionMemoryMB, ...tlsOptions })
        : connect(`http://${host}`, {
            maxSessionMemory: maxSessionMemoryMB,
            createConnection: () => connectSocket(socketPath),
          })
    const { session } = this
    const end = (error: Error) => {
      this.error ??= error
      onUnusable()
    }
    session.once('connect', () => {
      this.roundTripMs = performance.now() - this.openedMs
      session.setLocalWindowSize(windowBytes)
    })
    session.once('remoteSettings', () => {
      this.speaksHttp2 = true
    })
    session.on('error', end)
    session.on('goaway', (_code, lastStream) => {
      this.lastStreamId = lastStream
      end(new Error('closed by server'))
    })
    session.on('close', () => end(new Error('closed by server')))
  }

  /**
   * Sends a request.
   * @param read receives the body as it arrives
   * @param onEnd called once, when the stream is closed and no longer counts as concurrent
   */
  send(
    { headers, body }: Http2Request,
    read: (chunk: Buffer) => void,
    onEnd: (end: Http2End) => void,
  ): ClientHttp2Stream {
    const sendTime = new SendTime(performance.now() - this.usedMs)
    this.usedMs = performance.now()
    const stream = this.session.request(withAuthority(headers))
    let answer: IncomingHttpHeaders | undefined
    let hasEnded = false
    let error: Error | undefined
    stream.on('response', (headers) => {
      answer = headers
    })
    stream.on('data', read)
    stream.on('end', () => {
      hasEnded = true
    })
    stream.on('error', (cause) => {
      error = cause
    })
    stream.on('close', () => {
      // An answer that the server reset also emits 'end'; only its code differs.
      const isComplete = hasEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR
      if (error === undefined && isComplete && answer !== undefined) {
        this.answers++
        this.usedMs = performance.now()
        return onEnd({ headers: answer })
      }
      // A failed connection is reported to its streams first, with the actual error as the cause.
      const cause = this.error ?? (error?.cause instanceof Error ? error.cause : error)
      const wasRefused =
        stream.rstCode === constants.NGHTTP2_REFUSED_STREAM ||
        (stream.id ?? Number.POSITIVE_INFINITY) > this.lastStreamId
      // The request crossed a close that was already under way (close-race.ts), so it may be sent
      // again.
      const crossedClose =
        this.answers > 0 &&
        answer === undefined &&
        this.error !== undefined &&
        sendTime.hasCrossedClose(this.roundTripMs)
      onEnd({
        failure: this.classifyFailure(cause),
        error: cause,
        retriable: wasRefused || crossedClose,
      })
    })
    stream.end(body)
    return stream
  }

  /** Error class, as in a load point's `errorKinds`. */
  private classifyFailure(cause: (Error & { code?: unknown }) | undefined): string {
    const code = String(cause?.code)
    if (!this.speaksHttp2 && (/NO_APPLICATION_PROTOCOL/.test(code) || code.startsWith('ERR_HTTP2')))
      return 'no HTTP/2'
    if (
      cause === undefined ||
      code === 'ERR_HTTP2_STREAM_ERROR' ||
      code === 'ERR_HTTP2_STREAM_CANCEL'
    )
      return 'reset'
    return classifyError(cause)
  }
}

/** HTTP/2 uses :authority for the Host of HTTP/1.1; gateways route by it. */
function withAuthority(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  const name = Object.keys(headers).find((key) => key.toLowerCase() === 'host')
  if (name === undefined) return headers
  const { [name]: authority, ...others } = headers
  return { ':authority': authority, ...others }
}
