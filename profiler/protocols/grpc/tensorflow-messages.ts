/** TensorFlow Serving's PredictionService over gRPC. */
import { isRecord } from '../../plain-record.ts'
import { PayloadError } from '../../profiler-errors.ts'
import { findModelFault, findTensorsFault } from '../answer-faults.ts'
import { type Content, matchInputs } from '../content.ts'
import { formatVersionState } from '../not-ready.ts'
import { checkItems } from '../payload-pool.ts'
import { buildPool } from '../pool.ts'
import type { ProtocolModule, ProtocolOptions } from '../protocol-module.ts'
import { countElements, decodeRawContents, encodeNumbers } from '../tensor-bytes.ts'
import {
  type Signature,
  selectSignature,
  type TensorFlowInput,
  toOipDatatype,
} from '../tfserving.ts'
import { callMethod, type GrpcEndpoint, handleReadinessError, type Method } from './call.ts'
import { decodeMessage, encodeMessage } from './definitions.ts'
import { toBytes } from './oip-messages.ts'
import { createGrpcProtocol, type GrpcDialect } from './protocol.ts'

const createMethod = (service: string, name: string): Method => ({
  path: `/tensorflow.serving.${service}/${name}`,
  request: `tfserving.${name}Request`,
  response: `tfserving.${name}Response`,
})
const predict = createMethod('PredictionService', 'Predict')
const metadata = createMethod('PredictionService', 'GetModelMetadata')
const modelStatus = createMethod('ModelService', 'GetModelStatus')
interface ModelVersionStatus {
  readonly version: unknown
  readonly state: number
  readonly status?: { readonly error_message?: string } | null
}
/** ModelVersionStatus.State */
const available = 30
const stateNames: Readonly<Record<number, string>> = {
  10: 'START',
  20: 'LOADING',
  [available]: 'AVAILABLE',
  40: 'UNLOADING',
  50: 'END',
}
const formatVersions = (versions: readonly ModelVersionStatus[]): string =>
  versions
    .map(({ version, state, status }) =>
      formatVersionState(version, stateNames[state] ?? state, status?.error_message),
    )
    .join('; ')
/** Longest call for status or metadata, ms. Assumed. */
const probeTimeoutMs = 5000

export const tfservingGrpc: ProtocolModule = {
  create: (options) => createGrpcProtocol(createDialect(options), options),
  // Identify servers of this protocol.
  uniqueMethods: [modelStatus.path, predict.path],
}

const createDialect = ({ signature: signatureName }: ProtocolOptions): GrpcDialect => ({
  name: 'tfserving-grpc',
  path: predict.path,
  encodings: ['raw'],
  async isReady(endpoint, model, signal, onReason) {
    try {
      const status = await callMethod(
        endpoint,
        modelStatus,
        { model_spec: { name: model } },
        probeTimeoutMs,
        signal,
      )
      const versions = status.model_version_status as readonly ModelVersionStatus[]
      const isAvailable = versions.some(({ state }) => state === available)
      if (!isAvailable)
        onReason?.(`${endpoint.url}${modelStatus.path} answers ${formatVersions(versions)}`)
      return isAvailable
    } catch (error) {
      return handleReadinessError(error, signal, onReason)
    }
  },
  async buildMessages(endpoint, model, payload, _encoding, signal) {
    const signature = await fetchSignature(endpoint, model, signatureName, signal)
    const { inputs, outputs } = signature
    if (payload.kind === 'bodies')
      return {
        messages: payload.bodies.map((body, i) =>
          convertBody(model, signature, body, `${payload.path}, body ${i + 1}`),
        ),
        outputs,
      }
    const matchedInputs = matchInputs(payload, inputs)
    const messages = await buildPool(payload, async (content, items) => {
      const tensors: Record<string, unknown> = {}
      for (const input of matchedInputs)
        tensors[input.name] = await buildTensor(input, content, items)
      return encodeRequest(model, signature.name, tensors)
    })
    return { messages, outputs }
  },
  decodeAnswer: (answer) => {
    const { outputs, model_spec } = decodeMessage<PredictAnswer>(predict.response, answer)
    return {
      model: model_spec?.name,
      tensors: Object.entries(outputs).map(([name, tensor]) => ({
        name,
        ...decodeTensor(tensor),
      })),
    }
  },
  describeFault: ({ model, tensors }, { request, declared, model: requestedModel }) => {
    const { inputs } = decodeMessage<{ inputs: Record<string, TensorProto> }>(
      predict.request,
      request,
    )
    // The first dimension is the batch.
    const items = readDimensions(Object.values(inputs)[0])[0]
    return findModelFault(model, requestedModel) ?? findTensorsFault(tensors, declared, items)
  },
})

interface TensorProto {
  readonly dtype: string
  readonly tensor_shape: { readonly dim: readonly { readonly size: number }[] } | null
  readonly tensor_content: Buffer
  readonly [values: `${string}_val`]: readonly unknown[]
}
interface PredictAnswer {
  readonly outputs: Readonly<Record<string, TensorProto>>
  readonly model_spec: { readonly name: string } | null
}

/** Shape of a tensor. */
const readDimensions = (tensor: TensorProto | undefined): number[] =>
  (tensor?.tensor_shape?.dim ?? []).map(({ size }) => size)

/** Limit on the values of a tensor that are expanded, because its shape is untrusted. */
const maxExpandedValues = 1_000_000

