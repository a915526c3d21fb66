import type { TlsOptions } from '../model/tls-options.ts'
import type { Protocol } from './protocol.ts'
import type { RequestFormat } from './request-format.ts'

/** Options of a protocol. The fields of `RequestFormat` apply to the JSON protocol only. */
export interface ProtocolOptions extends RequestFormat {
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** Deadline of each request; default: the protocol's. */
  readonly timeoutMs?: number
  /**
   * Deadline of the first request, during which the server may still load the model; default 60 s,
   * and at least the deadline of each request.
   */
  readonly firstAnswerMs?: number
  /** Path of the inference call; default: the protocol's. */
  readonly path?: string
  /** Path that answers 200 when the server is ready; default: the protocol's. */
  readonly healthPath?: string
  /**
   * TensorFlow Serving: signature to call, default serving_default, or the only one of the model.
   */
  readonly signature?: string
  /** JSON protocol: a string that every good answer contains. */
  readonly expect?: string
  readonly connections?: number
  readonly http2?: boolean
  /** Options of https. */
  readonly tls?: TlsOptions
}

/** What each protocol module exports; protocol-table.ts collects them. */
export interface ProtocolModule {
  create(options: ProtocolOptions & { readonly timeoutMs: number }): Protocol
  /** Default path of the inference call. Absent: no HTTP path. */
  callPath?(model: string): string
  /**
   * HTTP requests that identify servers of this protocol, in order. Detection sends the first probe
   * of every protocol before any second probe.
   */
  readonly probes?: readonly Probe[]
  /** gRPC methods that only servers of this protocol have; used to identify them. */
  readonly uniqueMethods?: readonly string[]
  /**
   * Endpoints that list the models of its servers over HTTP. The first list that is not empty is
   * used. Absent: none.
   */
  readonly modelLists?: readonly ModelList[]
  /** Lists the models of a server over gRPC. Rejects where it has no such list. */
  listModels?(
    url: string,
    options: ProtocolOptions,
    signal: AbortSignal,
  ): Promise<readonly string[]>
}

export interface ModelList {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Parses the names of models. `answer` is undefined if the request failed; then returns []. */
  parseNames(answer: unknown): readonly string[]
}

/**
 * A harmless GET that only servers of this protocol answer in a certain way. An answer equal to
 * that of a nonexistent path proves nothing.
 */
interface Probe {
  path(model: string): string
  /** @param notFoundAnswer answer of a nonexistent path */
  matches(answer: ProbeAnswer, notFoundAnswer: ProbeAnswer): boolean
}

export interface ProbeAnswer {
  readonly status: number
  readonly text: string
  /** Parsed text, if it is a JSON object. */
  readonly json: unknown
}
