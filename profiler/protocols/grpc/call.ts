import { type Client, type ServiceError, status } from '@grpc/grpc-js'
import {
  buildGrpcMetadata,
  classifyGrpcError,
  createGrpcClient,
  formatGrpcStatus,
} from '../../load/grpc-sender.ts'
import { clientCertificateHint, requiresClientCertificate, trustHint } from '../../load/tls.ts'
import type { TlsOptions } from '../../model/tls-options.ts'
import { ProtocolError } from '../../profiler-errors.ts'
import { findNotReadyReason } from '../not-ready.ts'
import type { OnReason } from '../protocol.ts'
import { headerHint } from '../refusals.ts'
import { decodeMessage, encodeMessage } from './definitions.ts'

/** Server to call, with its headers and TLS options. */
export interface GrpcEndpoint {
  readonly protocol: string
  /** http://host:port; https:// for TLS. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly tls?: TlsOptions
}

/** One method of a service: its path and its messages. */
export interface Method {
  readonly path: string
  readonly request: string
  readonly response: string
}

/** Makes one unary call on its own connection. Rejects with grpc-js's ServiceError. */
export function callRaw(
  endpoint: GrpcEndpoint,
  path: string,
  message: Buffer,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Buffer> {
  // Messages are encoded already.
  const passThrough = (bytes: Buffer) => bytes
  let client: Client | undefined
  return new Promise<Buffer>((resolve, reject) => {
    signal.throwIfAborted()
    client = createGrpcClient(endpoint.url, endpoint.tls, endpoint.headers)
    const pendingCall = client.makeUnaryRequest(
      path,
      passThrough,
      passThrough,
      message,
      buildGrpcMetadata(endpoint.headers),
      { deadline: Date.now() + timeoutMs },
      (error, answer) => {
        signal.removeEventListener('abort', abort)
        if (signal.aborted) reject(signal.reason)
        else if (error) reject(error)
        else resolve(answer ?? Buffer.alloc(0))
      },
    )
    const abort = () => pendingCall.cancel()
    signal.addEventListener('abort', abort, { once: true })
  }).finally(() => client?.close())
}

type Call = readonly [
  endpoint: GrpcEndpoint,
  method: Method,
  request: Record<string, unknown>,
  timeoutMs: number,
  signal: AbortSignal,
]

/** Makes one call with plain objects. Throws a ProtocolError with the message of the server. */
export const callMethod = (...call: Call): Promise<Record<string, unknown>> =>
  callDecoded(...call).catch((error: unknown) => throwCallError(call, error))

/** Like `callMethod`; undefined where the server does not implement the method. */
export const callIfImplemented = (...call: Call): Promise<Record<string, unknown> | undefined> =>
  callDecoded(...call).catch((error: unknown) =>
    (error as Partial<ServiceError>).code === status.UNIMPLEMENTED
      ? undefined
      : throwCallError(call, error),
  )

async function callDecoded(...[endpoint, method, request, timeoutMs, signal]: Call) {
  const message = encodeMessage(method.request, request)
  return decodeMessage(
    method.response,
    await callRaw(endpoint, method.path, message, timeoutMs, signal),
  )
}

function throwCallError([endpoint, { path }, , , signal]: Call, error: unknown): never {
  throw convertCallError(endpoint, path, error, signal)
}

/** Error of a failed call, with a hint. The signal's reason where that was the cause. */
export function convertCallError(
  { protocol, url }: GrpcEndpoint,
  path: string,
  error: unknown,
  signal: AbortSignal,
): unknown {
  signal.throwIfAborted()
  if (error instanceof ProtocolError) return error
  const { code, details } = error as ServiceError
  if (typeof code !== 'number')
    return new ProtocolError(protocol, `${url} ${path}: ${(error as Error).message}`)
  const kind = classifyGrpcError({ code, details })
  if (kind === 'refused')
    return new ProtocolError(
      protocol,
      `${url} cannot be reached: ${details}`,
      'nothing listens there: is this the gRPC port?',
    )
  if (kind === 'tls')
    return new ProtocolError(
      protocol,
      `${url} cannot be reached: ${details}`,
      requiresClientCertificate(details)
        ? clientCertificateHint
        : `check grpcs against grpc; ${trustHint}`,
      'untrusted',
    )
  return new ProtocolError(
    protocol,
    `${url} ${path} answered ${formatGrpcStatus(code)}: ${details || '(no message)'}`,
    getHint(code, details, path),
    isLoading(code, details)
      ? 'not-ready'
      : code === status.NOT_FOUND
        ? 'unknown-call'
        : code === status.INVALID_ARGUMENT || isMessageTooLarge({ code, details })
          ? 'refused'
          : isDenied(code)
            ? 'denied'
            : undefined,
  )
}

/**
 * Handles the error of a readiness check: returns false for a server that is not up yet.
 * @throws errors that waiting does not fix, and the signal's reason
 */
export function handleReadinessError(
  error: unknown,
  signal: AbortSignal,
  onReason?: OnReason,
): false {
  signal.throwIfAborted()
  if (!(error instanceof ProtocolError) || error.why === 'untrusted') throw error
  if (error.why !== undefined || !/cannot be reached/.test(error.message)) onReason?.(error.message)
  return false
}

/** Whether a message exceeds the server's limit, in the words of grpc-core and others. */
const isMessageTooLarge = ({ code, details }: Pick<ServiceError, 'code' | 'details'>): boolean =>
  code === status.RESOURCE_EXHAUSTED &&
  /larger than (the )?max|message.*(too large|exceeds)|max.*message/i.test(details)

/** Messages of grpc-js for answers that are not gRPC; a gateway's 502 to 504 are HTTP answers. */
const nonGrpcPattern = /protocol error|parse error|Received HTTP\/1|HTTP status code(?!:? 50[234])/i

const isLoading = (code: number, details: string): boolean =>
  (code === status.UNAVAILABLE && !nonGrpcPattern.test(details)) ||
  findNotReadyReason(details) !== undefined

const isDenied = (code: number): boolean =>
  code === status.UNAUTHENTICATED || code === status.PERMISSION_DENIED

function getHint(code: number, details: string, path: string): string | undefined {
  if (isMessageTooLarge({ code, details }))
    return 'the message exceeds the limit of the server: send fewer items per request, or raise that limit'
  if (code === status.UNIMPLEMENTED && /Metadata$/.test(path))
    return 'it has no model metadata, or speaks another gRPC protocol: give request bodies in the form of its REST API, one per line (--payload FILE.jsonl)'
  if (code === status.UNIMPLEMENTED) return 'does the server speak another gRPC protocol?'
  if (code === status.NOT_FOUND) return 'check the model name'
  if (code === status.INVALID_ARGUMENT) return 'does the payload fit the model?'
  if (isDenied(code)) return headerHint
  if (nonGrpcPattern.test(details)) return 'it does not speak gRPC: is this its REST port?'
  return undefined
}
