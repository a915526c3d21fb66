import type { Protocol, ProtocolName } from '../types.ts'
import { httpProtocol, type ProtocolOptions, parseUrl } from './http-protocol.ts'
import { plainJson } from './json.ts'
import { openInferenceProtocol } from './oip-v2.ts'
import { openAi } from './openai.ts'
import { recognise, withRecognition } from './recognise.ts'
import { tensorflowServing } from './tfserving.ts'

export type { ProtocolOptions } from './http-protocol.ts'

/** The client side of a protocol. */
export const protocolFor = (name: ProtocolName, options: ProtocolOptions = {}): Protocol => withRecognition(plain(name, options), options)

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
      import('./grpc/oip.ts'),
      import('./grpc/tensorflow.ts'),
    ])
    return grpcProtocol(name === 'grpc-v2' ? openInferenceGrpc : tensorflowGrpc, options)
  }
  return {
    name,
    ready: async (...args) => (await load()).ready(...args),
    prepare: async (...args) => (await load()).prepare(...args),
  }
}

/** The protocol that a server answers to; plain JSON where none is recognised. */
export async function detectProtocol(url: string, model: string, options: ProtocolOptions, signal: AbortSignal): Promise<ProtocolName> {
  if (!/^grpcs?:/.test(url)) parseUrl('json', url)
  return (await recognise(url, model, options, signal)) ?? 'json'
}
