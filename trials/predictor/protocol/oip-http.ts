/**
 * The Open Inference Protocol v2 over REST:
 * https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
 * with the binary tensor data extension:
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
 */
import { isRecord } from '../../../profiler/plain-record.ts'
import { countElements } from '../../../profiler/protocols/tensor-bytes.ts'
import type { Tensors } from '../engine.ts'
import { encodeBinary, readBinaryTensor } from './binary.ts'
import {
  datatypes,
  formatShape,
  integerDatatypes,
  maxDimensions,
  parseJson,
  type Reply,
  type ReplyFormat,
  RequestError,
  type ServedModelInfo,
  type WireDatatype,
  type WireRequest,
  type WireTensor,
} from './tensors.ts'

type OipFormat = Extract<ReplyFormat, { protocol: 'oip-v2' }>

const integers: ReadonlySet<string> = new Set(integerDatatypes)

/**
 * Reads an inference request.
 * @param headerLength value of Inference-Header-Content-Length when the body carries binary data
 * after its JSON
 * @throws RequestError 400
 */
export function decodeOip(
  body: string | Uint8Array,
  headerLength: number | undefined,
  model: ServedModelInfo,
): WireRequest {
  const bytes = typeof body === 'string' ? undefined : body
  if (headerLength !== undefined && (bytes === undefined || headerLength > bytes.byteLength))
    throw new RequestError(
      400,
      `Inference-Header-Content-Length is ${headerLength}, beyond the body`,
    )
  const request = parseJson(
    typeof body === 'string'
      ? body
      : new TextDecoder().decode(
          headerLength === undefined ? body : body.subarray(0, headerLength),
        ),
  )
  if (request.id !== undefined && typeof request.id !== 'string')
    throw new RequestError(400, "'id' must be a string")
  if (!Array.isArray(request.inputs) || request.inputs.length === 0)
    throw new RequestError(400, "'inputs' must be a list of at least one tensor")
  let at = headerLength ?? 0
  const inputs = request.inputs.map((input: unknown) => {
    const tensor = checkTensor(input)
    const size = readBinarySize(tensor)
    if (size === undefined) return decodeJsonTensor(tensor)
    if (headerLength === undefined)
      throw new RequestError(
        400,
        `input '${tensor.name}' has binary data, but the request has no Inference-Header-Content-Length`,
      )
    if (bytes === undefined || at + size > bytes.byteLength)
      throw new RequestError(400, `the binary data of input '${tensor.name}' is cut off`)
    at += size
    return readBinaryTensor(
      tensor.name,
      tensor.datatype,
      tensor.shape,
      bytes.subarray(at - size, at),
    )
  })
  if (bytes !== undefined && headerLength !== undefined && at < bytes.byteLength)
    throw new RequestError(400, `${bytes.byteLength - at} bytes of binary data belong to no input`)
  return { inputs, format: chooseReplyFormat(request, model) }
}

interface TensorHead {
  readonly name: string
  readonly shape: readonly number[]
  readonly datatype: WireDatatype
  readonly parameters: Record<string, unknown>
  readonly data: unknown
}

function checkTensor(input: unknown): TensorHead {
  if (!isRecord(input) || typeof input.name !== 'string')
    throw new RequestError(400, "every input needs a 'name'")
  const { name, shape, datatype } = input
  if (
    !Array.isArray(shape) ||
    shape.length > maxDimensions ||
    !shape.every((n) => Number.isSafeInteger(n) && n >= 0)
  )
    throw new RequestError(
      400,
      `input '${name}': 'shape' must be a list of at most ${maxDimensions} whole numbers from 0`,
    )
  if (typeof datatype !== 'string' || !datatypes.has(datatype))
    throw new RequestError(
      400,
      `input '${name}': 'datatype' must be one of ${[...datatypes].join(', ')}`,
    )
  return {
    name,
    shape,
    datatype: datatype as WireDatatype,
    parameters: isRecord(input.parameters) ? input.parameters : {},
    data: input.data,
  }
}

function readBinarySize({ name, parameters, data }: TensorHead): number | undefined {
  const size = parameters.binary_data_size
  if (size === undefined) return undefined
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0)
    throw new RequestError(
      400,
      `input '${name}': 'binary_data_size' must be a whole number of bytes`,
    )
  if (data !== undefined)
    throw new RequestError(400, `input '${name}' has both 'data' and 'binary_data_size'`)
  return size
}

