import { PayloadError } from '../../profiler-errors.ts'
import { type Content, fitted } from '../content.ts'
import { isObject } from '../http-protocol.ts'
import { poolOf } from '../pool.ts'
import type { ProtocolModule } from '../protocol-module.ts'
import { numbersToBytes } from '../tensor-bytes.ts'
import { signatureInputs, type TensorFlowInput } from '../tfserving.ts'
import { call, type GrpcEndpoint, type Method, notUpYet } from './call.ts'
import { decodeMessage, encodeMessage } from './definitions.ts'
import { bytesOf } from './oip-messages.ts'
import { type GrpcDialect, grpcProtocol } from './protocol.ts'

const method = (service: string, name: string, message = name): Method => ({
  path: `/tensorflow.serving.${service}/${name}`,
  request: `tfserving.${message}Request`,
  response: `tfserving.${message}Response`,
})
const predict = method('PredictionService', 'Predict')
const metadata = method('PredictionService', 'GetModelMetadata')
const modelStatus = method('ModelService', 'GetModelStatus')
/** ModelVersionStatus.State */
const available = 30
const probeTimeoutMs = 5000

/** TensorFlow Serving's PredictionService over gRPC. */
export const tfservingGrpc: ProtocolModule = {
  create: (options) => grpcProtocol(dialect, options),
  method: modelStatus.path,
}

const dialect: GrpcDialect = {
  name: 'tfserving-grpc',
  path: predict.path,
  async ready(to, model, signal) {
    try {
      const status = await call(to, modelStatus, { model_spec: { name: model } }, probeTimeoutMs, signal)
      return (status.model_version_status as { state: number }[]).some(({ state }) => state === available)
    } catch (error) {
      return notUpYet(error, signal)
    }
  },
  async messages(to, model, payload, signal) {
    const inputs = await inputsOf(to, model, signal)
    if (payload.kind === 'rows') return payload.rows.map((row, i) => messageOfRow(model, inputs, row, `${payload.path}, body ${i + 1}`))
    const filled = fitted(payload, inputs)
    return poolOf(payload, async (content, items) => {
      const tensors: Record<string, unknown> = {}
      for (const input of filled) tensors[input.name] = await tensorOf(input, content, items)
      return message(model, tensors)
    })
  },
  outputs: (answer) => Object.keys(decodeMessage(predict.response, answer).outputs as object),
}

async function inputsOf(to: GrpcEndpoint, model: string, signal: AbortSignal): Promise<readonly TensorFlowInput[]> {
  const request = { model_spec: { name: model }, metadata_field: ['signature_def'] }
  const answer = await call(to, metadata, request, probeTimeoutMs, signal)
  const packed = (answer.metadata as Record<string, { value: Buffer }>).signature_def
  const signatures = packed ? decodeMessage('tfserving.SignatureDefMap', packed.value) : {}
  return signatureInputs('tfserving-grpc', `${to.url}${metadata.path}`, signatures.signature_def)
}

const message = (model: string, inputs: Record<string, unknown>) =>
  encodeMessage(predict.request, { model_spec: { name: model, signature_name: 'serving_default' }, inputs })

const tensor = (dtype: string, shape: readonly number[], contents: Record<string, unknown>) => ({
  dtype,
  tensor_shape: { dim: shape.map((size) => ({ size })) },
  ...contents,
})

async function tensorOf(input: TensorFlowInput, content: Content, items: number) {
  const shape = [items, ...input.shape]
  if (input.kind === 'text' || input.kind === 'image') {
    const elements: Buffer[] = []
    for (let i = 0; i < shape.reduce((a, b) => a * b, 1); i++)
      elements.push(input.kind === 'text' ? Buffer.from(content.text()) : await content.image())
    return tensor(input.dtype, shape, { string_val: elements })
  }
  const values: (number | boolean)[] = []
  for (let item = 0; item < items; item++) for (const value of await content.numbers(input)) values.push(value)
  return tensor(input.dtype, shape, { tensor_content: numbersToBytes(datatypeOf(input.dtype), values) })
}

/** DT_FLOAT → FP32, DT_INT64 → INT64. */
const datatypeOf = (dtype: string): string =>
  ({ DT_FLOAT: 'FP32', DT_DOUBLE: 'FP64', DT_HALF: 'FP16', DT_BFLOAT16: 'BF16' })[dtype] ?? dtype.replace(/^DT_/, '')

/** A body of the REST form, rows ("instances") or columns ("inputs"), as a message. */
function messageOfRow(model: string, inputs: readonly TensorFlowInput[], row: unknown, place: string): Buffer {
  const columns = columnsOf(inputs, row, place)
  const tensors = Object.entries(columns).map(([name, values]) => {
    const input = inputs.find((known) => known.name === name)
    if (!input) throw new PayloadError(`${place}: the model has no input '${name}'`, `it has ${inputs.map((i) => i.name).join(', ')}`)
    const shape: number[] = []
    for (let level: unknown = values; Array.isArray(level); level = level[0]) shape.push(level.length)
    const flat: unknown[] = values.flat(Number.POSITIVE_INFINITY)
    const contents =
      input.dtype === 'DT_STRING'
        ? { string_val: flat.map(bytesOf) }
        : { tensor_content: numbersToBytes(datatypeOf(input.dtype), flat as number[]) }
    return [name, tensor(input.dtype, shape, contents)] as const
  })
  return message(model, Object.fromEntries(tensors))
}

function columnsOf(inputs: readonly TensorFlowInput[], row: unknown, place: string): Record<string, unknown[]> {
  const isNamed = (value: unknown): value is Record<string, unknown> => isObject(value) && typeof value.b64 !== 'string'
  if (isObject(row) && isNamed(row.inputs)) return row.inputs as Record<string, unknown[]>
  const values = isObject(row) ? (row.instances ?? row.inputs) : undefined
  if (!Array.isArray(values) || values.length === 0)
    throw new PayloadError(
      `${place}: neither 'instances' nor 'inputs'`,
      'one body of the REST form a line: {"instances": [{"text": "..."}]}',
    )
  if (!isNamed(values[0])) return { [inputs[0]!.name]: values }
  return Object.fromEntries(Object.keys(values[0]).map((name) => [name, values.map((value) => (value as Record<string, unknown>)[name])]))
}
