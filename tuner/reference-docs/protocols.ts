/** The generated part of docs/reference/protocols.md. */
import { protocolNames, protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { code, table } from './markdown.ts'

export const protocolsRegions = (): Record<string, string> => ({
  protocols: table(
    ['`protocol`', 'spoken by', 'transport', 'ready when', 'a good answer', 'metadata'],
    protocolNames.map((name) => {
      const traits = protocolTable[name]
      return [
        code(name),
        traits.spokenBy,
        transports[traits.streams ? 'stream' : traits.transport],
        traits.readyWhen,
        traits.goodAnswer,
        traits.metadata ? 'yes' : traits.needsPath ? 'no: name the `path`' : 'no',
      ]
    }),
  ),
})

const transports = { http: 'HTTP', grpc: 'gRPC', stream: 'HTTP, server-sent events' } as const
