/** TensorFlow Serving's REST API: https://www.tensorflow.org/tfx/serving/api_rest */
import { isRecord } from '../../../profiler/plain-record.ts'
import type { Tensor, TensorSpec, Tensors } from '../engine.ts'
import { formatJsonNumbers } from './oip-http.ts'
import {
  formatShape,
  maxDimensions,
  parseJson,
  type Reply,
  type ReplyFormat,
  RequestError,
  type ServedModelInfo,
  type WireRequest,
  type WireTensor,
} from './tensors.ts'

type TfServingFormat = Extract<ReplyFormat, { protocol: 'tfserving' }>

export const signatureName = 'serving_default'

/**
 * Reads a predict request, row ("instances") or columnar ("inputs").
 * @throws RequestError 400
 */
export function decodeTfServing(body: string | Uint8Array, model: ServedModelInfo): WireRequest {
  const request = parseJson(typeof body === 'string' ? body : new TextDecoder().decode(body))
  const { instances, inputs, signature_name: signature } = request
  if (signature !== undefined && signature !== '' && signature !== signatureName)
    throw new RequestError(
      400,
      `Serving signature name: "${signature}" not found in signature def; there is "${signatureName}"`,
    )
  if ((instances === undefined) === (inputs === undefined))
    throw new RequestError(400, 'Request must have either "instances" (rows) or "inputs" (columns)')
  if (instances === undefined)
    return {
      inputs: readColumns(inputs, model),
      format: { protocol: 'tfserving', style: 'columnar' },
    }
  return { inputs: readRows(instances, model), format: { protocol: 'tfserving', style: 'row' } }
}

function readRows(instances: unknown, model: ServedModelInfo): WireTensor[] {
  if (!Array.isArray(instances) || instances.length === 0)
    throw new RequestError(400, '"instances" must be a list of at least one value')
  if (!instances.some(isNamed)) return [decodeTensor(getSoleInput(model, instances), instances)]
  if (!isNamed(instances[0]))
    throw new RequestError(400, 'instance 0 does not name its inputs, but other instances do')
  const names = Object.keys(instances[0])
  return names.map((name) => {
    const values = instances.map((instance, i) => {
      const value = isNamed(instance) ? instance[name] : undefined
      if (value === undefined || Object.keys(instance as object).length !== names.length)
        throw new RequestError(
          400,
          `instance ${i} does not have the same inputs as instance 0: ${names.join(', ')}`,
        )
      return value
    })
    return decodeTensor(name, values)
  })
}

function readColumns(inputs: unknown, model: ServedModelInfo): WireTensor[] {
  if (isNamed(inputs))
    return Object.entries(inputs).map(([name, values]) =>
      decodeTensor(name, readList(name, values)),
    )
  const values = readList('inputs', inputs)
  return [decodeTensor(getSoleInput(model, values), values)]
}

const readList = (name: string, values: unknown): unknown[] => {
  if (!Array.isArray(values) || values.length === 0)
    throw new RequestError(400, `"${name}" must be a list of at least one value`)
  return values
}

const isBase64 = (value: unknown): value is { b64: string } =>
  isRecord(value) && typeof value.b64 === 'string' && Object.keys(value).length === 1
const isNamed = (value: unknown): value is Record<string, unknown> =>
  isRecord(value) && !isBase64(value)

/** Gets the input that unnamed values are meant for. */
function getSoleInput(model: ServedModelInfo, values: readonly unknown[]): string {
  if (model.task === 'text')
    return typeof values[0] === 'string' || isBase64(values[0]) ? 'text' : 'input_ids'
  if (model.inputs.length > 1)
    throw new RequestError(
      400,
      `the model has ${model.inputs.length} inputs: name them (${model.inputs.map((i) => i.name).join(', ')})`,
    )
  return model.inputs[0]!.name
}

/**
 * Decodes a tensor from nested lists; text and {"b64": ...} make BYTES, whole numbers INT64, others
 * FP32.
 */
