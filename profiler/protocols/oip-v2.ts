/** The Open Inference Protocol v2 over REST, and what its gRPC form shares with it. */
import { isRecord, textsAt, textsIn } from '../plain-record.ts'
import { PayloadError, ProtocolError } from '../profiler-errors.ts'
import { type Content, fitted } from './content.ts'
import { getJson } from './http.ts'
import { type Dialect, httpProtocol } from './http-protocol.ts'
import {
  type AnsweredTensor,
  type DeclaredTensor,
  idFault,
  modelFault,
  tensorsByName,
  tensorsFault,
} from './meaning.ts'
import { bytesKind, itemShape, maxInteger, type TensorInput } from './payload-pool.ts'
import { jsonPool } from './pool.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { countElements } from './tensor-bytes.ts'

/** An input as declared by the metadata, over REST or gRPC. */
interface OipInput extends TensorInput {
  readonly datatype: string
  /** Its first dimension is the batch, of any size. */
  readonly batched: boolean
}

const modelPath = (model: string) => `/v2/models/${encodeURIComponent(model)}`
const inferPath = (model: string) => `${modelPath(model)}/infer`

/** Open Inference Protocol v2 over REST (Triton, KServe, TorchServe, MLServer). */
export const oipV2: ProtocolModule = {
  create: (options) => httpProtocol(dialect(options), options),
  callPath: inferPath,
  signs: [
    {
      path: modelPath,
      shows: ({ status, json }) => status === 200 && isRecord(json) && Array.isArray(json.inputs),
    },
    {
      path: () => '/v2/health/live',
      // {"live": true}; from Triton and MLServer only the status, which other servers return for
      // any path.
      shows: ({ status, text, json }, madeUp) =>
        status === 200 &&
        ((isRecord(json) && json.live === true) ||
          (madeUp.status !== 200 && (isRecord(json) || text.trim() === ''))),
    },
  ],
  modelLists: [
    { method: 'POST', path: '/v2/repository/index', names: (answer) => textsAt('name', answer) },
    // Some servers list names, others records.
    {
      method: 'GET',
      path: '/v2/models',
      names: (answer) =>
        isRecord(answer) ? [...textsIn(answer.models), ...textsAt('name', answer.models)] : [],
    },
  ],
}

function dialect(options: ProtocolOptions): Dialect {
  return {
    name: 'oip-v2',
    expect: () => '"outputs"',
    readyPaths: (model) => ['/v2/health/ready', modelPath(model)],
    readyPathsOfSome: (model) => [`${modelPath(model)}/ready`],
    inferPath,
    fault: (answer, { model, request, outputs }) => {
      if (!isRecord(answer)) return 'not with an object'
      if ('error' in answer) return `with the error ${JSON.stringify(answer.error)}`
      if (!Array.isArray(answer.outputs)) return 'without outputs'
      const asked = isRecord(request) ? request : {}
      return (
        modelFault(answer.model_name, model) ??
        idFault(answer.id, asked.id) ??
        tensorsFault(answer.outputs.map(answeredTensor), outputs, countItems(asked))
      )
    },
    result: oipResult,
    async generate(at, model, source, signal) {
      const metadataUrl = at(modelPath(model))
      const metadata = await getJson('oip-v2', metadataUrl, options, signal)
      const inputs = fitted(source, oipInputs('oip-v2', metadataUrl, metadata))
      let number = 0
      const bodies = await jsonPool(source, async (content, items) => {
        const made = []
        for (const input of inputs) {
          const shape = resolveShape(input, items)
          const values = await drawValues(input, content, items)
          const data = values.map((value) =>
            Buffer.isBuffer(value) ? value.toString('base64') : value,
          )
          made.push({ name: input.name, datatype: input.datatype, shape, data })
        }
        return { id: String(number++), inputs: made }
      })
      return { bodies, outputs: oipOutputs(metadata) }
    },
  }
}

/** Tensors of an answer in the REST form. */
export const oipResult = (answer: unknown): unknown =>
  tensorsByName(
    (isRecord(answer) && Array.isArray(answer.outputs) ? answer.outputs : []).map(answeredTensor),
  )

