import { Server, ServerCredentials, type ServiceError } from '@grpc/grpc-js'

/** What a method answers: bytes, or the code and message of an error. */
export type Handler = (
  request: Buffer,
  metadata: Readonly<Record<string, unknown>>,
) => Promise<Buffer> | Buffer | { code: number; details: string }

/** A gRPC server whose methods deal in bytes. `tls`: PEM. */
export async function startGrpcServer(
  methods: Readonly<Record<string, Handler>>,
  {
    tls,
    maxBytes = -1,
    connectionAgeMs,
  }: {
    readonly tls?: { readonly certificate: string; readonly key: string }
    readonly maxBytes?: number
    /** Then a connection is closed, by GOAWAY. */
    readonly connectionAgeMs?: number
  } = {},
): Promise<{ url: string; stop(): void }> {
  const server = new Server({
    'grpc.max_receive_message_length': maxBytes,
    ...(connectionAgeMs !== undefined && {
      'grpc.max_connection_age_ms': connectionAgeMs,
      'grpc.max_connection_age_grace_ms': 1000,
    }),
  })
  const how = tls
    ? ServerCredentials.createSsl(null, [
        { cert_chain: Buffer.from(tls.certificate), private_key: Buffer.from(tls.key) },
      ])
    : ServerCredentials.createInsecure()
  const asIs = (bytes: Buffer) => bytes
  const byService = new Map<string, [string, Handler][]>()
  for (const entry of Object.entries(methods)) {
    const service = entry[0].split('/')[1]!
    byService.set(service, [...(byService.get(service) ?? []), entry])
  }
  for (const entries of byService.values()) {
    const definition = Object.fromEntries(
      entries.map(([path]) => [
        path,
        {
          path,
          requestStream: false,
          responseStream: false,
          requestSerialize: asIs,
          requestDeserialize: asIs,
          responseSerialize: asIs,
          responseDeserialize: asIs,
        },
      ]),
    )
    const implementation = Object.fromEntries(
      entries.map(([path, handler]) => [
        path,
        async (
          call: { request: Buffer; metadata: { getMap(): Record<string, unknown> } },
          callback: (error: Partial<ServiceError> | null, answer?: Buffer) => void,
        ) => {
          const answer = await handler(call.request, call.metadata.getMap())
          if (Buffer.isBuffer(answer)) callback(null, answer)
          else callback(answer)
        },
      ]),
    )
    server.addService(definition, implementation)
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', how, (error, bound) => (error ? reject(error) : resolve(bound)))
  })
  return {
    url: `${tls ? 'grpcs' : 'grpc'}://127.0.0.1:${port}`,
    stop: () => server.forceShutdown(),
  }
}
