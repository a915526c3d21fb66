import { isRecord, selectStrings } from '../plain-record.ts'
import { ProtocolError } from '../profiler-errors.ts'
import {
  type DeclaredTensor,
  findDocumentFault,
  findTensorsFault,
  type OutputTensor,
} from './answer-faults.ts'
import { type Content, matchInputs } from './content.ts'
import { getJson } from './http.ts'
import { createHttpProtocol, type Dialect } from './http-protocol.ts'
import { type BatchedInput, checkItems, describeInput, type TensorInput } from './payload-pool.ts'
import { buildJsonPool } from './pool.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { unknownPathPattern } from './refusals.ts'

const buildModelPath = (model: string) => `/v1/models/${encodeURIComponent(model)}`
const buildInferPath = (model: string) => `${buildModelPath(model)}:predict`

/**
 * TensorFlow Serving's REST API, and KServe's v1 API that follows it; requests in row format: one
 * instance per item.
 */
export const tfserving: ProtocolModule = {
  create: (options) => createHttpProtocol(createDialect(options), options),
  callPath: buildInferPath,
  probes: [
    {
      path: buildModelPath,
      matches: ({ json, text }) =>
        (isRecord(json) && 'model_version_status' in json) ||
        unknownPathPattern.test(text) ||
        /Servable not found|Could not find any versions of model/.test(text),
    },
  ],
  // KServe only; TensorFlow Serving has no list.
  modelLists: [
    {
      method: 'GET',
      path: '/v1/models',
      parseNames: (answer) => selectStrings(isRecord(answer) ? answer.models : undefined),
    },
  ],
}

function createDialect(options: ProtocolOptions): Dialect {
  return {
    name: 'tfserving',
    // A request in columns is answered in columns.
    findExpectedText: (requests) => {
      const columns = requests.filter((request) => getPath(request, 'inputs') !== undefined).length
      return columns === 0 ? '"predictions"' : columns === requests.length ? '"outputs"' : undefined
    },
    listReadyPaths: (model) => [buildModelPath(model)],
    buildInferPath,
    describeFault: (answer, { request, outputs = [] }) => {
      if (!isRecord(answer)) return 'not with an object'
      if ('error' in answer) return `with the error ${JSON.stringify(answer.error)}`
      const { predictions } = answer
      const instances = getPath(request, 'instances')
      if (
        Array.isArray(predictions) &&
        Array.isArray(instances) &&
        predictions.length !== instances.length
      )
        return `with ${predictions.length} predictions for ${instances.length} instances`
      if (!Array.isArray(predictions) && answer.outputs === undefined) return 'without predictions'
      return findDocumentFault(answer) ?? findSignatureFault(answer, outputs)
    },
    extractResult: (answer) =>
      isRecord(answer) ? { predictions: answer.predictions, outputs: answer.outputs } : undefined,
    async generateBodies(buildUrl, model, source, signal) {
      const metadataUrl = buildUrl(`${buildModelPath(model)}/metadata`)
      const metadata = await getJson('tfserving', metadataUrl, options, signal)
      const signatures = getPath(metadata, 'metadata', 'signature_def', 'signature_def')
      const signature = selectSignature('tfserving', metadataUrl, signatures, options.signature)
      const inputs = matchInputs(source, signature.inputs)
      const signatureName =
        signature.name === defaultSignature ? {} : { signature_name: signature.name }
      const bodies = await buildJsonPool(source, async (content, items) => {
        // Rows are stacked to a batch, so a model without a batch dimension takes columns only.
        if (!inputs.every(({ hasBatchDimension }) => hasBatchDimension))
          return { ...signatureName, inputs: await drawColumns(inputs, content, items) }
        const instances: Record<string, unknown>[] = []
        for (let item = 0; item < items; item++) {
          const instance: Record<string, unknown> = {}
          for (const input of inputs) instance[input.name] = await drawValue(input, content)
          instances.push(instance)
        }
        return { ...signatureName, instances }
      })
      return { bodies, outputs: signature.outputs }
    },
  }
}

/**
 * Describes how an answer departs from the model's signature: in rows, of one output or all by
 * name, or in columns.
 */
function findSignatureFault(
  { predictions, outputs: columns }: Record<string, unknown>,
  declared: readonly DeclaredTensor[],
): string | undefined {
  if (declared.length === 0) return undefined
  const names = declared.map(({ name }) => name)
  const inRows = Array.isArray(predictions)
  const rows: readonly unknown[] = inRows ? predictions : [columns]
  const namedRow = rows.find(
    (row): row is Record<string, unknown> => isRecord(row) && typeof row.b64 !== 'string',
  )
  if (namedRow === undefined && names.length > 1)
    return `without the names of its outputs, which are ${names.join(', ')}`
  const unknown = Object.keys(namedRow ?? {}).find((name) => !names.includes(name))
  if (unknown !== undefined)
    return `its output '${unknown}' is none of the model's, which are ${names.join(', ')}`
  const missing = namedRow && names.find((name) => !(name in namedRow))
  if (missing !== undefined) return `without its output '${missing}'`
  const selectValues = (name: string) => {
    const values = namedRow === undefined ? rows : rows.map((row) => getPath(row, name))
    return inRows ? values : values[0]
  }
  return findTensorsFault(
    declared.map(({ name, datatype }) => ({ name, datatype, ...flattenLists(selectValues(name)) })),
    declared,
    inRows ? predictions.length : undefined,
  )
}

