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
const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress}:${remotePort}`

/** Time for the last words to leave, ms. */
const lastWordsMs = 100

/**
 * Gives each request so long to have come, from its headers to its end, and each new connection as
 * long for its first. One that has not is answered DEADLINE_EXCEEDED, and its connection is closed:
 * a stream that its client never ends would stay otherwise.
 */
export class GrpcDeadline {
  private readonly waiting = new Map<
    string,
    { readonly socket: Socket; readonly first: NodeJS.Timeout }
  >()

  constructor(private readonly timeoutS: number) {}

  /** To be told of each connection. */
  watch(socket: Socket): void {
    const peer = peerOf(socket)
    this.waiting.set(peer, {
      socket,
      first: setTimeout(() => socket.destroy(), this.timeoutS * 1000),
    })
    socket.on('close', () => {
      clearTimeout(this.waiting.get(peer)?.first)
      this.waiting.delete(peer)
    })
  }

  /** Of the connections that are there. */
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
