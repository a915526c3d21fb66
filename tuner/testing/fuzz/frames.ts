/**
 * A server of HTTP/2 that answers with frames made beforehand, right or wrong, and what asks it:
 * the client of HTTP/2 and that of gRPC, as probes and under load.
 */
import { createServer, type Socket } from 'node:net'
import { GrpcSender } from '../../../profiler/load/grpc-sender.ts'
import { Http2Sender } from '../../../profiler/load/http2-sender.ts'
import type { Target } from '../../../profiler/model/target.ts'
import { protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import { listening } from './answering-server.ts'

export const frameKind = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  window: 8,
  continuation: 9,
} as const
/** On the stream or the headers. */
export const ends = { stream: 1, headers: 4 }

/** https://www.rfc-editor.org/rfc/rfc9113#section-4.1 */
export function frame(
  kind: number,
  flags: number,
  stream: number,
  payload: Uint8Array = Buffer.of(),
): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = kind
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** Fields as literals without an index (RFC 7541, section 6.2.2); short names and values alone. */
export const fields = (headers: Readonly<Record<string, string>>): Buffer =>
  Buffer.concat(
    Object.entries(headers).flatMap((pair) =>
      [Buffer.of(0), ...pair.flatMap((text) => [Buffer.of(text.length), Buffer.from(text)])].slice(
        0,
      ),
    ),
  )

/** A message as gRPC lays it into a stream. */
export function grpcMessage(message: Uint8Array, compressed = 0): Buffer {
  const head = Buffer.alloc(5)
  head[0] = compressed
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

const preface = 24

/** Calls `asked` at each HEADERS frame of a client. */
function hear(socket: Socket, asked: () => void): void {
  let heard = Buffer.alloc(0)
  let at = preface
  socket.on('data', (chunk) => {
    heard = Buffer.concat([heard, chunk])
    for (; heard.length >= at + 9; at += 9 + heard.readUIntBE(at, 3))
      if (heard[at + 3] === frameKind.headers) asked()
  })
}

const separator = Buffer.from('\n\n')
const mostMs = 1_000
const waitMs = 150

/** @param input what the first connection of two is answered, an empty line, and what the second is */
export async function speaking(input: Buffer, transport: 'http2' | 'grpc'): Promise<void> {
  const cut = input.indexOf(separator)
  const answers =
    cut < 0 ? [input] : [input.subarray(0, cut), input.subarray(cut + separator.length)]
  let connections = 0
  const server = createServer((socket) => {
    const answer = answers[connections++ % answers.length]!
    socket.on('error', () => {}).write(frame(frameKind.settings, 0, 0))
    hear(socket, () => socket.write(Buffer.concat([frame(frameKind.settings, 1, 0), answer])))
  })
  await listening(server, async (url) => {
    const name = transport === 'grpc' ? 'grpc-v2' : 'oip-v2'
    const protocol = (await protocolTable[name].load()).create({
      timeoutMs: waitMs,
      http2: transport === 'http2',
    })
    const signal = AbortSignal.timeout(mostMs)
    for (const probe of [
      () => protocol.prepare(url, 'm', { kind: 'generated', seed: 1, count: 1 }, signal),
      () => protocol.isReady(url, 'm', signal),
    ])
      await probe().catch((error: unknown) => {
        if (!signal.aborted && (error as Error).name !== 'ProtocolError') throw error
      })
    const bodies = [{ contentType: 'application/json', body: Buffer.from('{}') }]
    const target = {
      kind: 'http',
      url,
      path: '/x/y',
      headers: {},
      bodies,
      timeoutMs: waitMs,
      connections: 1,
    } as Extract<Target, { kind: 'http' }>
    const sender =
      transport === 'grpc'
        ? new GrpcSender({ ...target, transport })
        : new Http2Sender({ ...target, http2: true })
    try {
      await Promise.all(
        [0, 1].map(
          (i) =>
            new Promise<void>((resolve) => {
              const sent = sender.send(i, () => resolve())
              setTimeout(() => resolve(sent.abandon()), 2 * waitMs)
            }),
        ),
      )
    } finally {
      await sender.close()
    }
  })
}
