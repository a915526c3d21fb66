/** Edits of a patch, and what it could not place or remove. */
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
  readonly unplaced: readonly string[]
  /** Settings that conflict with tuned values and were not removed. */
  readonly remaining: readonly string[]
}

export const noEdits: Edits = { edits: [], unplaced: [], remaining: [] }

export const joinEdits = (all: readonly Edits[]): Edits => ({
  edits: all.flatMap(({ edits }) => edits),
  unplaced: all.flatMap(({ unplaced }) => unplaced),
  remaining: all.flatMap(({ remaining }) => remaining),
})
