/** Request and reply by protocol. */
import { protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import type { Tensors } from '../engine.ts'
import { decodeOip, encodeOip } from './oip-http.ts'
import type { TensorProtocol } from './spoken.ts'
import type { Reply, ReplyFormat, ServedModelInfo, WireRequest } from './tensors.ts'
import { decodeTfServing, encodeTfServing } from './tfserving-http.ts'

type FormatOf<Name extends TensorProtocol> = Extract<ReplyFormat, { protocol: Name }>

interface Codec<Format> {
  /** @throws RequestError 400 */
  decode(
    body: string | Uint8Array,
    model: ServedModelInfo,
    headerLength: number | undefined,
  ): WireRequest
  /** @throws RequestError 500 for outputs that the format cannot express */
  encode(format: Format, outputs: Tensors, model: ServedModelInfo): Reply
}

type GrpcCodec = typeof import('./grpc/oip-grpc.ts') & typeof import('./grpc/tfserving-grpc.ts')
let grpcCodec: GrpcCodec | undefined

/**
 * To be awaited before the first message of a protocol: a predictor without gRPC starts without
 * protocol buffers.
 */
export async function loadCodec(protocol: TensorProtocol): Promise<void> {
  if (protocolTable[protocol].transport === 'grpc')
    grpcCodec ??= {
      ...(await import('./grpc/oip-grpc.ts')),
      ...(await import('./grpc/tfserving-grpc.ts')),
    }
}

const grpc = (): GrpcCodec => {
  if (!grpcCodec) throw new Error('a gRPC message before loadCodec')
  return grpcCodec
}

const codecs: { readonly [Name in TensorProtocol]: Codec<FormatOf<Name>> } = {
  'oip-v2': {
    decode: (body, model, headerLength) => decodeOip(body, headerLength, model),
    encode: encodeOip,
  },
  'grpc-v2': {
    decode: (body, model) => grpc().decodeOipGrpc(body as Uint8Array, model),
    encode: (...reply) => grpc().encodeOipGrpc(...reply),
  },
  tfserving: { decode: decodeTfServing, encode: encodeTfServing },
  'tfserving-grpc': {
    decode: (body, model) => grpc().decodeTfServingGrpc(body as Uint8Array, model),
    encode: (...reply) => grpc().encodeTfServingGrpc(...reply),
  },
}

export const decodeRequest = (
  protocol: TensorProtocol,
  ...request: Parameters<Codec<never>['decode']>
): WireRequest => codecs[protocol].decode(...request)

export const encodeReply = (format: ReplyFormat, outputs: Tensors, model: ServedModelInfo): Reply =>
  (codecs[format.protocol] as Codec<ReplyFormat>).encode(format, outputs, model)
