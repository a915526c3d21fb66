/** How a test server serves: plain data, so that it can be given to another process. */
export interface TestService {
  /** Service time of one batch. */
  readonly time:
    | { readonly kind: 'fixed'; readonly ms: number }
    | { readonly kind: 'lognormal'; readonly medianMs: number; readonly sigma: number }
    | {
        readonly kind: 'bimodal'
        readonly fastMs: number
        readonly slowMs: number
        readonly slowShare: number
      }
    /** A batch of b takes baseMs + perItemMs × b. */
    | { readonly kind: 'batch'; readonly baseMs: number; readonly perItemMs: number }
    /**
     * As the queue of that name in simple-servers.ts, which also says how many are served at once,
     * in batches of how many, and how many may wait.
     */
    | { readonly kind: 'known'; readonly name: string }
  /** Batches served at once; 0 = any number (no queue). */
  readonly servers: number
  /** Most requests in a batch; waiting ones are taken together when a server is free. */
  readonly maxBatch: number
  /** Waiting requests beyond which further ones are answered 503. */
  readonly queueLimit?: number
  readonly seed: number
  readonly fault?: TestFault
  /** Connections that the server closes although nothing is wrong. */
  readonly closes?: TestCloses
  /**
   * Default HTTP/1.1. 'h2c': HTTP/2 over plain TCP, and nothing else. 'h2': HTTP/2 over TLS
   * (certificate.ts). 'https': HTTP/1.1 over TLS.
   */
  readonly http?: 'h2c' | 'h2' | 'https'
}

/** When a healthy server closes a connection. */
type TestCloses =
  /** With each answer, and says so. */
  | { readonly kind: 'each' }
  /** Over HTTP/2: after so many answers, by GOAWAY. */
  | { readonly kind: 'goaway'; readonly answers: number }
  /** Idle for so long. */
  | { readonly kind: 'idle'; readonly ms: number }

/** One thing that goes wrong. `share` is of requests, drawn with the server's seed. */
type TestFault =
  | { readonly kind: 'status'; readonly status: number; readonly share: number }
  /** 200 with an error body. */
  | { readonly kind: 'error-body'; readonly share: number }
  | { readonly kind: 'reset'; readonly share: number }
  /** As a reset, but after the answer's status and its first bytes. */
  | { readonly kind: 'cut-body'; readonly share: number }
  /** The connection is closed cleanly in place of an answer. */
  | { readonly kind: 'hang-up'; readonly share: number }
  /** Never answers, and keeps the connection. */
  | { readonly kind: 'half-open'; readonly share: number }
  /** The body comes in pieces over this long. */
  | { readonly kind: 'slow-body'; readonly ms: number }
  /** Serves nothing for `ms`, once, after so many requests. */
  | { readonly kind: 'stall'; readonly ms: number; readonly afterRequests: number }
  | { readonly kind: 'redirect'; readonly to: string }
  /** The process ends after so many requests. */
  | { readonly kind: 'die'; readonly afterRequests: number }
  /** Every service time is multiplied after so many requests. */
  | { readonly kind: 'slow-down'; readonly factor: number; readonly afterRequests: number }

export const okBody = '{"outputs":[{"name":"out","datatype":"FP32","shape":[1],"data":[1]}]}'
