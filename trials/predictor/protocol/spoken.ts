/** Protocols of the built-in predictor by kind of model. The first is the default. */
import type { ProtocolName } from '../../../profiler/protocols/protocol-table.ts'

export const spoken = {
  tensors: ['oip-v2', 'grpc-v2', 'tfserving', 'tfserving-grpc'],
  prompts: ['openai'],
} as const satisfies Record<string, readonly ProtocolName[]>

export type TensorProtocol = (typeof spoken.tensors)[number]
export type BuiltinProtocol = TensorProtocol | (typeof spoken.prompts)[number]
