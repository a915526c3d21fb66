/** What carries a request to the server and tells of its end, whatever the transport. */
import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from './child-messages.ts'

/** Times within one streamed answer, ms from the request's actual send. */
export interface StreamTimes {
  /** To the first token that was seen. */
  readonly firstTokenMs: number
  /** To the last token. */
  readonly lastTokenMs: number
  /** Output tokens, as the server counted them, or chunks where it did not. */
  readonly tokens: number
  /**
   * Those of them that came before the first one that was seen: thoughts that are counted and not
   * told. Absent: none.
   */
  readonly unseen?: number
  /** Tokens of the prompt, as the server counted them; else as the prompt's maker did. */
  readonly inputTokens?: number
  /**
   * Gaps between tokens: those of one chunk share the time since the chunk before. None of an
   * answer in one piece.
   */
  readonly gapsMs: readonly number[]
  /** Several tokens came all at once: how long one takes is not to be seen. */
  readonly inOnePiece?: true
}

/** `failure`: the class of an error; undefined for a good answer. */
export type Ended = (failure: string | undefined, stream?: StreamTimes) => void

/** What became of a sender's connections, since it was made. */
export interface ConnectionCounts {
  opened: number
  /** Those that the server closed. */
  closed: number
  /** Requests sent once more, for the connection was being closed when they were sent first. */
  retried: number
}

/** A request under way. */
export interface Sent {
  abandon(): void
  /** Name of its class, where it has one. */
  readonly requestClass?: string
}

/**
 * When a byte of a stream last came, by performance.now(), and the longest that one was waited for,
 * ms.
 */
export interface Heard {
  lastMs: number
  longestWaitMs: number
}

export interface Sender {
  /**
   * Of all streams to its server; undefined before the first byte, and where answers are no
   * streams.
   */
  readonly heard?: Heard
  /** Undefined where connections carry many requests at once. */
  readonly counts?: ConnectionCounts
  /**
   * Opens connections that a client would keep open. Never rejects: requests will say what is
   * wrong.
   */
  connect(): Promise<void>
  /**
   * Sends the body of this number, round robin. `ended` is called at most once, and not after
   * `abandon`.
   */
  send(index: number, ended: Ended): Sent
  /** Answers that the target asks to be looked into, since the last time. */
  takeSampled(): NonNullable<LoadRun['sampled']>
  /** Ends every connection at once. */
  close(): Promise<void>
}

/** What is made of each of the target's bodies, once for those that a trace repeats. */
export function oncePerBody<T>(
  { bodies }: Pick<HttpTarget, 'bodies'>,
  make: (body: HttpTarget['bodies'][number]) => T,
): T[] {
  const made = new Map<HttpTarget['bodies'][number], T>()
  return bodies.map((body) => {
    const known = made.get(body) ?? make(body)
    made.set(body, known)
    return known
  })
}
