/** Requests over gRPC that do not come: grpc-js waits for them for ever. */
import type { Socket } from 'node:net'
import {
  ResponderBuilder,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from '@grpc/grpc-js'

/** The peer of a connection as grpc-js names it. */
const getPeer = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress}:${remotePort}`

/** Time for the last words to leave, ms. */
const lastWordsMs = 100

/**
 * Limits the time to receive each request, and the time from a connection to its first request.
 * Late requests are answered with DEADLINE_EXCEEDED, and the connection is closed: otherwise a
 * stream that its client never ends would stay open.
 */
export class GrpcDeadline {
  private readonly waiting = new Map<
    string,
    { readonly socket: Socket; readonly first: NodeJS.Timeout }
  >()

  constructor(private readonly timeoutS: number) {}

  /** Call for each connection. */
  watch(socket: Socket): void {
    const peer = getPeer(socket)
    this.waiting.set(peer, {
      socket,
      first: setTimeout(() => socket.destroy(), this.timeoutS * 1000),
    })
    socket.on('close', () => {
      clearTimeout(this.waiting.get(peer)?.first)
      this.waiting.delete(peer)
    })
  }

  /** Stops watching the open connections. */
  close(): void {
    for (const { socket } of this.waiting.values()) socket.destroy()
  }

  readonly interceptor: ServerInterceptor = (_method, call) => {
    const connection = this.waiting.get(call.getPeer())
    clearTimeout(connection?.first)
    const late = setTimeout(() => {
      call.sendStatus({
        code: status.DEADLINE_EXCEEDED,
        details: `the request did not arrive within ${this.timeoutS} s`,
      })
      setTimeout(() => connection?.socket.destroy(), lastWordsMs)
    }, this.timeoutS * 1000)
    const came = () => clearTimeout(late)
    const listener = new ServerListenerBuilder()
      .withOnReceiveHalfClose((next) => {
        came()
        next()
      })
      .withOnCancel(came)
      .build()
    return new ServerInterceptingCall(
      call,
      new ResponderBuilder().withStart((next) => next(listener)).build(),
    )
  }
}
