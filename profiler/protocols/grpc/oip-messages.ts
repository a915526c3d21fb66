import { PayloadError } from '../../profiler-errors.ts'
import { fitted } from '../content.ts'
import { isObject } from '../http-protocol.ts'
import { type OipInput, oipInputs, shapeOf, valuesOf } from '../oip-v2.ts'
import { poolOf } from '../pool.ts'
import type { ProtocolModule } from '../protocol-module.ts'
import { bytesElements, numbersToBytes } from '../tensor-bytes.ts'
import { call, type GrpcEndpoint, type Method, notUpYet } from './call.ts'
import { decodeMessage, encodeMessage } from './definitions.ts'
import { type GrpcDialect, grpcProtocol } from './protocol.ts'

const method = (name: string): Method => ({
  path: `/inference.GRPCInferenceService/${name}`,
  request: `inference.${name}Request`,
  response: `inference.${name}Response`,
})
const infer = method('ModelInfer')
const probeTimeoutMs = 5000

/** Open Inference Protocol v2 over gRPC (Triton, KServe, TorchServe, MLServer). Tensors travel as raw contents. */
export const grpcV2: ProtocolModule = {
  create: (options) => grpcProtocol(dialect, options),
  method: method('ServerLive').path,
}

const dialect: GrpcDialect = {
  name: 'grpc-v2',
  path: infer.path,
  async ready(to, model, signal) {
    try {
      const server = await call(to, method('ServerReady'), {}, probeTimeoutMs, signal)
      return server.ready === true && (await call(to, method('ModelReady'), { name: model }, probeTimeoutMs, signal)).ready === true
    } catch (error) {
      return notUpYet(error, signal)
    }
  },
  async messages(to, model, payload, signal) {
    if (payload.kind === 'rows') return payload.rows.map((row, i) => messageOfRow(model, row, `${payload.path}, body ${i + 1}`))
    const inputs = fitted(payload, await inputsOf(to, model, signal))
    return poolOf(payload, async (content, items) => {
      const contents: Buffer[] = []
      for (const input of inputs) contents.push(bytesFor(input, await valuesOf(input, content, items)))
      return message(
        model,
        inputs.map((input) => ({ ...input, shape: shapeOf(input, items) })),
        contents,
      )
    })
  },
  outputs: (answer) => (decodeMessage(infer.response, answer).outputs as { name: string }[]).map(({ name }) => name),
}

async function inputsOf(to: GrpcEndpoint, model: string, signal: AbortSignal): Promise<OipInput[]> {
  const metadata = method('ModelMetadata')
  return oipInputs('grpc-v2', `${to.url}${metadata.path}`, await call(to, metadata, { name: model }, probeTimeoutMs, signal))
}

const message = (model: string, inputs: readonly { name: string; datatype: string; shape: readonly number[] }[], contents: Buffer[]) =>
  encodeMessage(infer.request, {
    model_name: model,
    inputs: inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape })),
    raw_input_contents: contents,
  })

const bytesFor = ({ datatype, kind }: OipInput, values: readonly unknown[]): Buffer =>
  kind === 'text' || kind === 'image'
    ? bytesElements(values.map((value) => (Buffer.isBuffer(value) ? value : Buffer.from(String(value)))))
    : numbersToBytes(datatype, values as (number | boolean)[])

/** A body of the protocol's REST form as a message; BYTES elements are text, or {"b64": "..."}. */
function messageOfRow(model: string, row: unknown, place: string): Buffer {
  const fail = (what: string): never => {
    throw new PayloadError(
      `${place}: ${what}`,
      'one body of the REST form a line: {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["..."]}]}',
    )
  }
  const inputs: unknown[] = isObject(row) && Array.isArray(row.inputs) ? row.inputs : fail("no list of 'inputs'")
  const tensors = inputs.map((input) => {
    if (!isObject(input) || typeof input.name !== 'string' || typeof input.datatype !== 'string' || !Array.isArray(input.shape))
      return fail('an input without name, datatype and shape')
    if (!Array.isArray(input.data)) return fail(`input '${input.name}' has no list of 'data'`)
    const data: unknown[] = input.data.flat(Number.POSITIVE_INFINITY)
    return {
      name: input.name,
      datatype: input.datatype,
      shape: input.shape.map(Number),
      contents: input.datatype === 'BYTES' ? bytesElements(data.map(bytesOf)) : numbersToBytes(input.datatype, data as number[]),
    }
  })
  return message(
    model,
    tensors,
    tensors.map(({ contents }) => contents),
  )
}

/** Text as UTF-8, {"b64": "..."} as the bytes it stands for. */
export const bytesOf = (value: unknown): Buffer =>
  isObject(value) && typeof value.b64 === 'string' ? Buffer.from(value.b64, 'base64') : Buffer.from(String(value))
