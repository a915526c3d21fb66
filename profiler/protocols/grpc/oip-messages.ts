/** The Open Inference Protocol v2 over gRPC. */
import { isRecord, pluckStrings } from '../../plain-record.ts'
import { PayloadError } from '../../profiler-errors.ts'
import { findIdFault, findModelFault, findTensorsFault } from '../answer-faults.ts'
import { matchInputs } from '../content.ts'
import { drawValues, parseInputs, parseOutputs, resolveShape } from '../oip-v2.ts'
import { buildPool } from '../pool.ts'
import type { ProtocolModule } from '../protocol-module.ts'
import { decodeRawContents, encodeBytesElements, encodeNumbers } from '../tensor-bytes.ts'
import {
  callIfImplemented,
  callMethod,
  type GrpcEndpoint,
  handleReadinessError,
  type Method,
} from './call.ts'
import { decodeMessage, encodeMessage } from './definitions.ts'
import {
  createGrpcProtocol,
  type GrpcDialect,
  normaliseGrpcUrl,
  type TensorEncoding,
} from './protocol.ts'
import { recogniseGrpc } from './recognise-grpc.ts'

const createMethod = (name: string): Method => ({
  path: `/inference.GRPCInferenceService/${name}`,
  request: `inference.${name}Request`,
  response: `inference.${name}Response`,
})
const infer = createMethod('ModelInfer')
/** Triton extends the service; MLServer has a separate one. */
const repositoryIndexes: readonly Method[] = [
  createMethod('RepositoryIndex'),
  {
    ...createMethod('RepositoryIndex'),
    path: '/inference.model_repository.ModelRepositoryService/RepositoryIndex',
  },
]
/** Longest call for readiness or metadata, ms. Assumed. */
const probeTimeoutMs = 5000

/**
 * Open Inference Protocol v2 over gRPC (Triton, KServe, TorchServe, MLServer). Tensors are sent as
 * raw contents, and as typed ones to servers that do not read raw contents.
 */
export const grpcV2: ProtocolModule = {
  create: (options) => createGrpcProtocol(dialect, options),
  uniqueMethods: [createMethod('ServerLive').path, infer.path],
  async listModels(url, { headers = {}, tls }, signal) {
    const endpoint = {
      protocol: dialect.name,
      url: normaliseGrpcUrl(dialect.name, url),
      headers,
      tls,
    }
    for (const index of repositoryIndexes) {
      const answer = await callIfImplemented(endpoint, index, {}, probeTimeoutMs, signal)
      if (answer !== undefined) return pluckStrings('name', answer.models)
    }
    return []
  },
}

const dialect: GrpcDialect = {
  name: 'grpc-v2',
  path: infer.path,
  encodings: ['raw', 'typed'],
  async isReady(endpoint, model, signal, onReason) {
    try {
      let isKnown = false
      for (const [name, request] of [
        ['ServerReady', {}],
        ['ModelReady', { name: model }],
      ] as const) {
        const answer = await callIfImplemented(
          endpoint,
          createMethod(name),
          request,
          probeTimeoutMs,
          signal,
        )
        isKnown ||= answer !== undefined
        if (answer === undefined || answer.ready === true) continue
        onReason?.(`${endpoint.url}${createMethod(name).path} answers ready: false`)
        return false
      }
      if (isKnown) return true
      // Some servers implement inference only: they are ready once they know it.
      const known = await recogniseGrpc(endpoint.url, [['grpc-v2', infer.path]], endpoint, signal)
      if (known === undefined)
        onReason?.(`${endpoint.url} has none of ServerReady, ModelReady, ModelInfer`)
      return known !== undefined
    } catch (error) {
      return handleReadinessError(error, signal, onReason)
    }
  },
  async buildMessages(endpoint, model, payload, encoding, signal) {
    if (payload.kind === 'bodies')
      return {
        messages: payload.bodies.map((body, i) =>
          convertBody(model, String(i), body, encoding, `${payload.path}, body ${i + 1}`),
        ),
      }
    const { inputs: declared, outputs } = await fetchTensors(endpoint, model, signal)
    const inputs = matchInputs(payload, declared)
    let number = 0
    const messages = await buildPool(payload, async (content, items) => {
      const tensors: RequestTensor[] = []
      for (const input of inputs)
        tensors.push({
          ...input,
          shape: resolveShape(input, items),
          values: await drawValues(input, content, items),
        })
      return encodeRequest(model, String(number++), tensors, encoding)
    })
    return { messages, outputs }
  },
  decodeAnswer: (answer) => {
    const {
      model_name,
      id,
      outputs,
      raw_output_contents: raw,
    } = decodeMessage<InferAnswer>(infer.response, answer)
    const tensors = outputs.map(({ name, datatype, shape, contents }, i) => ({
      name,
      datatype,
      shape,
      data:
        raw.length > 0
          ? decodeRawContents(datatype, raw[i] ?? Buffer.alloc(0))
          : selectTypedValues(contents),
    }))
    return { model: model_name, id, tensors }
  },
  describeFault: ({ model, id, tensors }, context) => {
    const request = decodeMessage<
      Pick<InferAnswer, 'id'> & { readonly inputs: readonly TensorMessage[] }
    >(infer.request, context.request)
    return (
      findModelFault(model, context.model) ??
      findIdFault(id, request.id) ??
      findTensorsFault(tensors, context.declared, request.inputs[0]?.shape[0])
    )
  },
}

