/** One HTTP/1.1 connection, and the outcome of its request when it ends. */
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls, TLSSocket } from 'node:tls'
import { serverAddress } from '../server-address.ts'
import { Sent } from './close-race.ts'
import { Http1Answer } from './http1-answer.ts'
import type { tlsChecks } from './tls.ts'

export interface Place {
  readonly url: string
  readonly checks: ReturnType<typeof tlsChecks>
  /** TLS sessions, resumed by further connections. */
  readonly session: { last: Buffer | undefined }
}

/** How a request without a whole answer ended. */
export interface Broken {
  readonly error: Error & { readonly code?: unknown }
  /**
   * The server cannot have processed it: the connection, which had carried answers before, was
   * closing when it was sent.
   */
  readonly untaken: boolean
}

/** Callbacks of a connection for its request. */
export interface OnConnection {
  /** @param encoding content encoding of the whole body */
  body(chunk: Buffer, encoding: string | undefined): void
  /** The connection is free again, or gone, by then. */
  answered(status: number): void
  broken(how: Broken): void
}

/** Callbacks of a connection for its pool. */
interface ConnectionEvents {
  connected(): void
  /** The connection could not be opened. */
  unreachable(error: Error): void
  /** The answer is complete, and the connection can carry another request. */
  free(): void
  /** Called once, when the connection carries nothing any more. */
  gone(byServer: boolean): void
}

/**
 * Time for a server to close a connection as announced, which leaves the closed port on its side.
 */
const closingMs = 200
const requestTimeout = 408

export class Http1Connection {
  idleSinceMs = 0
  /** Idle timeout announced by the server. */
  keptMs = Number.POSITIVE_INFINITY
  private readonly socket: Socket
  private readonly openedMs = performance.now()
  private roundTripMs = 0
  private isConnected = false
  private over = false
  private byServer = true
  private answers = 0
  private request:
    | { readonly on: OnConnection; readonly answer: Http1Answer; readonly sent: Sent }
    | undefined
  private error: Error | undefined

  constructor(
    place: Place,
    private readonly events: ConnectionEvents,
  ) {
    this.socket = open(place)
    const { socket } = this
    socket.setNoDelay(true)
    socket.on(socket instanceof TLSSocket ? 'secureConnect' : 'connect', () => {
      this.isConnected = true
      this.roundTripMs = performance.now() - this.openedMs
      events.connected()
    })
    if (socket instanceof TLSSocket)
      socket.on('session', (session) => {
        place.session.last = session
      })
    socket.on('data', (chunk) => this.read(chunk))
    socket.on('error', (error) => {
      this.error ??= error
    })
    socket.on('end', () => this.end())
    socket.on('close', () => this.end())
  }

  /** @param parts written in order */
  send(parts: readonly Uint8Array[], on: OnConnection): void {
    const answer = new Http1Answer((chunk) => {
      const { status, encoding } = answer.head!
      if (status >= 200 && status <= 299) on.body(chunk, encoding)
    })
    this.request = { on, answer, sent: new Sent(performance.now() - this.idleSinceMs) }
    if (parts.length > 1) this.socket.cork()
    for (const part of parts) this.socket.write(part)
    if (parts.length > 1) this.socket.uncork()
  }

  /** Destroys the connection; its request is not notified. */
  destroy(): void {
    this.request = undefined
    this.byServer = false
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
    if (answer.complete) this.answered()
  }

  private answered(): void {
    const { on, answer } = this.request!
    const { status, persistent, idleMs } = answer.head!
    this.request = undefined
    // The server had closed the connection for lack of a request (RFC 9110, section 15.5.9).
    const late = status === requestTimeout && !persistent && this.answers > 0
    this.answers++
    if (persistent && !answer.excess && !this.over) {
      this.idleSinceMs = performance.now()
      if (idleMs !== undefined) this.keptMs = idleMs
      this.events.free()
    } else this.leave()
    if (late) on.broken({ error: new Error(`status ${status}`), untaken: true })
    else on.answered(status)
  }

  /** Handles a close by the server. */
  private leave(): void {
    if (this.over) return
    this.over = true
    setTimeout(() => this.socket.destroy(), closingMs).unref()
    this.events.gone(true)
  }

  private end(): void {
    const { request } = this
    this.request = undefined
    if (!this.over) {
      this.over = true
      if (this.isConnected) this.events.gone(this.byServer)
      else this.events.unreachable(this.error ?? closedByServer())
    }
    this.socket.destroy()
    if (request === undefined) return
    if (this.error === undefined && request.answer.ended())
      request.on.answered(request.answer.head!.status)
    else
      request.on.broken({ error: this.error ?? closedByServer(), untaken: this.untaken(request) })
  }

  private untaken({ answer, sent }: NonNullable<Http1Connection['request']>): boolean {
    return this.answers > 0 && !answer.begun && sent.metClose(this.roundTripMs)
  }
}

const closedByServer = () =>
  Object.assign(new Error('closed by server'), { code: 'closed by server' })

function open({ url, checks, session }: Place): Socket {
  const { socketPath } = serverAddress(url) ?? {}
  if (socketPath !== undefined) return connect(socketPath)
  const { protocol, hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  if (protocol !== 'https:') return connect({ host, port: Number(port || 80) })
  const name = isIP(host) === 0 ? { servername: host } : {}
  return connectTls({
    host,
    port: Number(port || 443),
    ALPNProtocols: ['http/1.1'],
    session: session.last,
    ...name,
    ...checks,
  })
}
