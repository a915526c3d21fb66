/** One HTTP/1.1 connection of the pool (http-sender.ts). It carries one request at a time. */
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls, TLSSocket } from 'node:tls'
import { parseServerAddress } from '../server-address.ts'
import { SendTime } from './close-race.ts'
import { Http1Answer } from './http1-answer.ts'
import type { buildTlsOptions } from './tls.ts'

/** Server to connect to. */
export interface Endpoint {
  readonly url: string
  readonly tls: ReturnType<typeof buildTlsOptions>
  /** Last TLS session, which further connections resume. */
  readonly session: { last: Buffer | undefined }
}

/** Why a request got no complete answer. */
export interface RequestFailure {
  readonly error: Error & { readonly code?: unknown }
  /**
   * The request crossed a close that was already under way (close-race.ts), so it may be sent
   * again. Only a connection that has carried an answer can be closed as idle.
   */
  readonly retriable: boolean
}

/** Callbacks of a connection for its request. */
export interface RequestEvents {
  /**
   * Part of the body of a 2xx answer.
   * @param encoding value of the Content-Encoding header
   */
  onBody(chunk: Buffer, encoding: string | undefined): void
  /** The answer is complete. The pool was notified before: `onReusable` or `onClose`. */
  onAnswer(status: number): void
  onFailure(failure: RequestFailure): void
}

/** Callbacks of a connection for its pool. */
interface ConnectionEvents {
  onConnect(): void
  /** The connection could not be opened. */
  onUnreachable(error: Error): void
  /** The answer is complete, and the connection can carry another request. */
  onReusable(): void
  /** Called once, when an open connection can carry no further request. */
  onClose(byServer: boolean): void
}

/**
 * Time for a server to close a connection as announced. The side that closes first keeps the port
 * in TIME_WAIT, and the generator must not run out of ports. Assumed.
 */
const serverCloseMs = 200
/** Request Timeout (RFC 9110, section 15.5.9). */
const requestTimeoutStatus = 408

export class Http1Connection {
  idleSinceMs = 0
  /** Idle timeout announced by the server. */
  idleTimeoutMs = Number.POSITIVE_INFINITY
  private readonly socket: Socket
  private readonly openedMs = performance.now()
  private roundTripMs = 0
  private isConnected = false
  /** The pool was notified of the end. */
  private hasReportedEnd = false
  private closedByServer = true
  private answers = 0
  private request:
    | { readonly callbacks: RequestEvents; readonly answer: Http1Answer; readonly sent: SendTime }
    | undefined
  private error: Error | undefined

  constructor(
    endpoint: Endpoint,
    private readonly events: ConnectionEvents,
  ) {
    this.socket = openSocket(endpoint)
    const { socket } = this
    socket.setNoDelay(true)
    socket.on(socket instanceof TLSSocket ? 'secureConnect' : 'connect', () => {
      this.isConnected = true
      this.roundTripMs = performance.now() - this.openedMs
      events.onConnect()
    })
    if (socket instanceof TLSSocket)
      socket.on('session', (session) => {
        endpoint.session.last = session
      })
    socket.on('data', (chunk) => this.read(chunk))
    socket.on('error', (error) => {
      this.error ??= error
    })
    socket.on('end', () => this.end())
    socket.on('close', () => this.end())
  }

  /** @param parts bytes of the request, written in order */
  send(parts: readonly Uint8Array[], callbacks: RequestEvents): void {
    const answer = new Http1Answer((chunk) => {
      const { status, encoding } = answer.head!
      if (status >= 200 && status <= 299) callbacks.onBody(chunk, encoding)
    })
    this.request = { callbacks, answer, sent: new SendTime(performance.now() - this.idleSinceMs) }
    if (parts.length > 1) this.socket.cork()
    for (const part of parts) this.socket.write(part)
    if (parts.length > 1) this.socket.uncork()
  }

  /** Destroys the connection; its request is not notified. */
  destroy(): void {
    this.request = undefined
    this.closedByServer = false
    this.socket.destroy()
    this.end()
  }

  private read(chunk: Buffer): void {
    // An idle connection that sends data cannot be trusted.
    if (this.request === undefined) {
      this.destroy()
      return
    }
    const { answer } = this.request
    try {
      answer.push(chunk)
    } catch (error) {
      this.error = error as Error
      this.end()
      return
    }
    if (answer.isComplete) this.completeAnswer()
  }

  private completeAnswer(): void {
    const { callbacks, answer } = this.request!
    const { status, isPersistent, idleMs } = answer.head!
    this.request = undefined
    // The server timed out waiting for a request while this one was on its way (RFC 9110, section
    // 15.5.9), so it answered no request.
    const hasCrossedTimeout = status === requestTimeoutStatus && !isPersistent && this.answers > 0
    this.answers++
    if (isPersistent && !answer.hasExcessBytes && !this.hasReportedEnd) {
      this.idleSinceMs = performance.now()
      if (idleMs !== undefined) this.idleTimeoutMs = idleMs
      this.events.onReusable()
    } else this.awaitClose()
    if (hasCrossedTimeout)
      callbacks.onFailure({ error: new Error(`status ${status}`), retriable: true })
    else callbacks.onAnswer(status)
  }

  /** Takes the connection out of use and gives the server time to close it. */
  private awaitClose(): void {
    if (this.hasReportedEnd) return
    this.hasReportedEnd = true
    setTimeout(() => this.socket.destroy(), serverCloseMs).unref()
    this.events.onClose(true)
  }

  private end(): void {
    const { request } = this
    this.request = undefined
    if (!this.hasReportedEnd) {
      this.hasReportedEnd = true
      if (this.isConnected) this.events.onClose(this.closedByServer)
      else this.events.onUnreachable(this.error ?? createCloseError())
    }
    this.socket.destroy()
    if (request === undefined) return
    if (this.error === undefined && request.answer.handleConnectionEnd())
      request.callbacks.onAnswer(request.answer.head!.status)
    else
      request.callbacks.onFailure({
        error: this.error ?? createCloseError(),
        retriable: this.isRetriable(request),
      })
  }

  private isRetriable({ answer, sent }: NonNullable<Http1Connection['request']>): boolean {
    return this.answers > 0 && !answer.hasBegun && sent.hasCrossedClose(this.roundTripMs)
  }
}

const createCloseError = () =>
  Object.assign(new Error('closed by server'), { code: 'closed by server' })

function openSocket({ url, tls, session }: Endpoint): Socket {
  const { socketPath } = parseServerAddress(url) ?? {}
  if (socketPath !== undefined) return connect(socketPath)
  const { protocol, hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  if (protocol !== 'https:') return connect({ host, port: Number(port || 80) })
  // TLS server names (SNI) are host names only (RFC 6066, section 3).
  const serverName = isIP(host) === 0 ? { servername: host } : {}
  return connectTls({
    host,
    port: Number(port || 443),
    ALPNProtocols: ['http/1.1'],
    session: session.last,
    ...serverName,
    ...tls,
  })
}
