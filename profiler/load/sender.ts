/** Interface of all transports: a sender carries requests to the server and reports their ends. */

import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from '../model/target.ts'

/** Times within one streamed answer, ms from the request's actual send. */
export interface StreamTimes {
  /** To the first observed token. */
  readonly firstTokenMs: number
  /** To the last token. */
  readonly lastTokenMs: number
  /** Output tokens as the server counted them, or chunks where it did not. */
  readonly tokens: number
  /**
   * Tokens before the first observed one: hidden reasoning that is counted but not sent. Absent:
   * none.
   */
  readonly hiddenTokens?: number
  /** Prompt tokens as the server counted them, else as the prompt generator did. */
  readonly inputTokens?: number
  /**
   * Gaps between tokens; tokens of one chunk share the time since the chunk before. Empty for an
   * answer in one piece.
   */
  readonly gapsMs: readonly number[]
  /** Several tokens came at once, so the time per token is not observable. */
  readonly arrivedAtOnce?: true
}

/** Callback for the end of a request. `failure`: its error class; undefined for a good answer. */
export type OnRequestEnd = (failure: string | undefined, stream?: StreamTimes) => void

/** Connections of a sender since it was created. */
export interface ConnectionCounts {
  opened: number
  /** Connections that the server closed. */
  closed: number
  /** Requests sent again because their connection was closing. */
  retried: number
}

/** A request in progress. */
export interface RequestHandle {
  abandon(): void
  /** Name of its class, if any. */
  readonly requestClass?: string
}

/** Bytes of all streams: time of the last one, by performance.now(), and the longest gap, ms. */
export interface StreamActivity {
  lastByteMs: number
  longestGapMs: number
}

export interface Sender {
  /**
   * Arrival of bytes over all streams of the server. Undefined before the first byte, and for
   * answers that are not streamed.
   */
  readonly activity?: StreamActivity
  /** Undefined where connections carry many requests at once. */
  readonly counts?: ConnectionCounts
  /**
   * Opens connections as a client would keep them open. Never rejects: requests will report errors.
   */
  connect(): Promise<void>
  /**
   * Sends the body with this index, round robin. `onEnd` is called at most once, and not after
   * `abandon`.
   */
  send(index: number, onEnd: OnRequestEnd): RequestHandle
  /** Returns the answers sampled since the last call. */
  takeSamples(): NonNullable<LoadRun['answerSamples']>
  /** Closes every connection at once. */
  close(): Promise<void>
}

/** Converts each of the target's bodies. A body that a trace repeats is converted once. */
export function convertBodies<T>(
  { bodies }: Pick<HttpTarget, 'bodies'>,
  convert: (body: HttpTarget['bodies'][number]) => T,
): T[] {
  const converted = new Map<HttpTarget['bodies'][number], T>()
  return bodies.map((body) => {
    const result = converted.get(body) ?? convert(body)
    converted.set(body, result)
    return result
  })
}
