import { isRecord } from '../plain-record.ts'
import { ProtocolError } from '../profiler-errors.ts'
import { type Content, fitted } from './content.ts'
import { getJson, unknownPath } from './http.ts'
import { type Dialect, httpProtocol } from './http-protocol.ts'
import { type DeclaredTensor, documentFault } from './meaning.ts'
import { bytesKind, itemShape, type TensorInput } from './payload-pool.ts'
import { jsonPool } from './pool.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'

const modelPath = (model: string) => `/v1/models/${encodeURIComponent(model)}`
const inferPath = (model: string) => `${modelPath(model)}:predict`

/** TensorFlow Serving's REST API, requests in row format: one instance an item. */
export const tfserving: ProtocolModule = {
  create: (options) => httpProtocol(dialect(options), options),
  callPath: inferPath,
  signs: [
    {
      path: modelPath,
      shows: ({ json, text }) =>
        (isRecord(json) && 'model_version_status' in json) ||
        unknownPath.test(text) ||
        /Servable not found|Could not find any versions of model/.test(text),
    },
  ],
}

function dialect(options: ProtocolOptions): Dialect {
  return {
    name: 'tfserving',
    expect: '"predictions"',
    readyPaths: (model) => [modelPath(model)],
    inferPath,
    fault: (answer, { request, outputs = [] }) => {
      if (!isRecord(answer)) return 'not with an object'
      if ('error' in answer) return `with the error ${JSON.stringify(answer.error)}`
      const { predictions } = answer
      // A request in columns is answered in columns.
      if (!Array.isArray(predictions)) return answer.outputs === undefined ? 'without predictions' : documentFault(answer)
      const instances = within(request, 'instances')
      if (Array.isArray(instances) && predictions.length !== instances.length)
        return `with ${predictions.length} predictions for ${instances.length} instances`
      const names = outputs.map(({ name }) => name)
      const strange = predictions
        .flatMap((item) => (isRecord(item) && !('b64' in item) ? Object.keys(item) : []))
        .find((name) => !names.includes(name))
      if (names.length > 0 && strange !== undefined)
        return documentFault(answer) ?? `its output '${strange}' is none of the model's, which are ${names.join(', ')}`
      return documentFault(answer)
    },
    result: (answer) => (isRecord(answer) ? { predictions: answer.predictions, outputs: answer.outputs } : undefined),
    async generate(at, model, source, signal) {
      const metadataUrl = at(`${modelPath(model)}/metadata`)
      const metadata = await getJson('tfserving', metadataUrl, options, signal)
      const signatures = within(metadata, 'metadata', 'signature_def', 'signature_def')
      const inputs = fitted(source, signatureInputs('tfserving', metadataUrl, signatures))
      const bodies = await jsonPool(source, async (content, items) => {
        const instances: Record<string, unknown>[] = []
        for (let item = 0; item < items; item++) {
          const instance: Record<string, unknown> = {}
          for (const input of inputs) instance[input.name] = await valueFor(input, content)
          instances.push(instance)
        }
        return { instances }
      })
      return { bodies, outputs: signatureOutputs(signatures) }
    },
  }
}

async function valueFor(input: TensorInput, content: Content): Promise<unknown> {
  if (input.kind === 'text') return nest(input.shape, () => content.text())
  if (input.kind === 'image') {
    const b64 = (await content.image()).toString('base64')
    return nest(input.shape, () => ({ b64 }))
  }
  const values = await content.numbers(input)
  let next = 0
  return nest(input.shape, () => values[next++])
}

/** Nested lists of a shape, row-major; the value itself for a scalar. */
function nest(shape: readonly number[], value: () => unknown): unknown {
  const [size, ...rest] = shape
  return size === undefined ? value() : Array.from({ length: size }, () => nest(rest, value))
}

/** An input of a signature; its shape without the batch dimension. */
export interface TensorFlowInput extends TensorInput {
  /** 'DT_FLOAT', 'DT_STRING', ... */
  readonly dtype: string
}

const signatureOf = (signatures: unknown): unknown =>
  isRecord(signatures) ? (signatures.serving_default ?? Object.values(signatures)[0]) : undefined

/** Outputs of that signature; none where it does not name them. */
export function signatureOutputs(signatures: unknown): DeclaredTensor[] {
  const outputs = within(signatureOf(signatures), 'outputs')
  return Object.entries(isRecord(outputs) ? outputs : {}).map(([name, output]) => {
    const dims = within(output, 'tensor_shape', 'dim')
    return {
      name,
      datatype: String(within(output, 'dtype')),
      shape: Array.isArray(dims) ? dims.map((dim) => Number(within(dim, 'size'))) : [],
    }
  })
}

/** Inputs of the signature 'serving_default', or of the first one. Throws a ProtocolError where there is none. */
export function signatureInputs(protocol: string, url: string, signatures: unknown): TensorFlowInput[] {
  const inputs = within(signatureOf(signatures), 'inputs')
  if (!isRecord(inputs) || Object.keys(inputs).length === 0)
    throw new ProtocolError(protocol, `${url} names no signature with inputs`, 'give request bodies in a JSON Lines file (--payload)')
  return Object.entries(inputs).map(([name, input]): TensorFlowInput => {
    const dtype = within(input, 'dtype')
    const dims = within(input, 'tensor_shape', 'dim')
    if (typeof dtype !== 'string') throw new ProtocolError(protocol, `${url}: input '${name}' has no dtype`)
    const declared = Array.isArray(dims) ? dims.map((dim) => Number(within(dim, 'size'))) : [-1]
    const bytes = dtype === 'DT_STRING'
    // The first dimension is the batch, which the list of instances stands for.
    const shape = bytes ? declared.slice(1).map((size) => (size > 0 ? size : 1)) : itemShape(name, declared).slice(1)
    const kind = bytes ? bytesKind(name) : dtype === 'DT_BOOL' ? 'boolean' : /^DT_U?INT/.test(dtype) ? 'integer' : 'float'
    return { name, kind, shape, dtype }
  })
}

function within(value: unknown, ...path: string[]): unknown {
  let here = value
  for (const key of path) here = isRecord(here) ? here[key] : undefined
  return here
}
