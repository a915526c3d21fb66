/** Request and reply by protocol. */
import type { Tensors } from '../engine.ts'
import { decodeOip, encodeOip } from './oip-http.ts'
import type { Reply, ReplyFormat, ServedModelInfo, WireRequest } from './tensors.ts'
import { decodeTfServing, encodeTfServing } from './tfserving-http.ts'

type GrpcCodec = typeof import('./grpc/grpc-codec.ts')
let grpcCodec: GrpcCodec | undefined

/** To be awaited before the first gRPC message: a predictor without gRPC starts without protocol buffers. */
export async function loadGrpcCodec(): Promise<void> {
  grpcCodec ??= await import('./grpc/grpc-codec.ts')
}

const grpc = (): GrpcCodec => {
  if (!grpcCodec) throw new Error('a gRPC message before loadGrpcCodec')
  return grpcCodec
}

export const isGrpc = (protocol: ReplyFormat['protocol']): boolean => protocol === 'oip-grpc' || protocol === 'tfserving-grpc'

/** Throws RequestError 400. */
export function decodeRequest(
  protocol: ReplyFormat['protocol'],
  body: string | Uint8Array,
  headerLength: number | undefined,
  model: ServedModelInfo,
): WireRequest {
  switch (protocol) {
    case 'oip':
      return decodeOip(body, headerLength, model)
    case 'tfserving':
      return decodeTfServing(body, model)
    case 'oip-grpc':
      return grpc().decodeOipGrpc(body as Uint8Array, model)
    case 'tfserving-grpc':
      return grpc().decodeTfServingGrpc(body as Uint8Array, model)
  }
}

/** Throws RequestError 500 for outputs that the format cannot express. */
export function encodeReply(format: ReplyFormat, outputs: Tensors, model: ServedModelInfo): Reply {
  switch (format.protocol) {
    case 'oip':
      return encodeOip(format, outputs, model)
    case 'tfserving':
      return encodeTfServing(format, outputs, model)
    case 'oip-grpc':
      return grpc().encodeOipGrpc(format, outputs, model)
    case 'tfserving-grpc':
      return grpc().encodeTfServingGrpc(format, outputs, model)
  }
}
