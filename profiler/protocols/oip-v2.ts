import { ProtocolError } from '../errors.ts'
import type { Uniform } from '../random.ts'
import { getJson } from './http.ts'
import { type Dialect, isObject, type ProtocolOptions } from './http-protocol.ts'
import { bytesKind, englishText, generatedBodies, itemShape, jpegImage, numericValues, type TensorInput } from './payload.ts'

/** An input as the metadata of either form, REST or gRPC, declares it. */
export interface OipInput extends TensorInput {
  readonly datatype: string
}

/** Open Inference Protocol v2 over REST (Triton, KServe, TorchServe, MLServer). */
export function openInferenceProtocol({ headers = {} }: ProtocolOptions): Dialect {
  const modelPath = (model: string) => `/v2/models/${encodeURIComponent(model)}`
  return {
    name: 'oip-v2',
    expect: '"outputs"',
    readyPaths: (model) => ['/v2/health/ready', modelPath(model)],
    inferPath: (model) => `${modelPath(model)}/infer`,
    fault: (answer) => {
      if (!isObject(answer)) return 'not with an object'
      if ('error' in answer) return `with the error ${JSON.stringify(answer.error)}`
      return Array.isArray(answer.outputs) ? undefined : 'without outputs'
    },
    async generate(url, model, seed, count, signal) {
      const metadataUrl = new URL(modelPath(model), url).href
      const inputs = oipInputs('oip-v2', metadataUrl, await getJson('oip-v2', metadataUrl, headers, signal))
      return generatedBodies(seed, count, async (uniform) => {
        const made = []
        for (const input of inputs) {
          made.push({ name: input.name, datatype: input.datatype, shape: input.shape, data: await valuesOf(input, uniform) })
        }
        return { inputs: made }
      })
    },
  }
}

async function valuesOf(input: OipInput, uniform: Uniform): Promise<unknown[]> {
  if (input.kind !== 'text' && input.kind !== 'image') return numericValues(input, uniform)
  const values: string[] = []
  const length = input.shape.reduce((product, size) => product * size, 1)
  for (let i = 0; i < length; i++) values.push(input.kind === 'text' ? englishText(uniform) : (await jpegImage(uniform)).toString('base64'))
  return values
}

/** What the metadata at `url` says of the inputs. Throws a ProtocolError for metadata without any. */
export function oipInputs(protocol: 'oip-v2' | 'grpc-v2', url: string, metadata: unknown): OipInput[] {
  const inputs = isObject(metadata) ? metadata.inputs : undefined
  if (!Array.isArray(inputs) || inputs.length === 0)
    throw new ProtocolError(protocol, `${url} names no inputs`, 'give request bodies in a JSON Lines file (--payload)')
  return inputs.map((input: unknown): OipInput => {
    if (!isObject(input) || typeof input.name !== 'string' || typeof input.datatype !== 'string' || !Array.isArray(input.shape))
      throw new ProtocolError(protocol, `${url} has an input without name, datatype and shape: ${JSON.stringify(input)}`)
    const { name, datatype } = input
    const bytes = datatype === 'BYTES'
    const declared = input.shape.map(Number)
    const shape = bytes ? declared.map((size) => (size > 0 ? size : 1)) : itemShape(name, declared)
    const kind = bytes ? bytesKind(name) : datatype === 'BOOL' ? 'boolean' : /^U?INT/.test(datatype) ? 'integer' : 'float'
    return { name, datatype, kind, shape }
  })
}
