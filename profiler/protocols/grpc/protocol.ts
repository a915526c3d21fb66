import { answersHeld } from '../../bounded-reader.ts'
import type { RequestBody, Target } from '../../model/target.ts'
import type { ItemSource, PayloadSource } from '../../payload-source.ts'
import { ProtocolError } from '../../profiler-errors.ts'
import { namesSocket, pathlessHint, serverAddress } from '../../server-address.ts'
import { valuesOf } from '../golden-answers.ts'
import { usualFirstAnswerMs } from '../http.ts'
import { type AnsweredTensor, type DeclaredTensor, tensorsByName } from '../meaning.ts'
import { differentOnes, mixedHint, mixedUp } from '../mixed-answers.ts'
import { oipResult } from '../oip-v2.ts'
import { jsonLines } from '../payload-pool.ts'
import { requestBodies } from '../pool.ts'
import type { Answered, OnReason, Protocol } from '../protocol.ts'
import type { ProtocolModule } from '../protocol-module.ts'
import { asProtocolError, callRaw, type GrpcEndpoint } from './call.ts'
import { decodeMessage, encodeMessage } from './definitions.ts'

/** What one protocol adds to the gRPC that both share. */
export interface GrpcDialect {
  readonly name: string
  /** Path of the inference call: /package.Service/Method. */
  readonly path: string
  ready(to: GrpcEndpoint, model: string, signal: AbortSignal, onReason?: OnReason): Promise<boolean>
  /**
   * Request messages: made from what the server says of the model, or from bodies as its REST twin
   * takes them.
   */
  messages(
    to: GrpcEndpoint,
    model: string,
    payload: PayloadRows,
    form: GrpcForm,
    signal: AbortSignal,
  ): Promise<GrpcMessages>
  /** How tensors may travel; the next is tried where a server refuses the one before. */
  readonly forms: readonly [GrpcForm, ...GrpcForm[]]
  /** Throws for bytes that are no answer. */
  read(answer: Buffer): GrpcAnswer
  /** What is wrong with an answer as one to a request. */
  fault(answer: GrpcAnswer, asked: GrpcAsked): string | undefined
}

/** Tensors as bytes, or as lists of numbers and texts. */
export type GrpcForm = 'raw' | 'typed'

interface GrpcAnswer {
  readonly model?: string
  readonly id?: string
  readonly tensors: readonly AnsweredTensor[]
}

interface GrpcMessages {
  readonly messages: readonly Buffer[]
  /** The model's outputs, where it names them. */
  readonly outputs?: readonly DeclaredTensor[]
}

interface GrpcAsked {
  readonly model: string
  readonly request: Buffer
  readonly declared?: readonly DeclaredTensor[]
}

/** Payload as a dialect gets it: items to make requests of, or the file's JSON values. */
type PayloadRows =
  | ItemSource
  | { readonly kind: 'rows'; readonly path: string; readonly rows: readonly unknown[] }

/** A Protocol from a gRPC dialect. */
export function grpcProtocol(
  dialect: GrpcDialect,
  options: Parameters<ProtocolModule['create']>[0],
): Protocol {
  const { name } = dialect
  const headers = options.headers ?? {}
  const { timeoutMs, firstAnswerMs = usualFirstAnswerMs } = options
  const endpoint = (url: string): GrpcEndpoint => ({
    protocol: name,
    url: grpcUrl(name, url),
    headers,
    tls: options.tls,
  })
  return {
    name,
    async ready(url, model, signal, onReason) {
      const to = endpoint(url)
      return (
        (await healthy(to, signal, onReason)) && (await dialect.ready(to, model, signal, onReason))
      )
    },
    answers: {
      tensors: true,
      ask: (target, body, signal) => {
        const to = endpoint(target.url)
        const request = Buffer.from(target.bodies[body]!.body as Uint8Array)
        return callRaw(to, dialect.path, request, target.timeoutMs, signal).catch(
          (error: unknown) => {
            throw asProtocolError(to, dialect.path, error, signal)
          },
        )
      },
      read: async (answer) => answeredOf(dialect.read(Buffer.from(answer))),
      of: async (document) => ({ document, result: oipResult(document) }),
    },
    async prepare(
      url: string,
      model: string,
      payload: PayloadSource,
      signal: AbortSignal,
    ): Promise<Extract<Target, { kind: 'http' }>> {
      const to = endpoint(url)
      const source: PayloadRows =
        payload.kind === 'file'
          ? { kind: 'rows', path: payload.path, rows: await jsonLines(payload.path) }
          : payload
      const { messages, outputs, declared, held } = await understood(
        dialect.forms,
        async (form) => {
          const made = await dialect.messages(to, model, source, form, signal)
          const [request] = made.messages as [Buffer]
          const answer = await callRaw(
            to,
            dialect.path,
            request,
            Math.max(timeoutMs, firstAnswerMs),
            signal,
          ).catch((error: unknown) => {
            throw asProtocolError(to, dialect.path, error, signal)
          })
          return {
            ...made,
            declared: made.outputs,
            outputs: outputsOf(dialect, to, answer, { model, request, declared: made.outputs }),
            held: answersHeld(answer.length),
          }
        },
      )
      const bodies = requestBodies(messages, 'application/grpc')
      await checkTogether(dialect, to, differentOnes(bodies).slice(0, held), timeoutMs, signal)
      return {
        kind: 'http',
        transport: 'grpc',
        url: to.url,
        path: dialect.path,
        headers,
        bodies,
        timeoutMs,
        expect: options.expect ?? outputs[0],
        meaning: ({ body }, answer) =>
          dialect.fault(dialect.read(Buffer.from(answer)), {
            model,
            request: Buffer.from(body as Uint8Array),
            declared,
          }),
        connections: options.connections,
        tls: options.tls,
      }
    },
  }
}

