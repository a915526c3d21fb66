/**
 * Protocols over HTTP, asked of a server that answers questions with the first part of an input,
 * and requests with the second.
 */
import { createServer } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import { protocolNames, protocolTable } from '../../../profiler/protocols/protocol-table.ts'

const separator = Buffer.from('\n\n')
const mostMs = 5_000

/** Rejects with what is no error for users. */
export async function serving(input: Buffer, _file: string): Promise<void> {
  const cut = input.indexOf(separator)
  const [said, answer] =
    cut < 0 ? [input, input] : [input.subarray(0, cut), input.subarray(cut + separator.length)]
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.end(request.method === 'GET' ? said : answer))
  })
  await listening(server, async (url) => {
    for (const name of protocolNames.filter((each) => protocolTable[each].transport === 'http')) {
      const protocol = (await protocolTable[name].load()).create({
        timeoutMs: 1_000,
        path: protocolTable[name].needsPath ? '/x' : undefined,
      })
      const signal = AbortSignal.timeout(mostMs)
      try {
        await protocol.isReady(url, 'm', signal)
        const target = await protocol.prepare(
          url,
          'm',
          { kind: 'generated', seed: 1, count: 2 },
          signal,
        )
        if (target.kind === 'http')
          await protocol.answerClient!.parse(await protocol.answerClient!.fetch(target, 0, signal))
      } catch (error) {
        if (
          !(error instanceof Error) ||
          !['ProtocolError', 'PayloadError', 'BoundError'].includes(error.name)
        )
          throw error
      }
    }
  })
}

/** Works with a server, of which nothing is left then. */
export async function listening(
  server: Server,
  work: (url: string) => Promise<void>,
): Promise<void> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
}
