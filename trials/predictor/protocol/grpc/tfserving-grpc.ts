/** TensorFlow Serving's PredictionService over gRPC: requests, replies and metadata. */
import { countElements } from '../../../../profiler/protocols/tensor-bytes.ts'
import type { Tensors } from '../../engine.ts'
import { encodeBinary, readBinaryTensor } from '../binary.ts'
import {
  maxDimensions,
  type Reply,
  type ReplyFormat,
  RequestError,
  type ServedModelInfo,
  type WireDatatype,
  type WireRequest,
  type WireTensor,
} from '../tensors.ts'
import { signatureName } from '../tfserving-http.ts'
import { decodeMessage, encodeMessage } from './server-definitions.ts'

type Format = Extract<ReplyFormat, { protocol: 'tfserving-grpc' }>

interface TensorMessage {
  readonly dtype: number
  readonly tensor_shape: {
    readonly dim: readonly { readonly size: number }[]
    readonly unknown_rank: boolean
  } | null
  readonly tensor_content: Uint8Array
  readonly float_val: readonly number[]
  readonly double_val: readonly number[]
  readonly int_val: readonly number[]
  readonly string_val: readonly Uint8Array[]
  readonly int64_val: readonly number[]
  readonly bool_val: readonly boolean[]
  readonly uint32_val: readonly number[]
  readonly uint64_val: readonly number[]
}

interface PredictMessage {
  readonly model_spec: { readonly signature_name: string } | null
  readonly inputs: Readonly<Record<string, TensorMessage>>
  readonly output_filter: readonly string[]
}

/** DataType of tensorflow/core/framework/types.proto → datatype, and the field of its values. */
const tensorTypes: Readonly<Record<number, readonly [WireDatatype, keyof TensorMessage]>> = {
  1: ['FP32', 'float_val'],
  2: ['FP64', 'double_val'],
  3: ['INT32', 'int_val'],
  4: ['UINT8', 'int_val'],
  5: ['INT16', 'int_val'],
  6: ['INT8', 'int_val'],
  7: ['BYTES', 'string_val'],
  9: ['INT64', 'int64_val'],
  10: ['BOOL', 'bool_val'],
  17: ['UINT16', 'int_val'],
  22: ['UINT32', 'uint32_val'],
  23: ['UINT64', 'uint64_val'],
}
const typeNumbers = { FP32: 1, INT32: 3, BYTES: 7, INT64: 9 } as const

/**
 * Reads a PredictRequest.
 * @throws RequestError 400
 */
export function decodeTfServingGrpc(bytes: Uint8Array, model: ServedModelInfo): WireRequest {
  const request = decodeProto(bytes)
  const signature = request.model_spec?.signature_name ?? ''
  if (signature !== '' && signature !== signatureName)
    throw new RequestError(
      400,
      `Serving signature name: "${signature}" not found in signature def; there is "${signatureName}"`,
    )
  const inputs = Object.entries(request.inputs).map(([name, tensor]) => decodeTensor(name, tensor))
  if (inputs.length === 0) throw new RequestError(400, "'inputs' must have at least one tensor")
  const known = model.outputs.map(({ name }) => name)
  const unknownOutput = request.output_filter.find((name) => !known.includes(name))
  if (unknownOutput !== undefined)
    throw new RequestError(
      400,
      `output tensor alias not found in signature: ${unknownOutput}; there is ${known.join(', ')}`,
    )
  return {
    inputs,
    format: {
      protocol: 'tfserving-grpc',
      outputs: request.output_filter.length > 0 ? request.output_filter : known,
    },
  }
}

function decodeProto(bytes: Uint8Array): PredictMessage {
  try {
    return decodeMessage<PredictMessage>('tensorflow.serving.PredictRequest', bytes)
  } catch (error) {
    throw new RequestError(400, `the message is not a PredictRequest: ${(error as Error).message}`)
  }
}

function decodeTensor(name: string, tensor: TensorMessage): WireTensor {
  const [datatype, field] = tensorTypes[tensor.dtype] ?? []
  if (datatype === undefined || field === undefined)
    throw new RequestError(400, `input '${name}': data type ${tensor.dtype} is not supported`)
  const shape = tensor.tensor_shape?.dim.map(({ size }) => size) ?? []
  if (
    tensor.tensor_shape?.unknown_rank ||
    shape.length > maxDimensions ||
    shape.some((size) => size < 0)
  )
    throw new RequestError(
      400,
      `input '${name}' needs a known shape of at most ${maxDimensions} dimensions`,
    )
  if (datatype !== 'BYTES' && tensor.tensor_content.byteLength > 0)
    return readBinaryTensor(name, datatype, shape, tensor.tensor_content)
  const count = countElements(shape)
  const given = tensor[field] as readonly (number | boolean | Uint8Array)[]
  // A single value applies to all elements (tensor.proto).
  const values = given.length === 1 ? Array.from({ length: count }, () => given[0]!) : given
  if (values.length !== count)
    throw new RequestError(
      400,
      `input '${name}' has ${given.length} values, but its shape [${shape}] needs ${count}`,
    )
  if (datatype === 'BYTES')
    return { name, shape, datatype, values: values as readonly Uint8Array[] }
  return { name, shape, datatype, values: values.map(Number) }
}

/** Writes a PredictResponse. */
export function encodeTfServingGrpc(
  { outputs: names }: Format,
  outputs: Tensors,
  model: ServedModelInfo,
): Reply {
  const written = names.map((name) => {
    const tensor = outputs[name]!
    return [
      name,
      {
        dtype: typeNumbers[tensor.datatype],
        tensor_shape: { dim: tensor.shape.map((size) => ({ size })) },
        tensor_content: encodeBinary(tensor),
      },
    ] as const
  })
  const body = encodeMessage('tensorflow.serving.PredictResponse', {
    outputs: Object.fromEntries(written),
    model_spec: createModelSpec(model),
  })
  return { contentType: 'application/grpc', body }
}

const createModelSpec = (model: ServedModelInfo) => ({
  name: model.name,
  version: { value: Number(model.version) },
  signature_name: signatureName,
})

/** Creates a GetModelMetadataResponse. */
export function createMetadataMessage(model: ServedModelInfo): Buffer {
  const info = ({
    name,
    shape,
    datatype,
  }: {
    name: string
    shape: readonly number[]
    datatype: keyof typeof typeNumbers
  }) => [
    name,
    {
      name: `${name}:0`,
      dtype: typeNumbers[datatype],
      tensor_shape: { dim: shape.map((size) => ({ size })) },
    },
  ]
  const inputs =
    model.task === 'tensor'
      ? model.inputs
      : ([{ name: model.task, datatype: 'BYTES', shape: [-1] }] as const)
  const signatures = encodeMessage('tensorflow.serving.SignatureDefMap', {
    signature_def: {
      [signatureName]: {
        inputs: Object.fromEntries(inputs.map(info)),
        outputs: Object.fromEntries(model.outputs.map(info)),
        method_name: 'tensorflow/serving/predict',
      },
    },
  })
  return encodeMessage('tensorflow.serving.GetModelMetadataResponse', {
    model_spec: createModelSpec(model),
    metadata: {
      signature_def: {
        type_url: 'type.googleapis.com/tensorflow.serving.SignatureDefMap',
        value: signatures,
      },
    },
  })
}
