/**
 * Builds a Protocol from a gRPC dialect. Both gRPC protocols share readiness, the choice of the
 * tensor encoding and the check of the first answer; a dialect adds messages and the meaning of
 * answers.
 */
import type { HttpTarget } from '../../model/target.ts'
import type { ItemSource, PayloadSource } from '../../payload-source.ts'
import { ProtocolError } from '../../profiler-errors.ts'
import { isSocketUrl, parseServerAddress, pathlessHint } from '../../server-address.ts'
import { type DeclaredTensor, groupByName, type OutputTensor } from '../answer-faults.ts'
import { extractValues } from '../golden-answers.ts'
import { defaultFirstAnswerMs } from '../http.ts'
import { checkConcurrentAnswers } from '../mixed-answers.ts'
import { extractTensors } from '../oip-v2.ts'
import { readJsonLines } from '../payload-pool.ts'
import { createRequestBodies } from '../pool.ts'
import type { OnReason, ParsedAnswer, Protocol } from '../protocol.ts'
import type { ProtocolModule } from '../protocol-module.ts'
import { callRaw, convertCallError, type GrpcEndpoint } from './call.ts'
import { decodeMessage, encodeMessage } from './definitions.ts'

/** What differs between the two gRPC protocols (OIP v2, TensorFlow Serving). */
export interface GrpcDialect {
  readonly name: string
  /** Path of the inference call: /package.Service/Method. */
  readonly path: string
  isReady(
    endpoint: GrpcEndpoint,
    model: string,
    signal: AbortSignal,
    onReason?: OnReason,
  ): Promise<boolean>
  /**
   * Builds the request messages: from a source's items, as the server's metadata of the model
   * requires, or from JSON bodies as in the related REST protocol.
   */
  buildMessages(
    endpoint: GrpcEndpoint,
    model: string,
    payload: DialectPayload,
    encoding: TensorEncoding,
    signal: AbortSignal,
  ): Promise<GrpcMessages>
  /** Tensor encodings, in order of preference. The next one is tried when a server refuses one. */
  readonly encodings: readonly [TensorEncoding, ...TensorEncoding[]]
  /** Decodes an answer. Throws if the bytes are not a valid answer. */
  decodeAnswer(answer: Buffer): GrpcAnswer
  /** Describes why an answer does not fit its request; undefined where it does. */
  describeFault(answer: GrpcAnswer, context: GrpcAnswerContext): string | undefined
}

/** Encoding of tensors: raw bytes, or typed lists of numbers and texts. */
export type TensorEncoding = 'raw' | 'typed'

interface GrpcAnswer {
  readonly model?: string
  readonly id?: string
  readonly tensors: readonly OutputTensor[]
}

interface GrpcMessages {
  readonly messages: readonly Buffer[]
  /** The model's outputs, where it names them. */
  readonly outputs?: readonly DeclaredTensor[]
}

/** The request and the declared outputs that an answer must fit. */
interface GrpcAnswerContext {
  readonly model: string
  readonly request: Buffer
  readonly declared?: readonly DeclaredTensor[]
}

/** Payload for a dialect: a source of items, or the JSON request bodies of a file. */
type DialectPayload =
  | ItemSource
  | { readonly kind: 'bodies'; readonly path: string; readonly bodies: readonly unknown[] }

/** Builds the Protocol of a gRPC dialect. */
export function createGrpcProtocol(
  dialect: GrpcDialect,
  options: Parameters<ProtocolModule['create']>[0],
): Protocol {
  const { name } = dialect
  const headers = options.headers ?? {}
  const { timeoutMs, firstAnswerMs = defaultFirstAnswerMs } = options
  const createEndpoint = (url: string): GrpcEndpoint => ({
    protocol: name,
    url: normaliseGrpcUrl(name, url),
    headers,
    tls: options.tls,
  })
  return {
    name,
    async isReady(url, model, signal, onReason) {
      const endpoint = createEndpoint(url)
      return (
        (await isHealthy(endpoint, signal, onReason)) &&
        (await dialect.isReady(endpoint, model, signal, onReason))
      )
    },
    answerClient: {
      // Tensors only: no field describes the server itself.
      isResultFromModelOnly: true,
      fetch: (target, body, signal) => {
        const endpoint = createEndpoint(target.url)
        const request = Buffer.from(target.bodies[body]!.body as Uint8Array)
        return callRaw(endpoint, dialect.path, request, target.timeoutMs, signal).catch(
          (error: unknown) => {
            throw convertCallError(endpoint, dialect.path, error, signal)
          },
        )
      },
      parse: async (answer) => interpretAnswer(dialect.decodeAnswer(Buffer.from(answer))),
      interpret: async (document) => ({ document, result: extractTensors(document) }),
    },
    async prepare(
      url: string,
      model: string,
      payload: PayloadSource,
      signal: AbortSignal,
    ): Promise<HttpTarget> {
      const endpoint = createEndpoint(url)
      const source: DialectPayload =
        payload.kind === 'file'
          ? { kind: 'bodies', path: payload.path, bodies: await readJsonLines(payload.path) }
          : payload
      const { messages, outputs, outputNames, answerBytes } = await tryEncodings(
        dialect.encodings,
        async (encoding) => {
          const prepared = await dialect.buildMessages(endpoint, model, source, encoding, signal)
          const [request] = prepared.messages as [Buffer]
          const answer = await callRaw(
            endpoint,
            dialect.path,
            request,
            Math.max(timeoutMs, firstAnswerMs),
            signal,
          ).catch((error: unknown) => {
            throw convertCallError(endpoint, dialect.path, error, signal)
          })
          return {
            ...prepared,
            outputNames: checkFirstAnswer(dialect, endpoint, answer, {
              model,
              request,
              declared: prepared.outputs,
            }),
            answerBytes: answer.length,
          }
        },
      )
      const bodies = createRequestBodies(messages, 'application/grpc')
      // Detects a server that mixes up the answers of concurrent requests.
      await checkConcurrentAnswers(
        { protocol: name, url: `${endpoint.url}${dialect.path}`, bodies, answerBytes },
        signal,
        async ({ body }) => {
          const request = Buffer.from(body as Uint8Array)
          const answer = await callRaw(endpoint, dialect.path, request, timeoutMs, signal)
          return extractValues(interpretAnswer(dialect.decodeAnswer(answer)))
        },
      )
      return {
        kind: 'http',
        transport: 'grpc',
        url: endpoint.url,
        path: dialect.path,
        headers,
        bodies,
        timeoutMs,
        // Each answer under load must contain the name of the first output.
        expect: options.expect ?? outputNames[0],
        findFault: ({ body }, answer) =>
          dialect.describeFault(dialect.decodeAnswer(Buffer.from(answer)), {
            model,
            request: Buffer.from(body as Uint8Array),
            declared: outputs,
          }),
        connections: options.connections,
        tls: options.tls,
      }
    },
  }
}

