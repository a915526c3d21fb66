/** A receiver of a run while it goes on. */
import type { OutputKind } from '../names.ts'

export interface OutputAddress {
  readonly url: string
  /** Headers of every message, such as `Authorization`. */
  readonly headers?: Readonly<Record<string, string>>
}

export interface OutputTarget extends OutputAddress {
  readonly kind: OutputKind
}
