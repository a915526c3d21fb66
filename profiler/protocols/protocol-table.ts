/**
 * Table of protocols: their names and capabilities. It feeds the experiment file, the help, the
 * docs and every decision that depends on a protocol. Modules are loaded on first use, as a command
 * line that only shows names has to start fast, and most experiments need no gRPC.
 */
import type { ProtocolModule } from './protocol-module.ts'

/** Capabilities and descriptions of a protocol. */
interface ProtocolTraits {
  /** Name within a sentence: "this looks like TensorFlow Serving". */
  readonly title: string
  // The next three are cells of the table in docs/reference/protocols.md.
  readonly spokenBy: string
  readonly readyWhen: string
  readonly goodAnswer: string
  readonly transport: 'http' | 'grpc'
  /**
   * A request is one prompt to a language model, and its answer a stream of tokens: time to the
   * first token, time per token.
   */
  readonly streams: boolean
  /** The server reports the inputs of its model, and has its own readiness endpoint. */
  readonly metadata: boolean
  /** The path of the inference call has no default: the user must give it. */
  readonly needsPath: boolean
  /**
   * Path on the HTTP port that answers 200 when the model is ready. A gRPC protocol uses the path
   * of the related REST protocol.
   */
  readyPath(model: string): string
  /** Default deadline of a request. */
  readonly timeoutMs: number
  load(): Promise<ProtocolModule>
}

const buildTfservingReadyPath = (model: string) => `/v1/models/${encodeURIComponent(model)}`
/** Properties that the tensor protocols share. */
const tensors = { streams: false, metadata: true, needsPath: false, timeoutMs: 10_000 } as const
/** Deadline of a streamed answer, ms. Assumed. */
const streamTimeoutMs = 120_000

const table = {
  'oip-v2': {
    ...tensors,
    title: 'the Open Inference Protocol',
    spokenBy: 'Triton, KServe, TorchServe, MLServer',
    readyWhen: '`/v2/health/ready` and the model answer 200, and none says that it is not ready',
    goodAnswer: 'has `outputs`',
    transport: 'http',
    readyPath: () => '/v2/health/ready',
    load: async () => (await import('./oip-v2.ts')).oipV2,
  },
  'grpc-v2': {
    ...tensors,
    title: 'the Open Inference Protocol over gRPC',
    spokenBy: 'the same, on their gRPC port',
    readyWhen: '`ServerReady` and `ModelReady`',
    goodAnswer: "has the first answer's output",
    transport: 'grpc',
    readyPath: () => '/v2/health/ready',
    load: async () => (await import('./grpc/oip-messages.ts')).grpcV2,
  },
  tfserving: {
    ...tensors,
    title: 'TensorFlow Serving',
    spokenBy: 'TensorFlow Serving',
    readyWhen:
      '`/v1/models/MODEL` answers 200, with a version that is `AVAILABLE` or `ready: true`',
    goodAnswer: 'has `predictions`',
    transport: 'http',
    readyPath: buildTfservingReadyPath,
    load: async () => (await import('./tfserving.ts')).tfserving,
  },
  'tfserving-grpc': {
    ...tensors,
    title: 'TensorFlow Serving over gRPC',
    spokenBy: 'the same, on its gRPC port',
    readyWhen: '`GetModelStatus` says `AVAILABLE`',
    goodAnswer: "has the first answer's output",
    transport: 'grpc',
    readyPath: buildTfservingReadyPath,
    load: async () => (await import('./grpc/tensorflow-messages.ts')).tfservingGrpc,
  },
  json: {
    ...tensors,
    title: 'plain JSON',
    spokenBy: 'a server of your own',
    readyWhen:
      '`healthPath` answers 200; without one also when the path of the call answers 405 to a GET',
    goodAnswer: '200 with JSON that is no error',
    transport: 'http',
    metadata: false,
    needsPath: true,
    readyPath: () => '/healthz',
    load: async () => (await import('./plain-json.ts')).plainJson,
  },
  openai: {
    title: 'the OpenAI protocol',
    spokenBy: 'vLLM, TGI, SGLang, TensorRT-LLM, Ollama',
    readyWhen: '`/health` answers 200; where it has none, `/v1/models`',
    goodAnswer: 'a stream that comes to its end, see [streams](#streams)',
    transport: 'http',
    streams: true,
    metadata: false,
    needsPath: false,
    readyPath: () => '/health',
    timeoutMs: streamTimeoutMs,
    load: async () => (await import('./openai.ts')).openai,
  },
} as const satisfies Record<string, ProtocolTraits>

/** Wire protocol of a predictor. */
export type ProtocolName = keyof typeof table

export const protocolTable: Readonly<Record<ProtocolName, ProtocolTraits>> = table
export const protocolNames = Object.keys(table) as [ProtocolName, ...ProtocolName[]]

/** Protocol assumed for a server that shows the signs of no other one. */
export const fallbackProtocol: ProtocolName = 'json'
