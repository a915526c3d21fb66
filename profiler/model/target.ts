import type { TlsOptions } from './tls-options.ts'
import type { VirtualServer } from './virtual-server.ts'

/** Where requests go: a real HTTP endpoint, or a server that exists in virtual time only. */
export type Target =
  | {
      readonly kind: 'http'
      readonly url: string
      /** Path of the inference call, e.g. /v2/models/bert/infer. */
      readonly path: string
      readonly headers: Readonly<Record<string, string>>
      /** Prepared pool, used round robin. */
      readonly bodies: readonly RequestBody[]
      readonly timeoutMs: number
      /**
       * Of streams that were heard before: where no byte of any comes for so long, ms, and thrice
       * as long as one was ever waited for, all have timed out.
       */
      readonly silentMs?: number
      /**
       * Most connections of an open loop, default 512. Requests beyond wait for one, and their wait
       * counts.
       */
      readonly connections?: number
      /**
       * HTTP/2: over TLS by ALPN, else by prior knowledge. Requests to a server without it fail as
       * 'no HTTP/2'.
       */
      readonly http2?: boolean
      /**
       * Cheap test of an answer's shape beyond its 2xx status: a string that a good answer
       * contains.
       */
      readonly expect?: string
      /**
       * 'grpc': bodies are serialized messages of one unary call, `path` its method. 'sse': answers
       * stream as server-sent events. Default: plain HTTP.
       */
      readonly transport?: 'grpc' | 'sse'
      /** Over https. */
      readonly tls?: TlsOptions
      /**
       * Several servers of the same, `url` the first of them: each gets its share of the requests
       * by its weight.
       */
      readonly spread?: readonly SpreadServer[]
      /**
       * Answers of open loads that are to be looked into: a few of those to these bodies, by
       * number; `take` is called in the process that asks for the load.
       */
      readonly sample?: {
        readonly bodies: readonly number[]
        take?(body: number, answer: Uint8Array): void
      }
      /**
       * What is wrong with an answer as one to a body, in words that follow 'answered, but';
       * undefined where nothing is. Not for other processes.
       */
      readonly meaning?: (asked: RequestBody, answer: Uint8Array) => string | undefined
      /** What a reader of the figures must know of these requests, a sentence each. */
      readonly remarks?: readonly string[]
      /**
       * The server's processes, where they run on this machine: loads then tell how long they were
       * kept from a core.
       */
      readonly serverPids?: () => readonly number[]
    }
  | { readonly kind: 'virtual'; readonly server: VirtualServer }

/** One prepared request body, and how many items it carries. */
export interface RequestBody {
  readonly contentType: string
  readonly body: string | Uint8Array
  /** Tokens of a prompt, as far as its maker knows. */
  readonly inputTokens?: number
  /** Name of its class. */
  readonly requestClass?: string
}

/** One of several servers that share the load. */
export interface SpreadServer {
  readonly url: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Of all weights together its share of the requests. */
  readonly weight: number
}
