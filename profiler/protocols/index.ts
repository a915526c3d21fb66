import { ProtocolError } from '../errors.ts'
import type { Protocol, ProtocolName } from '../types.ts'
import { answersOk } from './http.ts'
import { httpProtocol, type ProtocolOptions, parseUrl } from './http-protocol.ts'
import { plainJson } from './json.ts'
import { openInferenceProtocol } from './oip-v2.ts'
import { tensorflowServing } from './tfserving.ts'

export type { ProtocolOptions } from './http-protocol.ts'

/** The client side of a protocol. Throws a ProtocolError for one that is not spoken. */
export function protocolFor(name: ProtocolName, options: ProtocolOptions = {}): Protocol {
  switch (name) {
    case 'oip-v2':
      return httpProtocol(openInferenceProtocol(options), options)
    case 'tfserving':
      return httpProtocol(tensorflowServing(options), options)
    case 'json':
      return httpProtocol(plainJson(options), options)
    default:
      throw new ProtocolError(name, `the profiler does not speak '${name}'`, 'it speaks oip-v2, tfserving and json')
  }
}

/** The protocol that a server answers to: Open Inference Protocol, TensorFlow Serving, else plain JSON. */
export async function detectProtocol(url: string, model: string, options: ProtocolOptions, signal: AbortSignal): Promise<ProtocolName> {
  const { origin } = parseUrl('json', url)
  const speaks = (path: string) => answersOk(origin + path, options.headers ?? {}, signal)
  if (await speaks(`/v2/models/${encodeURIComponent(model)}`)) return 'oip-v2'
  if (await speaks(`/v1/models/${encodeURIComponent(model)}`)) return 'tfserving'
  return 'json'
}