function answeredTensor(output: unknown): AnsweredTensor {
  const { name, datatype, shape, data } = isRecord(output) ? output : {}
  return {
    name: String(name),
    datatype: String(datatype),
    shape: Array.isArray(shape) ? shape.map(Number) : [Number.NaN],
    // Binary data would follow the document, but is never requested, so missing data is an error.
    data: Array.isArray(data) ? data.flat(Number.POSITIVE_INFINITY) : [],
  }
}

/** Items of a request: the first dimension of its first input. */
function countItems({ inputs }: Record<string, unknown>): number | undefined {
  const [first] = Array.isArray(inputs) ? (inputs as unknown[]) : []
  const shape = isRecord(first) ? first.shape : undefined
  return Array.isArray(shape) && typeof shape[0] === 'number' ? shape[0] : undefined
}

/** Parses the declared outputs; empty where the metadata is incomplete. */
export function oipOutputs(metadata: unknown): DeclaredTensor[] {
  const outputs: unknown[] =
    isRecord(metadata) && Array.isArray(metadata.outputs) ? metadata.outputs : []
  return outputs.flatMap((output) =>
    isRecord(output) &&
    typeof output.name === 'string' &&
    typeof output.datatype === 'string' &&
    Array.isArray(output.shape)
      ? [{ name: output.name, datatype: output.datatype, shape: output.shape.map(Number) }]
      : [],
  )
}

/**
 * Shape for a number of items. Throws a PayloadError for several items where the batch is fixed.
 */
export function resolveShape({ name, shape, batched }: OipInput, items: number): number[] {
  if (items === 1) return [...shape]
  if (!batched)
    throw new PayloadError(
      `the model's input '${name}' has the fixed shape [${shape.join(', ')}], and requests have ${items} items`,
      'leave out items, or serve the model with a dynamic batch dimension',
    )
  return [items, ...shape.slice(1)]
}

/** Takes row-major values for a number of items from the content: texts, image bytes, numbers. */
export async function drawValues(
  input: OipInput,
  content: Content,
  items: number,
): Promise<(string | Buffer | number | boolean)[]> {
  const values: (string | Buffer | number | boolean)[] = []
  const length = countElements(input.shape)
  for (let item = 0; item < items; item++) {
    if (input.kind === 'text') for (let i = 0; i < length; i++) values.push(content.text())
    else if (input.kind === 'image')
      for (let i = 0; i < length; i++) values.push(await content.image())
    else for (const value of await content.numbers(input)) values.push(value)
  }
  return values
}

/**
 * Parses the declared inputs in the metadata at `url`. Throws a ProtocolError for metadata without
 * any.
 */
export function oipInputs(protocol: string, url: string, metadata: unknown): OipInput[] {
  const inputs = isRecord(metadata) ? metadata.inputs : undefined
  if (!Array.isArray(inputs) || inputs.length === 0)
    throw new ProtocolError(
      protocol,
      `${url} names no inputs`,
      'give request bodies in a JSON Lines file (--payload)',
    )
  return inputs.map((input: unknown): OipInput => {
    if (
      !isRecord(input) ||
      typeof input.name !== 'string' ||
      typeof input.datatype !== 'string' ||
      !Array.isArray(input.shape)
    )
      throw new ProtocolError(
        protocol,
        `${url} has an input without name, datatype and shape: ${JSON.stringify(input)}`,
      )
    const { name, datatype } = input
    const bytes = datatype === 'BYTES'
    const declared = input.shape.map(Number)
    const shape = bytes ? declared.map((size) => (size > 0 ? size : 1)) : itemShape(name, declared)
    const kind = bytes
      ? bytesKind(name)
      : datatype === 'BOOL'
        ? 'boolean'
        : /^U?INT/.test(datatype)
          ? 'integer'
          : 'float'
    return {
      name,
      datatype,
      kind,
      shape,
      most: maxInteger(datatype),
      batched: declared.length > 0 && declared[0]! <= 0,
    }
  })
}
