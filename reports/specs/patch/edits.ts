/** Edits of a patch, the values that it could not apply, and conflicting settings that it keeps. */
import type { ManifestObject } from './manifest-objects.ts'
import type { Span } from './text-edit.ts'
import type { Path, YamlValue } from './yaml-values.ts'

export interface Edit {
  readonly object: ManifestObject
  /** Path in the object. */
  readonly path: Path
  /** Absent: the value at the path is removed. */
  readonly value?: YamlValue
  /** Parts of a text to change, if not the whole text. */
  readonly spans?: readonly Span[]
}

export interface Edits {
  readonly edits: readonly Edit[]
  /** 'BATCH_SIZE = 8: why', for tuned values that could not be set. */
  readonly unappliedValues: readonly string[]
  /** Settings of the user that conflict with tuned values and are kept. */
  readonly conflicts: readonly string[]
}

export const noEdits: Edits = { edits: [], unappliedValues: [], conflicts: [] }

export const joinEdits = (list: readonly Edits[]): Edits => ({
  edits: list.flatMap(({ edits }) => edits),
  unappliedValues: list.flatMap(({ unappliedValues }) => unappliedValues),
  conflicts: list.flatMap(({ conflicts }) => conflicts),
})
