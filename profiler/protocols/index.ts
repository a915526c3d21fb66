import { PayloadError } from '../profiler-errors.ts'
import type { PayloadSource, Protocol, ProtocolName } from '../types.ts'
import { httpProtocol, type ProtocolOptions, parseUrl } from './http-protocol.ts'
import { byNumber } from './items.ts'
import { openInferenceProtocol } from './oip-v2.ts'
import { openAi } from './openai.ts'
import { plainJson } from './plain-json.ts'
import { recognise, withRecognition } from './recognise.ts'
import { tensorflowServing } from './tfserving.ts'

export type { ProtocolOptions } from './http-protocol.ts'

/** The client side of a protocol. */
export function protocolFor(name: ProtocolName, options: ProtocolOptions = {}): Protocol {
  return withRecognition(inOrder(plain(name, options)), options)
}

/** The protocol, whose bodies come in the order of the payload's trace. */
function inOrder(protocol: Protocol): Protocol {
  return {
    ...protocol,
    async prepare(url, model, payload, signal) {
      checkSource(protocol.name, payload)
      const target = await protocol.prepare(url, model, payload, signal)
      return payload.order === undefined ? target : { ...target, bodies: byNumber(target.bodies, payload.order) }
    },
  }
}

/** Throws a PayloadError for what a protocol cannot make requests of. */
function checkSource(protocol: ProtocolName, payload: PayloadSource): void {
  const sized = payload.order?.items !== undefined || (payload.kind !== 'file' && payload.items !== undefined)
  if (payload.kind === 'file' && sized) throw new PayloadError(`${payload.path} holds whole requests: their items cannot be chosen`)
  if (protocol !== 'openai') return
  if (sized) throw new PayloadError('a request to a language model is one prompt', 'leave out items')
  if (payload.kind === 'texts' || payload.kind === 'images')
    throw new PayloadError(`${payload.path} holds no requests to a language model`, 'give them as JSON Lines')
}

function plain(name: ProtocolName, options: ProtocolOptions): Protocol {
  switch (name) {
    case 'oip-v2':
      return httpProtocol(openInferenceProtocol(options), options)
    case 'tfserving':
      return httpProtocol(tensorflowServing(options), options)
    case 'json':
      return httpProtocol(plainJson(options), options)
    case 'grpc-v2':
    case 'tfserving-grpc':
      return grpc(name, options)
    case 'openai':
      return openAi(options)
  }
}

/** Loaded when first used: most experiments need no gRPC. */
function grpc(name: 'grpc-v2' | 'tfserving-grpc', options: ProtocolOptions): Protocol {
  const load = async () => {
    const [{ grpcProtocol }, { openInferenceGrpc }, { tensorflowGrpc }] = await Promise.all([
      import('./grpc/protocol.ts'),
      import('./grpc/oip-messages.ts'),
      import('./grpc/tensorflow-messages.ts'),
    ])
    return grpcProtocol(name === 'grpc-v2' ? openInferenceGrpc : tensorflowGrpc, options)
  }
  return {
    name,
    ready: async (...args) => (await load()).ready(...args),
    prepare: async (...args) => (await load()).prepare(...args),
  }
}

/** The protocol that a server answers to; plain JSON where none is recognised. Throws a ProtocolError for a gRPC URL where none is. */
export async function detectProtocol(url: string, model: string, options: ProtocolOptions, signal: AbortSignal): Promise<ProtocolName> {
  if (!/^grpcs?:/.test(url)) parseUrl('json', url)
  const found = await recognise(url, model, options, signal)
  if (found === undefined && /^grpcs?:/.test(url))
    throw await (await import('./grpc/recognise-grpc.ts')).whyNoGrpc(url.replace(/^grpc/, 'http'), options.tls, signal)
  return found ?? 'json'
}