function decodeTensor(name: string, values: readonly unknown[]): WireTensor {
  const shape: number[] = []
  for (let level: unknown = values; Array.isArray(level); level = level[0]) shape.push(level.length)
  if (shape.length > maxDimensions)
    throw new RequestError(400, `"${name}" has more than ${maxDimensions} dimensions`)
  const flat: unknown[] = []
  const visit = (value: unknown, depth: number) => {
    if (!Array.isArray(value)) {
      if (depth !== shape.length) throw new RequestError(400, `"${name}" is not rectangular`)
      flat.push(value)
      return
    }
    if (depth >= shape.length || value.length !== shape[depth])
      throw new RequestError(400, `"${name}" is not rectangular`)
    for (const inner of value) visit(inner, depth + 1)
  }
  visit(values, 0)
  if (typeof flat[0] === 'number' || typeof flat[0] === 'boolean') {
    const numbers = flat.map((value) => (typeof value === 'boolean' ? Number(value) : value))
    const bad = numbers.find((value) => typeof value !== 'number')
    if (bad !== undefined)
      throw new RequestError(400, `"${name}" mixes numbers with ${formatShape(bad)}`)
    return {
      name,
      shape,
      datatype: numbers.every(Number.isInteger) ? 'INT64' : 'FP32',
      values: numbers as number[],
    }
  }
  const bytes = flat.map((value) => {
    if (typeof value === 'string') return value
    if (isBase64(value)) return Buffer.from(value.b64, 'base64')
    throw new RequestError(
      400,
      `"${name}" contains ${formatShape(value)}, which is neither a number, nor text, nor {"b64": ...}`,
    )
  })
  return { name, shape, datatype: 'BYTES', values: bytes }
}

/**
 * Writes a predict reply in the style of its request.
 * @throws RequestError 500 for numbers that JSON cannot express
 */
export function encodeTfServing(
  format: TfServingFormat,
  outputs: Tensors,
  model: ServedModelInfo,
): Reply {
  const names = model.outputs.map((output) => output.name)
  const sole = names.length === 1 ? outputs[names[0]!]! : undefined
  const provenance =
    model.provenance === 'emulated' ? ',"parameters":{"provenance":"emulated"}' : ''
  const json = (): string => {
    if (format.style === 'columnar')
      return `{"outputs":${sole ? nestValues(sole, names[0]!) : `{${names.map((name) => `${JSON.stringify(name)}:${nestValues(outputs[name]!, name)}`)}}`}${provenance}}`
    const encodedRows = names.map((name) => encodeRow(outputs[name]!, name))
    const items = encodedRows[0]!.length
    const predictions = Array.from({ length: items }, (_, item) =>
      sole
        ? encodedRows[0]![item]!
        : `{${names.map((name, i) => `${JSON.stringify(name)}:${encodedRows[i]![item]}`)}}`,
    )
    return `{"predictions":[${predictions}]${provenance}}`
  }
  return { contentType: 'application/json', body: json() }
}

const encodeRow = (tensor: Tensor, name: string): string[] => {
  const [items = 0, ...shape] = tensor.shape
  const width = tensor.data.length / items
  return Array.from({ length: items }, (_, item) =>
    nestValues(
      { ...tensor, shape, data: tensor.data.subarray(item * width, (item + 1) * width) },
      name,
    ),
  )
}

function nestValues(tensor: Tensor, name: string): string {
  if (tensor.shape.length <= 1) {
    const numbers = formatJsonNumbers(tensor.data, name)
    return tensor.shape.length === 0 ? numbers : `[${numbers}]`
  }
  return `[${encodeRow(tensor, name)}]`
}

const tfTypes = {
  FP32: 'DT_FLOAT',
  INT32: 'DT_INT32',
  INT64: 'DT_INT64',
  BYTES: 'DT_STRING',
} as const

/** GET /v1/models/M/metadata */
export function createTfServingMetadata(model: ServedModelInfo) {
  const info = ({
    name,
    shape,
    datatype,
  }: Omit<TensorSpec, 'datatype'> & { datatype: keyof typeof tfTypes }) => [
    name,
    {
      dtype: tfTypes[datatype],
      tensor_shape: {
        dim: shape.map((size) => ({ size: String(size), name: '' })),
        unknown_rank: false,
      },
      name: `${name}:0`,
    },
  ]
  const inputs =
    model.task === 'tensor'
      ? model.inputs
      : ([{ name: model.task, datatype: 'BYTES', shape: [-1] }] as const)
  return {
    model_spec: { name: model.name, signature_name: '', version: model.version },
    metadata: {
      signature_def: {
        signature_def: {
          [signatureName]: {
            inputs: Object.fromEntries(inputs.map(info)),
            outputs: Object.fromEntries(model.outputs.map(info)),
            method_name: 'tensorflow/serving/predict',
          },
        },
      },
    },
  }
}

/** GET /v1/models/M[/versions/V] */
export const createTfServingStatus = (versions: readonly string[]) => ({
  model_version_status: versions.map((version) => ({
    version,
    state: 'AVAILABLE',
    status: { error_code: 'OK', error_message: '' },
  })),
})
