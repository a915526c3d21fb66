import type { HttpTarget } from '../model/target.ts'
import type { PayloadSource } from '../payload-source.ts'
import type { Problem } from '../profiler-errors.ts'

/** Client of a protocol: readiness, metadata, request bodies, check of answers. */
export interface Protocol {
  /** Name in protocols/protocol-table.ts. */
  readonly name: string
  /**
   * Whether the health endpoint reports that the server can answer; `onReason` receives its reason
   * if not. Never throws for a server that is not up yet. Throws a ProtocolError for an untrusted
   * certificate, and for a server without the requested HTTP/2.
   */
  isReady(url: string, model: string, signal: AbortSignal, onReason?: OnReason): Promise<boolean>
  /**
   * Reads metadata, makes a payload pool, sends one request and checks the answer. Throws a
   * ProtocolError that names what was wrong, with the server's own message.
   */
  prepare(
    url: string,
    model: string,
    payload: PayloadSource,
    signal: AbortSignal,
  ): Promise<HttpTarget>
  /**
   * Message for a server that speaks another protocol: "this looks like TensorFlow Serving; use
   * --protocol tfserving". Undefined otherwise.
   */
  describeOtherProtocol?(
    url: string,
    model: string,
    signal: AbortSignal,
  ): Promise<string | undefined>
  /**
   * Why a server is up and will never be ready, and what to do: it requires credentials, or does
   * not know the path. Undefined where waiting helps.
   */
  explainNeverReady?(url: string, model: string, signal: AbortSignal): Promise<Problem | undefined>
  /** Message for a server that lists its models without this one. Undefined where it lists none. */
  explainMissingModel?(
    url: string,
    model: string,
    signal: AbortSignal,
  ): Promise<Problem | undefined>
  /** Sends single requests and parses their answers. Absent: answers are not checked. */
  readonly answerClient?: AnswerClient
}

/** Receives the reason of a server for not being ready yet. */
export type OnReason = (reason: string) => void

/** Sends single requests outside any load, and parses answers. */
export interface AnswerClient {
  /**
   * Every field of the result comes from the model, as with tensors. Otherwise some may describe
   * the server (its version, its device), and are not compared.
   */
  readonly isResultFromModelOnly: boolean
  /**
   * Sends one of a target's bodies, by index, and resolves with the bytes of the answer. Throws a
   * ProtocolError without an answer.
   */
  fetch(target: HttpTarget, body: number, signal: AbortSignal): Promise<Uint8Array>
  /** Parses an answer; throws for bytes that are none. */
  parse(answer: Uint8Array): Promise<ParsedAnswer>
  /** Interprets a stored answer: the document of an earlier answer. */
  interpret(document: unknown): Promise<ParsedAnswer>
}

/** An answer as a document, and the part of it that depends on the request only. */
export interface ParsedAnswer {
  /** In the REST form of the protocol; {text, model} for a stream of tokens. */
  readonly document: unknown
  readonly result: unknown
  /**
   * Text of a language model. Rounding alone makes two servers diverge after some words, so only
   * the beginning is compared.
   */
  readonly generated?: true
}
