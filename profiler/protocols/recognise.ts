import { ProtocolError } from '../profiler-errors.ts'
import type { Protocol, ProtocolName } from '../types.ts'
import { get, unknownPath } from './http.ts'
import { isObject, type ProtocolOptions } from './http-protocol.ts'

const titles: Readonly<Record<ProtocolName, string>> = {
  'oip-v2': 'the Open Inference Protocol',
  'grpc-v2': 'the Open Inference Protocol over gRPC',
  tfserving: 'TensorFlow Serving',
  'tfserving-grpc': 'TensorFlow Serving over gRPC',
  json: 'plain JSON',
  openai: 'the OpenAI protocol',
}

const probeMs = 1000

/** Which protocol a server speaks, by what it answers to harmless questions; undefined when none is recognised, or nothing listens. Rejects only when the signal aborts. */
export async function recognise(
  url: string,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<ProtocolName | undefined> {
  const origin = URL.canParse(url) ? new URL(url.replace(/^grpc/, 'http')).origin : undefined
  if (origin === undefined) return undefined
  const grpc = async () => (await import('./grpc/recognise-grpc.ts')).recogniseGrpc(origin, options.tls, signal)
  const saysGrpc = /^grpcs?:/.test(url)
  const spoken = saysGrpc ? await grpc() : undefined
  if (spoken !== undefined) return spoken
  let heard = false
  let refused = false
  const ask = async (path: string): Promise<{ json: unknown; text: string; status: number }> => {
    try {
      const { status, text } = await get(origin + path, options, AbortSignal.any([signal, AbortSignal.timeout(probeMs)]))
      heard = true
      return { status, text, json: text.startsWith('{') ? JSON.parse(text) : undefined }
    } catch (error) {
      signal.throwIfAborted()
      refused ||= (error as { code?: unknown }).code === 'ECONNREFUSED'
      return { status: 0, text: '', json: undefined } // No HTTP, or no JSON: says nothing for this protocol.
    }
  }
  const name = encodeURIComponent(model)
  const oip = await ask(`/v2/models/${name}`)
  if (oip.status === 200 && isObject(oip.json) && 'inputs' in oip.json) return 'oip-v2'
  if (refused) return undefined
  if (unknownPath.test(oip.text)) return 'tfserving'
  const tensorflow = await ask(`/v1/models/${name}`)
  if (isObject(tensorflow.json) && 'model_version_status' in tensorflow.json) return 'tfserving'
  if (/Servable not found|Could not find any versions of model/.test(tensorflow.text)) return 'tfserving'
  const { json } = await ask('/v1/models')
  if (isObject(json) && json.object === 'list') return 'openai'
  if ((await ask('/v2/health/live')).status === 200) return 'oip-v2'
  // A gRPC server answers over HTTP/2, if with an error.
  return (heard && !options.http2) || saysGrpc ? undefined : grpc()
}

/** Protocols whose readiness is asked in a way of their own: who answers it well speaks them. */
const tellingReadiness: ReadonlySet<ProtocolName> = new Set(['oip-v2', 'grpc-v2', 'tfserving', 'tfserving-grpc'])

/** The protocol, whose errors say when the server speaks another one. */
export function withRecognition(protocol: Protocol, options: ProtocolOptions): Protocol {
  const { name } = protocol
  const looksLike = async (url: string, model: string, signal: AbortSignal): Promise<string | undefined> => {
    const found = await recognise(url, model, options, signal)
    if (found === undefined || found === name) return undefined
    // Some servers speak several protocols.
    if (tellingReadiness.has(name) && (await protocol.ready(url, model, signal))) return undefined
    return `this looks like ${titles[found]}; use --protocol ${found}`
  }
  return {
    ...protocol,
    looksLike,
    async prepare(url, model, payload, signal) {
      try {
        return await protocol.prepare(url, model, payload, signal)
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error
        // The protocol was understood.
        if (error.why === 'refused') throw error
        const other = await looksLike(url, model, signal)
        throw other === undefined ? error : new ProtocolError(name, error.message, other, 'other-protocol')
      }
    },
  }
}
