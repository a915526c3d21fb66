/** What a patch will do to a manifest, and what it will not. */
import type { ManifestObject } from './manifest-objects.ts'
import type { Span } from './text-edit.ts'
import type { Path, YamlValue } from './yaml-values.ts'

export interface Edit {
  readonly object: ManifestObject
  /** In the object. */
  readonly path: Path
  /** Absent: what stands there is removed. */
  readonly value?: YamlValue
  /** Parts of a text that change, where not all of it does. */
  readonly spans?: readonly Span[]
}

export interface Edits {
  readonly edits: readonly Edit[]
  /** 'BATCH_SIZE = 8: why', of tuned values that found no place. */
  readonly unplaced: readonly string[]
  /** What stands in the way of the tuned values, and was not removed. */
  readonly remaining: readonly string[]
}

export const noEdits: Edits = { edits: [], unplaced: [], remaining: [] }

export const joinEdits = (all: readonly Edits[]): Edits => ({
  edits: all.flatMap(({ edits }) => edits),
  unplaced: all.flatMap(({ unplaced }) => unplaced),
  remaining: all.flatMap(({ remaining }) => remaining),
})
