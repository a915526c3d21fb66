import type { TlsOptions } from '../model/tls-options.ts'
import type { Protocol } from './protocol.ts'
import type { RequestForm } from './request-forms.ts'

/** What a request of a server's own is written as means something for the JSON protocol alone. */
export interface ProtocolOptions extends RequestForm {
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** Deadline of each request; default: the protocol's. */
  readonly timeoutMs?: number
  /**
   * How long the first answer may take, where a model is loaded with it; default 60 s, and no less
   * than the deadline.
   */
  readonly firstAnswerMs?: number
  /** Path of the inference call, in place of the protocol's own. */
  readonly path?: string
  /** Path that answers 200 when the server is ready, in place of the protocol's own. */
  readonly healthPath?: string
  /**
   * TensorFlow Serving: the signature that is called, default serving_default, or the model's only
   * one.
   */
  readonly signature?: string
  /** JSON protocol: a string that every good answer contains. */
  readonly expect?: string
  readonly connections?: number
  readonly http2?: boolean
  /** Over TLS. */
  readonly tls?: TlsOptions
}

/** What a protocol's own file gives to the table of protocols. */
export interface ProtocolModule {
  create(options: ProtocolOptions & { readonly timeoutMs: number }): Protocol
  /** Path of the inference call where none is given. Absent: it is none of HTTP's. */
  callPath?(model: string): string
  /**
   * How its servers are known, over HTTP: all protocols' first signs are asked for before anyone's
   * second.
   */
  readonly signs?: readonly Sign[]
  /** How its servers are known, over gRPC: methods that no other server has. */
  readonly methods?: readonly string[]
  /**
   * Where its servers tell which models they have, over HTTP: the first that names any is believed.
   * Absent: nowhere.
   */
  readonly modelLists?: readonly ModelList[]
}

export interface ModelList {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Of the answer, or of undefined where there was none. */
  names(answer: unknown): readonly string[]
}

/**
 * A harmless question, and whether the answer is one that only this protocol's servers give. What a
 * server answers to a path that nobody has, word for word, is no sign.
 */
interface Sign {
  path(model: string): string
  /** @param madeUp the answer to a path that nobody has */
  shows(answer: Heard, madeUp: Heard): boolean
}

export interface Heard {
  readonly status: number
  readonly text: string
  /** Of a text that is a JSON object. */
  readonly json: unknown
}