/** Whether an error is independent of the tensor encoding, so that another one would fail too. */
const wouldFailAnyEncoding = ({ why }: ProtocolError): boolean =>
  why === 'denied' || why === 'untrusted' || why === 'not-ready'

/**
 * Tries the tensor encodings in order, and resolves with the result of the first that works. Throws
 * the error of the first encoding where none does.
 */
async function tryEncodings<T>(
  encodings: GrpcDialect['encodings'],
  attempt: (encoding: TensorEncoding) => Promise<T>,
): Promise<T> {
  let firstError: unknown
  for (const encoding of encodings)
    try {
      return await attempt(encoding)
    } catch (error) {
      firstError ??= error
      if (!(error instanceof ProtocolError) || wouldFailAnyEncoding(error)) break
    }
  throw firstError
}

/** Converts an answer to the document of the related REST protocol. */
const interpretAnswer = ({ model, id, tensors }: GrpcAnswer): ParsedAnswer => ({
  document: {
    model_name: model,
    id,
    outputs: tensors.map(({ data = [], ...about }) => ({ ...about, data: Array.from(data) })),
  },
  result: groupByName(tensors),
})

/** Longest health check, ms. Assumed. */
const healthTimeoutMs = 5000
const healthCheck = {
  path: '/grpc.health.v1.Health/Check',
  request: 'grpc.health.v1.HealthCheckRequest',
}

/**
 * Checks the standard gRPC health service. Returns true also where the server has none or does not
 * listen yet: the calls of the protocol itself decide then.
 */
async function isHealthy(
  endpoint: GrpcEndpoint,
  signal: AbortSignal,
  onReason?: OnReason,
): Promise<boolean> {
  try {
    const answer = await callRaw(
      endpoint,
      healthCheck.path,
      encodeMessage(healthCheck.request, {}),
      healthTimeoutMs,
      signal,
    )
    const { status } = decodeMessage('grpc.health.v1.HealthCheckResponse', answer)
    if (status !== 'SERVING') onReason?.(`${endpoint.url}${healthCheck.path} answers ${status}`)
    return status === 'SERVING'
  } catch {
    signal.throwIfAborted()
    return true // No such service, or no server.
  }
}

/**
 * Checks the first answer of a server and returns the names of its outputs.
 * @throws ProtocolError for an answer that is no answer, has no outputs or does not fit the request
 */
function checkFirstAnswer(
  dialect: GrpcDialect,
  { protocol, url }: GrpcEndpoint,
  answer: Buffer,
  context: GrpcAnswerContext,
): readonly string[] {
  let decoded: GrpcAnswer
  try {
    decoded = dialect.decodeAnswer(answer)
  } catch (error) {
    throw new ProtocolError(
      protocol,
      `${url}${dialect.path} sent an unreadable answer: ${(error as Error).message}`,
    )
  }
  const outputNames = decoded.tensors.map((tensor) => tensor.name)
  if (outputNames.length === 0)
    throw new ProtocolError(protocol, `${url}${dialect.path} answered without outputs`)
  const fault = dialect.describeFault(decoded, context)
  if (fault !== undefined)
    throw new ProtocolError(protocol, `${url}${dialect.path} answered OK, but ${fault}`)
  return outputNames
}

/**
 * Normalises the URL of a gRPC server: grpc://, http:// or a bare host:port to http://host:port,
 * grpcs:// to https://, and a socket to unix:/run/x.sock.
 * @throws ProtocolError for another URL, and for a path
 */
export function normaliseGrpcUrl(protocol: string, url: string): string {
  const hasScheme = /^[a-z]+:\/\//i.test(url) || isSocketUrl(url)
  const address = parseServerAddress(hasScheme ? url : `http://${url}`)
  if (address === undefined)
    throw new ProtocolError(
      protocol,
      `'${url}' is not the URL of a gRPC server`,
      'for example grpc://127.0.0.1:8001',
    )
  if (address.path !== '/')
    throw new ProtocolError(protocol, `'${url}' has the path ${address.path}`, pathlessHint)
  return address.origin
}
