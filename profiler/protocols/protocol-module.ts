import type { TlsOptions } from '../model/tls-options.ts'
import type { Protocol } from './protocol.ts'
import type { RequestForm } from './request-forms.ts'

/** The form of custom requests applies to the JSON protocol only. */
export interface ProtocolOptions extends RequestForm {
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** Deadline of each request; default: the protocol's. */
  readonly timeoutMs?: number
  /**
   * Time for the first answer, with which a model may be loaded; default 60 s, and at least the
   * deadline.
   */
  readonly firstAnswerMs?: number
  /** Path of the inference call; default: the protocol's. */
  readonly path?: string
  /** Path that answers 200 when the server is ready; default: the protocol's. */
  readonly healthPath?: string
  /**
   * TensorFlow Serving: signature to call, default serving_default, or the only one of the model.
   */
  readonly signature?: string
  /** JSON protocol: a string that every good answer contains. */
  readonly expect?: string
  readonly connections?: number
  readonly http2?: boolean
  /** Options of https. */
  readonly tls?: TlsOptions
}

/** Contribution of a protocol's file to the table of protocols. */
export interface ProtocolModule {
  create(options: ProtocolOptions & { readonly timeoutMs: number }): Protocol
  /** Default path of the inference call. Absent: no HTTP path. */
  callPath?(model: string): string
  /**
   * Requests that recognise its servers over HTTP. The first probes of all protocols are sent before
   * any second one.
   */
  readonly probes?: readonly Probe[]
  /** Methods that recognise its servers over gRPC, because no other server has them. */
  readonly methods?: readonly string[]
  /**
   * Where its servers list their models over HTTP: the first list with any counts. Absent: nowhere.
   */
  readonly modelLists?: readonly ModelList[]
  /** Lists the models of a server over gRPC. Rejects where it has no such list. */
  listModels?(
    url: string,
    options: ProtocolOptions,
    signal: AbortSignal,
  ): Promise<readonly string[]>
}

export interface ModelList {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Names in the answer, or in undefined where there was none. */
  names(answer: unknown): readonly string[]
}

/**
 * A harmless GET that only servers of this protocol answer in a certain way. An answer equal to that
 * of a nonexistent path proves nothing.
 */
interface Probe {
  path(model: string): string
  /** @param missing answer of a nonexistent path */
  matches(answer: ProbeAnswer, missing: ProbeAnswer): boolean
}

export interface ProbeAnswer {
  readonly status: number
  readonly text: string
  /** Parsed text, if it is a JSON object. */
  readonly json: unknown
}
