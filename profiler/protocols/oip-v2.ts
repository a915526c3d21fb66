/** The Open Inference Protocol v2 over REST, and what its gRPC form shares with it. */
import { isRecord, pluckStrings, selectStrings } from '../plain-record.ts'
import { ProtocolError } from '../profiler-errors.ts'
import {
  type DeclaredTensor,
  findIdFault,
  findModelFault,
  findTensorsFault,
  groupByName,
  type OutputTensor,
} from './answer-faults.ts'
import { type Content, matchInputs } from './content.ts'
import { getJson } from './http.ts'
import { createHttpProtocol, type Dialect } from './http-protocol.ts'
import { type BatchedInput, checkItems, describeInput } from './payload-pool.ts'
import { buildJsonPool } from './pool.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { countElements } from './tensor-bytes.ts'

/** An input as declared by the metadata, over REST or gRPC. */
interface OipInput extends BatchedInput {
  readonly datatype: string
}

const buildModelPath = (model: string) => `/v2/models/${encodeURIComponent(model)}`
const buildInferPath = (model: string) => `${buildModelPath(model)}/infer`

/** Open Inference Protocol v2 over REST (Triton, KServe, TorchServe, MLServer). */
export const oipV2: ProtocolModule = {
  create: (options) => createHttpProtocol(createDialect(options), options),
  callPath: buildInferPath,
  probes: [
    {
      path: buildModelPath,
      matches: ({ status, json }) => status === 200 && isRecord(json) && Array.isArray(json.inputs),
    },
    {
      path: () => '/v2/health/live',
      // {"live": true}; from Triton and MLServer only the status, which other servers return for
      // any path.
      matches: ({ status, text, json }, notFoundAnswer) =>
        status === 200 &&
        ((isRecord(json) && json.live === true) ||
          (notFoundAnswer.status !== 200 && (isRecord(json) || text.trim() === ''))),
    },
  ],
  modelLists: [
    {
      method: 'POST',
      path: '/v2/repository/index',
      parseNames: (answer) => pluckStrings('name', answer),
    },
    // Some servers list names, others records.
    {
      method: 'GET',
      path: '/v2/models',
      parseNames: (answer) =>
        isRecord(answer)
          ? [...selectStrings(answer.models), ...pluckStrings('name', answer.models)]
          : [],
    },
  ],
}

function createDialect(options: ProtocolOptions): Dialect {
  return {
    name: 'oip-v2',
    findExpectedText: () => '"outputs"',
    listReadyPaths: (model) => ['/v2/health/ready', buildModelPath(model)],
    listOptionalReadyPaths: (model) => [`${buildModelPath(model)}/ready`],
    buildInferPath,
    describeFault: (answer, { model, request, outputs }) => {
      if (!isRecord(answer)) return 'not with an object'
      if ('error' in answer) return `with the error ${JSON.stringify(answer.error)}`
      if (!Array.isArray(answer.outputs)) return 'without outputs'
      const requestDocument = isRecord(request) ? request : {}
      return (
        findModelFault(answer.model_name, model) ??
        findIdFault(answer.id, requestDocument.id) ??
        findTensorsFault(
          answer.outputs.map(parseOutputTensor),
          outputs,
          countItems(requestDocument),
        )
      )
    },
    extractResult: extractTensors,
    async generateBodies(buildUrl, model, source, signal) {
      const metadataUrl = buildUrl(buildModelPath(model))
      const metadata = await getJson('oip-v2', metadataUrl, options, signal)
      const inputs = matchInputs(source, parseInputs('oip-v2', metadataUrl, metadata))
      let number = 0
      const bodies = await buildJsonPool(source, async (content, items) => {
        const tensors = []
        for (const input of inputs) {
          const shape = resolveShape(input, items)
          const values = await drawValues(input, content, items)
          const data = values.map((value) =>
            Buffer.isBuffer(value) ? value.toString('base64') : value,
          )
          tensors.push({ name: input.name, datatype: input.datatype, shape, data })
        }
        return { id: String(number++), inputs: tensors }
      })
      return { bodies, outputs: parseOutputs(metadata) }
    },
  }
}

/** Tensors of an answer in the REST form. */
export const extractTensors = (answer: unknown): unknown =>
  groupByName(
    (isRecord(answer) && Array.isArray(answer.outputs) ? answer.outputs : []).map(
      parseOutputTensor,
    ),
  )

function parseOutputTensor(output: unknown): OutputTensor {
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
export function parseOutputs(metadata: unknown): DeclaredTensor[] {
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
 * Resolves the shape for a number of items. Throws a PayloadError for several items where the batch
 * is fixed.
 */
export function resolveShape(input: OipInput, items: number): number[] {
  checkItems(input, items)
  return items === 1 ? [...input.shape] : [items, ...input.shape.slice(1)]
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
    if (input.kind === 'text') for (let i = 0; i < length; i++) values.push(content.nextText())
    else if (input.kind === 'image')
      for (let i = 0; i < length; i++) values.push(await content.nextImage())
    else for (const value of await content.nextNumbers(input)) values.push(value)
  }
  return values
}

/**
 * Parses the declared inputs in the metadata at `url`. Throws a ProtocolError for metadata without
 * any.
 */
export function parseInputs(protocol: string, url: string, metadata: unknown): OipInput[] {
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
    return { ...describeInput(name, datatype, input.shape.map(Number)), datatype }
  })
}
