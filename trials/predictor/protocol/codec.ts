/** Request and reply by protocol. */
import type { Tensors } from '../engine.ts'
import type { Reply, ReplyFormat, ServedModelInfo, WireRequest } from './messages.ts'
import { decodeOip, encodeOip } from './oip.ts'
import { decodeTfServing, encodeTfServing } from './tfserving.ts'

/** Throws RequestError 400. */
export function decodeRequest(
  protocol: ReplyFormat['protocol'],
  body: string | Uint8Array,
  headerLength: number | undefined,
  model: ServedModelInfo,
): WireRequest {
  return protocol === 'oip' ? decodeOip(body, headerLength, model) : decodeTfServing(body, model)
}

/** Throws RequestError 500 for outputs that the format cannot express. */
export function encodeReply(format: ReplyFormat, outputs: Tensors, model: ServedModelInfo): Reply {
  return format.protocol === 'oip' ? encodeOip(format, outputs, model) : encodeTfServing(format, outputs, model)
}