/**
 * Decodes a tensor: raw contents, or a typed list. TensorFlow may shorten such a list; its last
 * value then applies to all remaining elements.
 */
function decodeTensor(tensor: TensorProto) {
  const shape = readDimensions(tensor)
  const datatype = toOipDatatype(tensor.dtype)
  if (tensor.tensor_content.byteLength > 0)
    return { datatype, shape, data: decodeRawContents(datatype, tensor.tensor_content) }
  const listed = Object.entries(tensor).find(
    ([key, list]) => key.endsWith('_val') && (list as readonly unknown[]).length > 0,
  )
  const values = (listed?.[1] ?? []) as readonly unknown[]
  const length = countElements(shape)
  const isShortened = values.length > 0 && values.length < length && length <= maxExpandedValues
  const data = isShortened
    ? Array.from({ length }, (_, i) => values[Math.min(i, values.length - 1)])
    : values
  // half_val holds bit patterns of 16-bit floats. They are not decoded, so no check compares them.
  return { datatype, shape, data: listed?.[0] === 'half_val' ? undefined : data }
}

async function fetchSignature(
  endpoint: GrpcEndpoint,
  model: string,
  signatureName: string | undefined,
  signal: AbortSignal,
): Promise<Signature> {
  const request = { model_spec: { name: model }, metadata_field: ['signature_def'] }
  const answer = await callMethod(endpoint, metadata, request, probeTimeoutMs, signal)
  const packed = (answer.metadata as Record<string, { value: Buffer }>).signature_def
  const signatures = packed ? decodeMessage('tfserving.SignatureDefMap', packed.value) : {}
  return selectSignature(
    'tfserving-grpc',
    `${endpoint.url}${metadata.path}`,
    signatures.signature_def,
    signatureName,
  )
}

const encodeRequest = (model: string, signature: string, inputs: Record<string, unknown>) =>
  encodeMessage(predict.request, { model_spec: { name: model, signature_name: signature }, inputs })

const buildTensorProto = (
  dtype: string,
  shape: readonly number[],
  contents: Record<string, unknown>,
) => ({
  dtype,
  tensor_shape: { dim: shape.map((size) => ({ size })) },
  ...contents,
})

async function buildTensor(input: TensorFlowInput, content: Content, items: number) {
  checkItems(input, items)
  const shape = input.hasBatchDimension ? [items, ...input.shape] : [...input.shape]
  if (input.kind === 'text' || input.kind === 'image') {
    const elements: Buffer[] = []
    for (let i = 0; i < countElements(shape); i++)
      elements.push(
        input.kind === 'text' ? Buffer.from(content.nextText()) : await content.nextImage(),
      )
    return buildTensorProto(input.dtype, shape, { string_val: elements })
  }
  const values: (number | boolean)[] = []
  for (let item = 0; item < items; item++)
    for (const value of await content.nextNumbers(input)) values.push(value)
  return buildTensorProto(input.dtype, shape, {
    tensor_content: encodeNumbers(toOipDatatype(input.dtype), values),
  })
}

/** Converts a body of the REST form, rows ("instances") or columns ("inputs"), to a message. */
function convertBody(
  model: string,
  { name: signature, inputs }: Signature,
  body: unknown,
  bodyLocation: string,
): Buffer {
  const columns = splitColumns(inputs, body, bodyLocation)
  const tensors = Object.entries(columns).map(([name, values]) => {
    const input = inputs.find((known) => known.name === name)
    if (!input)
      throw new PayloadError(
        `${bodyLocation}: the model has no input '${name}'`,
        `it has ${inputs.map((i) => i.name).join(', ')}`,
      )
    const shape: number[] = []
    for (let level: unknown = values; Array.isArray(level); level = level[0])
      shape.push(level.length)
    const flat: unknown[] = values.flat(Number.POSITIVE_INFINITY)
    const contents =
      input.dtype === 'DT_STRING'
        ? { string_val: flat.map(toBytes) }
        : { tensor_content: encodeNumbers(toOipDatatype(input.dtype), flat as number[]) }
    return [name, buildTensorProto(input.dtype, shape, contents)] as const
  })
  const requestedSignature =
    isRecord(body) && typeof body.signature_name === 'string' ? body.signature_name : signature
  return encodeRequest(model, requestedSignature, Object.fromEntries(tensors))
}

/** Converts a body of the REST form to values by input. */
function splitColumns(
  inputs: readonly TensorFlowInput[],
  body: unknown,
  bodyLocation: string,
): Record<string, unknown[]> {
  // {"b64": ...} is one binary value.
  const isNamed = (value: unknown): value is Record<string, unknown> =>
    isRecord(value) && typeof value.b64 !== 'string'
  if (isRecord(body) && isNamed(body.inputs)) return body.inputs as Record<string, unknown[]>
  const values = isRecord(body) ? (body.instances ?? body.inputs) : undefined
  if (!Array.isArray(values) || values.length === 0)
    throw new PayloadError(
      `${bodyLocation}: neither 'instances' nor 'inputs'`,
      'one body of the REST form a line: {"instances": [{"text": "..."}]}',
    )
  if (!isNamed(values[0])) return { [inputs[0]!.name]: values }
  return Object.fromEntries(
    Object.keys(values[0]).map((name) => [
      name,
      values.map((value) => (value as Record<string, unknown>)[name]),
    ]),
  )
}
