/** Time limit for gRPC requests that never arrive in full: grpc-js itself sets none. */
import type { Socket } from 'node:net'
import {
  ResponderBuilder,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from '@grpc/grpc-js'

/** Gets the peer of a connection as grpc-js names it. */
const getPeer = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress}:${remotePort}`

/** Time for the status to reach the client before its connection is closed, ms. */
const statusDeliveryMs = 100

/**
 * Limits the time to receive each request, and the time from a connection to its first request.
 * Late requests are answered with DEADLINE_EXCEEDED, and the connection is closed: otherwise a
 * stream that its client never ends would stay open.
 */
export class GrpcDeadline {
  private readonly connections = new Map<
    string,
    { readonly socket: Socket; readonly firstRequestTimer: NodeJS.Timeout }
  >()

  constructor(private readonly timeoutS: number) {}

  /** Call for each connection. */
  watch(socket: Socket): void {
    const peer = getPeer(socket)
    this.connections.set(peer, {
      socket,
      firstRequestTimer: setTimeout(() => socket.destroy(), this.timeoutS * 1000),
    })
    socket.on('close', () => {
      clearTimeout(this.connections.get(peer)?.firstRequestTimer)
      this.connections.delete(peer)
    })
  }

  /** Closes all connections that are still open. */
  close(): void {
    for (const { socket } of this.connections.values()) socket.destroy()
  }

  readonly interceptor: ServerInterceptor = (_method, call) => {
    const connection = this.connections.get(call.getPeer())
    clearTimeout(connection?.firstRequestTimer)
    const late = setTimeout(() => {
      call.sendStatus({
        code: status.DEADLINE_EXCEEDED,
        details: `the request did not arrive within ${this.timeoutS} s`,
      })
      setTimeout(() => connection?.socket.destroy(), statusDeliveryMs)
    }, this.timeoutS * 1000)
    const stopTimer = () => clearTimeout(late)
    const listener = new ServerListenerBuilder()
      .withOnReceiveHalfClose((next) => {
        stopTimer()
        next()
      })
      .withOnCancel(stopTimer)
      .build()
    return new ServerInterceptingCall(
      call,
      new ResponderBuilder().withStart((next) => next(listener)).build(),
    )
  }
}