interface TensorMessage {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  readonly contents: Readonly<Record<string, readonly unknown[]>> | null
}
interface InferAnswer {
  readonly model_name: string
  readonly id: string
  readonly outputs: readonly TensorMessage[]
  readonly raw_output_contents: readonly Buffer[]
}

const selectTypedValues = (contents: TensorMessage['contents']): readonly unknown[] =>
  Object.values(contents ?? {}).find((values) => values.length > 0) ?? []

async function fetchTensors(endpoint: GrpcEndpoint, model: string, signal: AbortSignal) {
  const metadataMethod = createMethod('ModelMetadata')
  const metadata = await callMethod(
    endpoint,
    metadataMethod,
    { name: model },
    probeTimeoutMs,
    signal,
  )
  return {
    inputs: parseInputs('grpc-v2', `${endpoint.url}${metadataMethod.path}`, metadata),
    outputs: parseOutputs(metadata),
  }
}

/** A tensor to send; its values are bytes and texts for BYTES, else numbers. */
interface RequestTensor {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  readonly values: readonly unknown[]
}

function encodeRequest(
  model: string,
  id: string,
  tensors: readonly RequestTensor[],
  encoding: TensorEncoding,
): Buffer {
  const typed = encoding === 'typed'
  const inputs = tensors.map(({ name, datatype, shape, values }) => ({
    name,
    datatype,
    shape,
    ...(typed && {
      contents: {
        [resolveTypedField(datatype)]: datatype === 'BYTES' ? values.map(toBytes) : values,
      },
    }),
  }))
  const encodeRaw = ({ datatype, values }: RequestTensor) =>
    datatype === 'BYTES'
      ? encodeBytesElements(values.map(toBytes))
      : encodeNumbers(datatype, values as (number | boolean)[])
  return encodeMessage(infer.request, {
    model_name: model,
    id,
    inputs,
    ...(!typed && { raw_input_contents: tensors.map(encodeRaw) }),
  })
}

/**
 * Field of InferTensorContents for a datatype. Throws a PayloadError for a datatype without one.
 */
function resolveTypedField(datatype: string): string {
  if (datatype === 'BOOL') return 'bool_contents'
  if (datatype === 'BYTES') return 'bytes_contents'
  const field = {
    INT64: 'int64_contents',
    UINT64: 'uint64_contents',
    FP32: 'fp32_contents',
    FP64: 'fp64_contents',
  }[datatype]
  if (field !== undefined) return field
  if (/^INT(8|16|32)$/.test(datatype)) return 'int_contents'
  if (/^UINT(8|16|32)$/.test(datatype)) return 'uint_contents'
  throw new PayloadError(
    `tensors of ${datatype} can only be sent as raw contents`,
    'give request bodies in a JSON Lines file',
  )
}

/** Converts a body of the REST form to a message; BYTES elements are text, or {"b64": "..."}. */
function convertBody(
  model: string,
  id: string,
  body: unknown,
  encoding: TensorEncoding,
  place: string,
): Buffer {
  const throwFault = (what: string): never => {
    throw new PayloadError(
      `${place}: ${what}`,
      'one body of the REST form a line: {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["..."]}]}',
    )
  }
  const inputs: unknown[] =
    isRecord(body) && Array.isArray(body.inputs) ? body.inputs : throwFault("no list of 'inputs'")
  const tensors = inputs.map((input) => {
    if (
      !isRecord(input) ||
      typeof input.name !== 'string' ||
      typeof input.datatype !== 'string' ||
      !Array.isArray(input.shape)
    )
      return throwFault('an input without name, datatype and shape')
    if (!Array.isArray(input.data)) return throwFault(`input '${input.name}' has no list of 'data'`)
    const data: unknown[] = input.data.flat(Number.POSITIVE_INFINITY)
    return {
      name: input.name,
      datatype: input.datatype,
      shape: input.shape.map(Number),
      values: data,
    }
  })
  return encodeRequest(model, id, tensors, encoding)
}

/** Converts an element to bytes: text as UTF-8, {"b64": "..."} decoded, bytes unchanged. */
export const toBytes = (value: unknown): Buffer =>
  Buffer.isBuffer(value)
    ? value
    : isRecord(value) && typeof value.b64 === 'string'
      ? Buffer.from(value.b64, 'base64')
      : Buffer.from(String(value))
