/** Recognises gRPC protocols by methods that only their servers have. */
import { type ServiceError, status } from '@grpc/grpc-js'
import { ProtocolError } from '../../profiler-errors.ts'
import type { ProtocolOptions } from '../protocol-module.ts'
import { callRaw, convertCallError } from './call.ts'

/** Longest call that recognises a protocol, ms. Assumed. */
const probeTimeoutMs = 1000

/** Protocols, each with a method that only its servers know. */
type Methods = readonly (readonly [protocol: string, path: string])[]

/**
 * Why no protocol is recognised: nothing listens, its certificate is not trusted, or it speaks
 * something else.
 */
export async function createUnrecognisedError(
  url: string,
  methods: Methods,
  { headers = {}, tls }: ProtocolOptions,
  signal: AbortSignal,
): Promise<unknown> {
  const [protocol, path] = methods[0]!
  const endpoint = { protocol, url, headers, tls }
  const unknownProtocolError = new ProtocolError(
    protocol,
    `${url} speaks no known gRPC protocol`,
    'is this its gRPC port?',
    'other-protocol',
  )
  return callRaw(endpoint, path, Buffer.alloc(0), probeTimeoutMs, signal).then(
    () => unknownProtocolError,
    (error: Partial<ServiceError>) =>
      error.code === status.UNIMPLEMENTED
        ? unknownProtocolError
        : convertCallError(endpoint, path, error, signal),
  )
}

/** Recognises the gRPC protocol of a server: the first whose method it knows. */
export async function recogniseGrpc(
  url: string,
  methods: Methods,
  { headers = {}, tls }: ProtocolOptions,
  signal: AbortSignal,
): Promise<string | undefined> {
  for (const [protocol, path] of methods) {
    try {
      await callRaw({ protocol, url, headers, tls }, path, Buffer.alloc(0), probeTimeoutMs, signal)
      return protocol
    } catch (error) {
      signal.throwIfAborted()
      // An empty request is invalid, which only a server that knows the method can report.
      const { code } = error as Partial<ServiceError>
      if (code === status.INVALID_ARGUMENT || code === status.NOT_FOUND) return protocol
    }
  }
  return undefined
}
