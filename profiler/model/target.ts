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
   * Timeout for all streams when no byte arrives on any of them, ms. Raised to three times the
   * longest gap observed so far. Applies after the first byte of a stream.
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
  /** Equal servers that share the requests by weight; `url` is the first of them. */
  readonly replicas?: readonly ReplicaTarget[]
  /**
   * Indices of the bodies whose answers are sampled. After the load, `onSample` is called with
   * each sample, in the calling process.
   */
  readonly sample?: {
    readonly bodies: readonly number[]
    onSample?(body: number, answer: Uint8Array): void
  }
  /**
   * Describes what is wrong with an answer to a body, to follow 'answered, but'; undefined for
   * a good one. Not passed to other processes.
   */
  readonly findFault?: (request: RequestBody, answer: Uint8Array) => string | undefined
  /** Caveats about the requests, for the report; one sentence each. */
  readonly remarks?: readonly string[]
  /**
   * Process ids of the server on this machine. With them, each `LoadRun` reports the CPU wait of the
   * server.
   */
  readonly serverPids?: () => readonly number[]
  /** Called before each load. The function that it returns receives the run of that load. */
  readonly observeLoad?: () => (run: LoadRun) => void
}

/** One prepared request body. */
export interface RequestBody {
  readonly contentType: string
  readonly body: string | Uint8Array
  /** Prompt tokens, if known. */
  readonly inputTokens?: number
  /** Name of its class. */
  readonly requestClass?: string
}

/** One of several servers that share the load. */
export interface ReplicaTarget {
  readonly url: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Its share of the requests is its share of all weights. */
  readonly weight: number
}