/** Shape and values of nested lists; a ragged one has more or fewer values than its shape. */
function flattenLists(value: unknown): Pick<OutputTensor, 'shape' | 'data'> {
  const shape: number[] = []
  for (let level = value; Array.isArray(level); level = level[0]) shape.push(level.length)
  return { shape, data: [value].flat(shape.length + 1) }
}

/**
 * Draws whole tensors by input. Throws a PayloadError for several items where an input has no batch
 * dimension.
 */
async function drawColumns(
  inputs: readonly TensorFlowInput[],
  content: Content,
  items: number,
): Promise<Record<string, unknown>> {
  const columns: Record<string, unknown> = {}
  for (const input of inputs) {
    checkItems(input, items)
    const values: unknown[] = []
    for (let item = 0; item < items; item++) values.push(await drawValue(input, content))
    columns[input.name] = input.hasBatchDimension ? values : values[0]
  }
  return columns
}

async function drawValue(input: TensorInput, content: Content): Promise<unknown> {
  if (input.kind === 'text') return nestValues(input.shape, () => content.nextText())
  if (input.kind === 'image') {
    const b64 = (await content.nextImage()).toString('base64')
    return nestValues(input.shape, () => ({ b64 }))
  }
  const values = await content.nextNumbers(input)
  let next = 0
  return nestValues(input.shape, () => values[next++])
}

/** Nested lists of a shape, row-major; the value itself for a scalar. */
function nestValues(shape: readonly number[], drawElement: () => unknown): unknown {
  const [size, ...innerShape] = shape
  return size === undefined
    ? drawElement()
    : Array.from({ length: size }, () => nestValues(innerShape, drawElement))
}

/** An input of a signature; its shape lacks the batch dimension, if it has one. */
export interface TensorFlowInput extends BatchedInput {
  /** 'DT_FLOAT', 'DT_STRING', ... */
  readonly dtype: string
}

const defaultSignature = 'serving_default'

/** Inputs and outputs of a signature of a model. */
export interface Signature {
  readonly name: string
  readonly inputs: readonly TensorFlowInput[]
  readonly outputs: readonly DeclaredTensor[]
}

/**
 * The requested signature, else 'serving_default', else the first one with inputs. Throws a
 * ProtocolError without any.
 * @param url where they were read
 */
export function selectSignature(
  protocol: string,
  url: string,
  signatures: unknown,
  requested: string | undefined,
): Signature {
  const all = isRecord(signatures) ? signatures : {}
  const names = Object.keys(all).filter(
    (name) => Object.keys(getPath(all[name], 'inputs') ?? {}).length > 0,
  )
  if (names.length === 0)
    throw new ProtocolError(
      protocol,
      `${url} names no signature with inputs`,
      'give request bodies in a JSON Lines file (--payload)',
    )
  const name = requested ?? (names.includes(defaultSignature) ? defaultSignature : names[0]!)
  if (!names.includes(name))
    throw new ProtocolError(
      protocol,
      `the model has no signature '${name}' with inputs`,
      `it has ${names.join(', ')} (--signature)`,
      'unknown-call',
    )
  return {
    name,
    inputs: parseInputs(protocol, url, all[name]),
    outputs: parseOutputs(all[name]),
  }
}

/** DT_FLOAT → FP32, DT_INT64 → INT64. */
export const toOipDatatype = (dtype: string): string =>
  ({ DT_FLOAT: 'FP32', DT_DOUBLE: 'FP64', DT_HALF: 'FP16', DT_BFLOAT16: 'BF16' })[dtype] ??
  dtype.replace(/^DT_/, '')

/** Empty where the signature does not name them. */
function parseOutputs(signature: unknown): DeclaredTensor[] {
  const outputs = getPath(signature, 'outputs')
  return Object.entries(isRecord(outputs) ? outputs : {}).map(([name, output]) => {
    const dims = getPath(output, 'tensor_shape', 'dim')
    return {
      name,
      datatype: toOipDatatype(String(getPath(output, 'dtype'))),
      shape: Array.isArray(dims) ? dims.map((dim) => Number(getPath(dim, 'size'))) : [],
    }
  })
}

function parseInputs(protocol: string, url: string, signature: unknown): TensorFlowInput[] {
  const inputs = getPath(signature, 'inputs')
  return Object.entries(isRecord(inputs) ? inputs : {}).map(([name, input]): TensorFlowInput => {
    const dtype = getPath(input, 'dtype')
    const dims = getPath(input, 'tensor_shape', 'dim')
    if (typeof dtype !== 'string')
      throw new ProtocolError(protocol, `${url}: input '${name}' has no dtype`)
    const declaredShape = Array.isArray(dims)
      ? dims.map((dim) => Number(getPath(dim, 'size')))
      : [-1]
    const tensor = describeInput(name, toOipDatatype(dtype), declaredShape)
    // The list of instances represents the batch dimension.
    return { ...tensor, dtype, shape: tensor.shape.slice(tensor.hasBatchDimension ? 1 : 0) }
  })
}

/** Value at a path of keys; undefined where there is none. */
function getPath(value: unknown, ...path: string[]): unknown {
  let current = value
  for (const key of path) current = isRecord(current) ? current[key] : undefined
  return current
}
