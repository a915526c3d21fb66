/** What carries a request to the server and tells of its end, whatever the transport. */

/** Times within one streamed answer, ms from the request's actual send. */
export interface StreamTimes {
  /** To the first token. */
  readonly firstTokenMs: number
  /** To the last token. */
  readonly lastTokenMs: number
  /** Output tokens, as the server counted them, or chunks where it did not. */
  readonly tokens: number
  /** Gaps between chunks with tokens. */
  readonly gapsMs: readonly number[]
}

/** `failure`: the class of an error; undefined for a good answer. */
export type Ended = (failure: string | undefined, stream?: StreamTimes) => void

export interface Sender {
  /** Opens connections that a client would keep open. Never rejects: requests will say what is wrong. */
  connect(): Promise<void>
  /** Sends the body of this number, round robin. `ended` is called at most once, and not after `abandon`. */
  send(index: number, ended: Ended): { abandon(): void }
  /** Ends every connection at once. */
  close(): Promise<void>
}
