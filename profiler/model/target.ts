import type { LoadRun } from './load-run.ts'
import type { TlsOptions } from './tls-options.ts'
import type { VirtualServer } from './virtual-server.ts'

/** Destination of requests: an HTTP endpoint, or a server in virtual time. */
export type Target = HttpTarget | { readonly kind: 'virtual'; readonly server: VirtualServer }

export interface HttpTarget {
  readonly kind: 'http'
  readonly url: string
  /** Path of the inference call, e.g. /v2/models/bert/infer. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Prepared pool, used round robin. */
  readonly bodies: readonly RequestBody[]
  readonly timeoutMs: number
  /**
   * All streams time out after this time without a byte on any of them, ms, and after at least
   * three times the longest gap so far. Applies once a stream has been received.
   */
  readonly silentMs?: number
  /**
   * Limit on the connections of an open loop, default 512. Further requests wait for one, and
   * that wait counts as latency.
   */
  readonly connections?: number
  /**
   * HTTP/2: by ALPN over TLS, else by prior knowledge. Requests to a server without it fail as
   * 'no HTTP/2'.
   */
  readonly http2?: boolean
  /** String that every good answer contains: a cheap check of each answer under load. */
  readonly expect?: string
  /**
   * 'grpc': bodies are serialized messages of one unary call, `path` its method. 'sse': answers
   * stream as server-sent events. Default: plain HTTP.
   */
  readonly transport?: 'grpc' | 'sse'
  /** Options of https. */
  readonly tls?: TlsOptions
  /** Several equal servers, `url` the first of them, which share the requests by weight. */
  readonly spread?: readonly SpreadServer[]
  /**
   * Requests samples of the answers to these bodies. `take` receives them after the load, in
   * the process that requested it.
   */
  readonly sample?: {
    readonly bodies: readonly number[]
    take?(body: number, answer: Uint8Array): void
  }
  /**
   * Describes what is wrong with an answer to a body, to follow 'answered, but'; undefined for
   * a good one. Not passed to other processes.
   */
  readonly findFault?: (request: RequestBody, answer: Uint8Array) => string | undefined
  /** Remarks on these requests for the reader of the results, a sentence each. */
  readonly remarks?: readonly string[]
  /**
   * Processes of the server on this machine; loads then report how long they waited for a core.
   */
  readonly serverPids?: () => readonly number[]
  /** Called before each load; the function that it returns receives the record of that load. */
  readonly observeLoad?: () => (run: LoadRun) => void
}

/** One prepared request body. */
export interface RequestBody {
  readonly contentType: string
  readonly body: string | Uint8Array
  /** Tokens of a prompt, as far as known. */
  readonly inputTokens?: number
  /** Name of its class. */
  readonly requestClass?: string
}

/** One of several servers that share the load. */
export interface SpreadServer {
  readonly url: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Its share of the requests is its share of all weights. */
  readonly weight: number
}
