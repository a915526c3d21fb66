import type { Target } from '../model/target.ts'
import type { PayloadSource } from '../payload-source.ts'

/** Everything protocol-specific: readiness, metadata, bodies, good answers. */
export interface Protocol {
  /** As protocols/protocol-table.ts has it. */
  readonly name: string
  /**
   * Resolves true when the health endpoint says that it can answer; `onReason` receives what it
   * says when it cannot. Never throws for a server that is not up
   * yet; a ProtocolError for an untrusted certificate, and for one without the HTTP/2 asked for.
   */
  ready(url: string, model: string, signal: AbortSignal, onReason?: OnReason): Promise<boolean>
  /**
   * Reads metadata, makes a payload pool, sends one request and checks the answer. Throws
   * ProtocolError naming what was wrong, with the server's own message.
   */
  prepare(
    url: string,
    model: string,
    payload: PayloadSource,
    signal: AbortSignal,
  ): Promise<Extract<Target, { kind: 'http' }>>
  /**
   * What to say when the server speaks another protocol: "this looks like TensorFlow Serving; use
   * --protocol tfserving". Undefined otherwise.
   */
  looksLike?(url: string, model: string, signal: AbortSignal): Promise<string | undefined>
  /**
   * What a server that is up and not ready answers, and what to do, where waiting is of no use: it
   * wants to know who asks, or does not know the path.
   */
  whyNever?(
    url: string,
    model: string,
    signal: AbortSignal,
  ): Promise<{ readonly what: string; readonly hint: string } | undefined>
  /**
   * What to say when the server lists its models and this one is none of them; undefined where it
   * lists none.
   */
  whyNoModel?(
    url: string,
    model: string,
    signal: AbortSignal,
  ): Promise<{ readonly what: string; readonly hint: string } | undefined>
  /** How answers are read for what they say. Absent: nobody reads them. */
  readonly answers?: AnswerReading
}

/** Receives why a server is not ready yet, in its own words. */
export type OnReason = (reason: string) => void

/** Answers read for their meaning, beside any load. */
export interface AnswerReading {
  /** Their whole result is the model's: tensors. Else a server may tell of itself in it. */
  readonly tensors: boolean
  /**
   * Sends one of a target's bodies, by its number, and resolves with the answer's bytes. Throws a
   * ProtocolError for one that is not answered.
   */
  ask(
    target: Extract<Target, { kind: 'http' }>,
    body: number,
    signal: AbortSignal,
  ): Promise<Uint8Array>
  /** Throws for bytes that are no answer. */
  read(answer: Uint8Array): Promise<Answered>
  /** An answer that stands in a file, as `read` has its document. */
  of(document: unknown): Promise<Answered>
}

/** An answer as a document, and what of it depends on the request alone. */
export interface Answered {
  /** As the protocol's REST form has it; of a stream of tokens {text, model}. */
  readonly document: unknown
  readonly result: unknown
  /**
   * A text of a language model: rounding alone sends two servers different ways after some words,
   * so that its beginning is what is compared.
   */
  readonly generated?: true
}