const isNoQuestionOfForm = ({ why }: ProtocolError): boolean =>
  why === 'denied' || why === 'untrusted' || why === 'not-ready'

/** What the first form that is answered well gives. Throws the first form's error where none is. */
async function understood<T>(
  forms: GrpcDialect['forms'],
  attempt: (form: GrpcForm) => Promise<T>,
): Promise<T> {
  let first: unknown
  for (const form of forms)
    try {
      return await attempt(form)
    } catch (error) {
      first ??= error
      // What nobody lets in, or nobody serves, is no question of form.
      if (!(error instanceof ProtocolError) || isNoQuestionOfForm(error)) break
    }
  throw first
}

/** As the REST form has it. */
const answeredOf = ({ model, id, tensors }: GrpcAnswer): Answered => ({
  document: {
    model_name: model,
    id,
    outputs: tensors.map(({ data = [], ...about }) => ({ ...about, data: Array.from(data) })),
  },
  result: tensorsByName(tensors),
})

async function checkTogether(
  dialect: GrpcDialect,
  to: GrpcEndpoint,
  bodies: readonly RequestBody[],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  const wrong = await mixedUp(bodies.length, async (i) => {
    const request = Buffer.from(bodies[i]!.body as Uint8Array)
    try {
      return valuesOf(
        answeredOf(dialect.read(await callRaw(to, dialect.path, request, timeoutMs, signal))),
      )
    } catch {
      signal.throwIfAborted()
      return undefined // Full, say: load tells how often it is.
    }
  })
  if (wrong !== undefined)
    throw new ProtocolError(
      dialect.name,
      `${to.url}${dialect.path} answers, but ${wrong}`,
      mixedHint,
      'answers-differ',
    )
}

const healthCheck = {
  path: '/grpc.health.v1.Health/Check',
  request: 'grpc.health.v1.HealthCheckRequest',
}

/**
 * False where the standard health service says that the server does not serve; true where there is
 * none, or nothing listens: the protocol says.
 */
async function healthy(
  to: GrpcEndpoint,
  signal: AbortSignal,
  onReason?: OnReason,
): Promise<boolean> {
  try {
    const answer = await callRaw(
      to,
      healthCheck.path,
      encodeMessage(healthCheck.request, {}),
      5000,
      signal,
    )
    const { status } = decodeMessage('grpc.health.v1.HealthCheckResponse', answer)
    if (status !== 'SERVING') onReason?.(`${to.url}${healthCheck.path} answers ${status}`)
    return status === 'SERVING'
  } catch {
    signal.throwIfAborted()
    return true // No such service, or no server: the protocol's own calls tell which.
  }
}

function outputsOf(
  dialect: GrpcDialect,
  { protocol, url }: GrpcEndpoint,
  answer: Buffer,
  asked: GrpcAsked,
): readonly string[] {
  let read: GrpcAnswer
  try {
    read = dialect.read(answer)
  } catch (error) {
    throw new ProtocolError(
      protocol,
      `${url}${dialect.path} answered with what is no answer: ${(error as Error).message}`,
    )
  }
  const outputs = read.tensors.map((tensor) => tensor.name)
  if (outputs.length === 0)
    throw new ProtocolError(protocol, `${url}${dialect.path} answered without outputs`)
  const fault = dialect.fault(read, asked)
  if (fault !== undefined)
    throw new ProtocolError(protocol, `${url}${dialect.path} answered OK, but ${fault}`)
  return outputs
}

/**
 * http://host:port from grpc://, http:// or a bare host:port; https:// from grpcs://;
 * unix:/run/x.sock.
 */
function grpcUrl(protocol: string, url: string): string {
  const hasScheme = /^[a-z]+:\/\//i.test(url) || namesSocket(url)
  const address = serverAddress(hasScheme ? url : `http://${url}`)
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
