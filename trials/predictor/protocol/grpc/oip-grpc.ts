/** The Open Inference Protocol v2 over gRPC: inference requests and replies. */
import { countElements } from '../../../../profiler/protocols/tensor-bytes.ts'
import type { Tensors } from '../../engine.ts'
import { encodeBinary, readBinaryTensor } from '../binary.ts'
import {
  datatypes,
  maxDimensions,
  type Reply,
  type ReplyFormat,
  RequestError,
  type ServedModelInfo,
  type WireDatatype,
  type WireRequest,
  type WireTensor,
} from '../tensors.ts'
import { decodeMessage, encodeMessage } from './server-definitions.ts'

type Format = Extract<ReplyFormat, { protocol: 'grpc-v2' }>

interface Contents {
  readonly bool_contents: readonly boolean[]
  readonly int_contents: readonly number[]
  readonly int64_contents: readonly number[]
  readonly uint_contents: readonly number[]
  readonly uint64_contents: readonly number[]
  readonly fp32_contents: readonly number[]
  readonly fp64_contents: readonly number[]
  readonly bytes_contents: readonly Uint8Array[]
}

interface InferRequest {
  readonly id: string
  readonly inputs: readonly {
    readonly name: string
    readonly datatype: string
    readonly shape: readonly number[]
    readonly contents: Contents | null
  }[]
  readonly outputs: readonly { readonly name: string }[]
  readonly raw_input_contents: readonly Uint8Array[]
}

/** Field of InferTensorContents for each datatype. */
const contentsFields = {
  BOOL: 'bool_contents',
  INT8: 'int_contents',
  INT16: 'int_contents',
  INT32: 'int_contents',
  INT64: 'int64_contents',
  UINT8: 'uint_contents',
  UINT16: 'uint_contents',
  UINT32: 'uint_contents',
  UINT64: 'uint64_contents',
  FP32: 'fp32_contents',
  FP64: 'fp64_contents',
} as const satisfies Record<Exclude<WireDatatype, 'BYTES'>, keyof Contents>

/**
 * Reads a ModelInferRequest.
 * @throws RequestError 400
 */
export function decodeOipGrpc(bytes: Uint8Array, model: ServedModelInfo): WireRequest {
  const request = decodeInferRequest(bytes)
  const { inputs, outputs, raw_input_contents: raw } = request
  if (inputs.length === 0) throw new RequestError(400, "'inputs' must have at least one tensor")
  if (raw.length > 0 && raw.length !== inputs.length)
    throw new RequestError(
      400,
      `raw_input_contents has ${raw.length} entries for ${inputs.length} inputs`,
    )
  const tensors = inputs.map(({ name, datatype, shape, contents }, i): WireTensor => {
    if (!datatypes.has(datatype))
      throw new RequestError(
        400,
        `input '${name}': 'datatype' must be one of ${[...datatypes].join(', ')}, not '${datatype}'`,
      )
    if (shape.length > maxDimensions || !shape.every((n) => Number.isSafeInteger(n) && n >= 0))
      throw new RequestError(
        400,
        `input '${name}': 'shape' must be at most ${maxDimensions} whole numbers from 0`,
      )
    const type = datatype as WireDatatype
    if (raw.length > 0) return readBinaryTensor(name, type, shape, raw[i]!)
    if (contents === null)
      throw new RequestError(400, `input '${name}' has neither contents nor raw_input_contents`)
    return readTypedContents(name, type, shape, contents)
  })
  const unknownOutput = outputs.find(
    ({ name }) => !model.outputs.some((known) => known.name === name),
  )
  if (unknownOutput)
    throw new RequestError(
      400,
      `unknown output '${unknownOutput.name}'; model '${model.name}' has the outputs ${model.outputs.map((o) => o.name).join(', ')}`,
    )
  const names =
    outputs.length > 0 ? outputs.map(({ name }) => name) : model.outputs.map(({ name }) => name)
  return {
    inputs: tensors,
    format: { protocol: 'grpc-v2', id: request.id, outputs: names, raw: raw.length > 0 },
  }
}

function decodeInferRequest(bytes: Uint8Array): InferRequest {
  try {
    return decodeMessage<InferRequest>('inference.ModelInferRequest', bytes)
  } catch (error) {
    throw new RequestError(
      400,
      `the message is not a ModelInferRequest: ${(error as Error).message}`,
    )
  }
}

function readTypedContents(
  name: string,
  datatype: WireDatatype,
  shape: readonly number[],
  contents: Contents,
): WireTensor {
  const count = countElements(shape)
  const field = datatype === 'BYTES' ? 'bytes_contents' : contentsFields[datatype]
  const values = contents[field]
  if (values.length !== count)
    throw new RequestError(
      400,
      `input '${name}' has ${values.length} values in ${field}, but its shape [${shape}] needs ${count}`,
    )
  if (datatype === 'BYTES') return { name, shape, datatype, values: contents.bytes_contents }
  return { name, shape, datatype, values: values.map(Number) }
}

/** Writes a ModelInferResponse: raw where the request was, else typed contents. */
export function encodeOipGrpc(
  { id, outputs: names, raw }: Format,
  outputs: Tensors,
  model: ServedModelInfo,
): Reply {
  const written = names.map((name) => {
    const { datatype, shape, data } = outputs[name]!
    return {
      name,
      datatype,
      shape,
      ...(!raw && { contents: { [contentsFields[datatype]]: Array.from(data) } }),
    }
  })
  const body = encodeMessage('inference.ModelInferResponse', {
    model_name: model.name,
    model_version: model.version,
    id,
    parameters: { provenance: { string_param: model.provenance } },
    outputs: written,
    raw_output_contents: raw ? names.map((name) => encodeBinary(outputs[name]!)) : [],
  })
  return { contentType: 'application/grpc', body }
}
