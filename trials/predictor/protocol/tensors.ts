/** Common types of the request protocols: decoded requests, reply formats, errors. */
import { BoundError, parseUntrustedJson } from '../../../profiler/bounded-reader.ts'
import { isRecord } from '../../../profiler/plain-record.ts'
import type { EngineInfo, Tensors } from '../engine.ts'

/** A request that cannot be served, with the HTTP status it gets. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
    this.name = 'RequestError'
  }
}

/** One version of a model, as far as requests and replies depend on it. Plain data. */
export interface ServedModelInfo extends Pick<EngineInfo, 'task' | 'inputs' | 'outputs'> {
  readonly name: string
  readonly version: string
  readonly sequenceLength: number
  /** The vocabulary of a user's own text model. */
  readonly vocabularyPath?: string
  readonly provenance: 'measured' | 'emulated'
  /** Most items a request may carry. */
  readonly maxItems: number
}

/** Tensors of requests have at most as many. */
export const maxDimensions = 8

/** Element types of the Open Inference Protocol that requests may carry. */
export type WireDatatype =
  | 'BOOL'
  | 'INT8'
  | 'INT16'
  | 'INT32'
  | 'INT64'
  | 'UINT8'
  | 'UINT16'
  | 'UINT32'
  | 'UINT64'
  | 'FP32'
  | 'FP64'
  | 'BYTES'

export const integerDatatypes = [
  'BOOL',
  'INT8',
  'INT16',
  'INT32',
  'INT64',
  'UINT8',
  'UINT16',
  'UINT32',
  'UINT64',
] as const
export const datatypes: ReadonlySet<string> = new Set<WireDatatype>([
  ...integerDatatypes,
  'FP32',
  'FP64',
  'BYTES',
])

/** A named input as it came: `values` in row-major order, strings or bytes for BYTES. */
export type WireTensor = { readonly name: string; readonly shape: readonly number[] } & (
  | { readonly datatype: 'BYTES'; readonly values: readonly (string | Uint8Array)[] }
  | { readonly datatype: Exclude<WireDatatype, 'BYTES'>; readonly values: ArrayLike<number> }
)

/** How a reply is to be written. Plain data. */
export type ReplyFormat =
  | {
      readonly protocol: 'oip-v2'
      readonly id?: string
      readonly outputs: readonly { readonly name: string; readonly binary: boolean }[]
    }
  | { readonly protocol: 'tfserving'; readonly style: 'row' | 'columnar' }
  | {
      readonly protocol: 'grpc-v2'
      readonly id: string
      readonly outputs: readonly string[]
      readonly raw: boolean
    }
  | { readonly protocol: 'tfserving-grpc'; readonly outputs: readonly string[] }

/** A request's inputs before preparation, and how to answer it. */
export interface WireRequest {
  readonly inputs: readonly WireTensor[]
  readonly format: ReplyFormat
}

/** A request ready for the batcher: `items` of the first dimension in every tensor. */
export interface PreparedRequest {
  readonly items: number
  readonly tensors: Tensors
  readonly format: ReplyFormat
}

export interface Reply {
  readonly contentType: string
  readonly body: string | Uint8Array
  /** Length of the JSON part of a binary reply. */
  readonly headerLength?: number
}

/** Formats a value for an error message, cut short. */
export function formatShape(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  const text = isRecord(value) ? 'an object' : JSON.stringify(value)
  return text === undefined ? 'nothing' : text.length > 60 ? `${text.slice(0, 60)}...` : text
}

/** Parses a JSON body; throws RequestError 400 naming the place. */
export function parseJson(text: string): Record<string, unknown> {
  let value: unknown
  try {
    value = parseUntrustedJson(text)
  } catch (error) {
    if (error instanceof BoundError) throw new RequestError(400, `the body is ${error.message}`)
    throw new RequestError(
      400,
      `the body is not JSON: ${error instanceof Error ? error.message : error}`,
    )
  }
  if (!isRecord(value)) throw new RequestError(400, 'the body must be a JSON object')
  return value
}
