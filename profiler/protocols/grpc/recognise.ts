import { type ServiceError, status } from '@grpc/grpc-js'
import type { ProtocolName, TlsOptions } from '../../types.ts'
import { callRaw } from './call.ts'

const probes: readonly (readonly [ProtocolName, string])[] = [
  ['grpc-v2', '/inference.GRPCInferenceService/ServerLive'],
  ['tfserving-grpc', '/tensorflow.serving.ModelService/GetModelStatus'],
]

/** Which gRPC protocol a server speaks: the first whose method it knows. */
export async function recogniseGrpc(url: string, tls: TlsOptions | undefined, signal: AbortSignal): Promise<ProtocolName | undefined> {
  for (const [protocol, path] of probes) {
    try {
      await callRaw({ protocol, url, headers: {}, tls }, path, Buffer.alloc(0), 1000, signal)
      return protocol
    } catch (error) {
      signal.throwIfAborted()
      // An empty request is wrong, and only a server that knows the method can say so.
      const { code } = error as Partial<ServiceError>
      if (code === status.INVALID_ARGUMENT || code === status.NOT_FOUND) return protocol
    }
  }
  return undefined
}