function decodeJsonTensor({ name, shape, datatype, data }: TensorHead): WireTensor {
  if (!Array.isArray(data)) throw new RequestError(400, `input '${name}' needs a list 'data'`)
  const flat: unknown[] = data.some(Array.isArray) ? data.flat(shape.length) : data
  const count = countElements(shape)
  if (flat.length !== count)
    throw new RequestError(
      400,
      `input '${name}' has ${flat.length} values, but its shape [${shape}] needs ${count}`,
    )
  if (datatype === 'BYTES') {
    if (!flat.every((value) => typeof value === 'string'))
      throw new RequestError(400, `input '${name}': BYTES values must be strings`)
    return { name, shape, datatype, values: flat }
  }
  const values =
    datatype === 'BOOL'
      ? flat.map((value) => (typeof value === 'boolean' ? Number(value) : value))
      : flat
  const whole = integers.has(datatype)
  const bad = values.find(
    (value) => typeof value !== 'number' || (whole && !Number.isInteger(value)),
  )
  if (bad !== undefined)
    throw new RequestError(400, `input '${name}': ${formatShape(bad)} is not ${datatype}`)
  return { name, shape, datatype, values: values as number[] }
}

function chooseReplyFormat(request: Record<string, unknown>, model: ServedModelInfo): OipFormat {
  const binaryDefault =
    isRecord(request.parameters) && request.parameters.binary_data_output === true
  const id = request.id as string | undefined
  if (request.outputs === undefined)
    return {
      protocol: 'oip-v2',
      id,
      outputs: model.outputs.map(({ name }) => ({ name, binary: binaryDefault })),
    }
  if (!Array.isArray(request.outputs)) throw new RequestError(400, "'outputs' must be a list")
  const outputs = request.outputs.map((output: unknown) => {
    const name = isRecord(output) ? output.name : undefined
    if (!isRecord(output) || !model.outputs.some((known) => known.name === name))
      throw new RequestError(
        400,
        `unknown output ${formatShape(name)}; model '${model.name}' has the outputs ${model.outputs.map((o) => o.name).join(', ')}`,
      )
    const wish = isRecord(output.parameters) ? output.parameters.binary_data : undefined
    return { name: name as string, binary: typeof wish === 'boolean' ? wish : binaryDefault }
  })
  return { protocol: 'oip-v2', id, outputs }
}

/**
 * Writes an inference reply.
 * @throws RequestError 500 for numbers that JSON cannot express
 */
export function encodeOip(format: OipFormat, outputs: Tensors, model: ServedModelInfo): Reply {
  const tail: Uint8Array[] = []
  const written = format.outputs.map(({ name, binary }) => {
    const tensor = outputs[name]!
    const head = `{"name":${JSON.stringify(name)},"datatype":"${tensor.datatype}","shape":[${tensor.shape}]`
    if (!binary) return `${head},"data":[${formatJsonNumbers(tensor.data, name)}]}`
    tail.push(encodeBinary(tensor))
    return `${head},"parameters":{"binary_data_size":${tensor.data.byteLength}}}`
  })
  const id = format.id === undefined ? '' : `"id":${JSON.stringify(format.id)},`
  const json = `{"model_name":${JSON.stringify(model.name)},"model_version":"${model.version}",${id}"parameters":{"provenance":"${model.provenance}"},"outputs":[${written}]}`
  if (tail.length === 0) return { contentType: 'application/json', body: json }
  const header = Buffer.from(json)
  return {
    contentType: 'application/octet-stream',
    body: Buffer.concat([header, ...tail]),
    headerLength: header.byteLength,
  }
}

/** Comma-separated numbers; FP32 values with the digits that float32 has. */
export function formatJsonNumbers(data: Float32Array | Int32Array, name: string): string {
  const parts = new Array<string>(data.length)
  for (let i = 0; i < data.length; i++) {
    const value = data[i]!
    if (!Number.isFinite(value))
      throw new RequestError(
        500,
        `output '${name}' contains ${value}, which JSON cannot express; request binary data`,
      )
    parts[i] = data instanceof Int32Array ? String(value) : String(Number(value.toPrecision(9)))
  }
  return parts.join(',')
}

/** GET /v2/models/M: the model's metadata, with its request in the simplest form. */
export function createOipMetadata(
  model: ServedModelInfo,
  versions: readonly string[],
  platform: string,
  parameters: Record<string, unknown>,
) {
  const inputs = {
    text: [{ name: 'text', datatype: 'BYTES', shape: [-1] }],
    image: [{ name: 'image', datatype: 'BYTES', shape: [-1] }],
    tensor: model.inputs,
  }[model.task]
  return { name: model.name, versions, platform, inputs, outputs: model.outputs, parameters }
}
