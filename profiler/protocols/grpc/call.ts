import { type Client, type ServiceError, status } from '@grpc/grpc-js'
import { grpcClient, grpcErrorKind, grpcMetadata, grpcStatus } from '../../load/grpc-sender.ts'
import { asksForCertificate, clientCertificateHint, trustHint } from '../../load/tls.ts'
import type { TlsOptions } from '../../model/tls-options.ts'
import { ProtocolError } from '../../profiler-errors.ts'
import { notReadyReason } from '../not-ready.ts'
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
  to: GrpcEndpoint,
  path: string,
  message: Buffer,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const asIs = (bytes: Buffer) => bytes
  let client: Client | undefined
  return new Promise<Buffer>((resolve, reject) => {
    signal.throwIfAborted()
    client = grpcClient(to.url, to.tls, to.headers)
    const call = client.makeUnaryRequest(
      path,
      asIs,
      asIs,
      message,
      grpcMetadata(to.headers),
      { deadline: Date.now() + timeoutMs },
      (error, answer) => {
        signal.removeEventListener('abort', abort)
        if (signal.aborted) reject(signal.reason)
        else if (error) reject(error)
        else resolve(answer ?? Buffer.alloc(0))
      },
    )
    const abort = () => call.cancel()
    signal.addEventListener('abort', abort, { once: true })
  }).finally(() => client?.close())
}

/** One call, its messages as plain objects. Throws a ProtocolError with the server's own words. */
export async function call(
  to: GrpcEndpoint,
  method: Method,
  request: Record<string, unknown>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  try {
    return decodeMessage(
      method.response,
      await callRaw(to, method.path, encodeMessage(method.request, request), timeoutMs, signal),
    )
  } catch (error) {
    throw asProtocolError(to, method.path, error, signal)
  }
}

/** As `call`; undefined where the server has no such method. */
export async function callWhereKnown(
  to: GrpcEndpoint,
  method: Method,
  request: Record<string, unknown>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Record<string, unknown> | undefined> {
  try {
    const message = encodeMessage(method.request, request)
    return decodeMessage(
      method.response,
      await callRaw(to, method.path, message, timeoutMs, signal),
    )
  } catch (error) {
    if ((error as Partial<ServiceError>).code === status.UNIMPLEMENTED) return undefined
    throw asProtocolError(to, method.path, error, signal)
  }
}

/** Error of a failed call, with a hint. The signal's reason where that was the cause. */
export function asProtocolError(
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
  const kind = grpcErrorKind({ code, details })
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
      asksForCertificate(details)
        ? clientCertificateHint
        : `check grpcs against grpc; ${trustHint}`,
      'untrusted',
    )
  return new ProtocolError(
    protocol,
    `${url} ${path} answered ${grpcStatus(code)}: ${details || '(no message)'}`,
    hintFor(code, details, path),
    isLoading(code, details)
      ? 'not-ready'
      : code === status.NOT_FOUND
        ? 'unknown-call'
        : code === status.INVALID_ARGUMENT || tooLarge({ code, details })
          ? 'refused'
          : denied(code)
            ? 'denied'
            : undefined,
  )
}

/**
 * False for a server that is not up yet. Throws errors that waiting does not fix, and the signal's
 * reason.
 */
export function notUpYet(error: unknown, signal: AbortSignal, onReason?: OnReason): false {
  signal.throwIfAborted()
  if (!(error instanceof ProtocolError) || error.why === 'untrusted') throw error
  if (error.why !== undefined || !/cannot be reached/.test(error.message)) onReason?.(error.message)
  return false
}

/** Whether a message exceeds the server's limit, in the words of grpc-core and others. */
const tooLarge = ({ code, details }: Pick<ServiceError, 'code' | 'details'>): boolean =>
  code === status.RESOURCE_EXHAUSTED &&
  /larger than (the )?max|message.*(too large|exceeds)|max.*message/i.test(details)

/** Messages of grpc-js for answers that are not gRPC; a gateway's 502 to 504 are HTTP answers. */
const noGrpc = /protocol error|parse error|Received HTTP\/1|HTTP status code(?!:? 50[234])/i

const isLoading = (code: number, details: string): boolean =>
  (code === status.UNAVAILABLE && !noGrpc.test(details)) || notReadyReason(details) !== undefined

const denied = (code: number): boolean =>
  code === status.UNAUTHENTICATED || code === status.PERMISSION_DENIED

function hintFor(code: number, details: string, path: string): string | undefined {
  if (tooLarge({ code, details }))
    return "the server's own limit: send fewer items a request, or raise what it receives at most"
  if (code === status.UNIMPLEMENTED && /Metadata$/.test(path))
    return 'it does not tell what its models take, or speaks another protocol over gRPC: give request bodies, one a line, as its REST API has them (--payload FILE.jsonl)'
  if (code === status.UNIMPLEMENTED)
    return 'the server does not speak this protocol: is it another one over gRPC?'
  if (code === status.NOT_FOUND) return 'check the model name'
  if (code === status.INVALID_ARGUMENT) return 'does the payload fit the model?'
  if (denied(code)) return headerHint
  if (noGrpc.test(details)) return 'it does not speak gRPC: is this its REST port?'
  return undefined
}
