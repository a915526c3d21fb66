/** Users' annotations. No figure depends on them. */

export interface Annotation {
  readonly note?: string
  /** Sorted, without duplicates. */
  readonly tags: readonly string[]
  /** Time at which the experiment was archived; lists leave it out. */
  readonly archivedAt?: string
}

/** An annotation by the number of the trial it is of; 0: the experiment itself. */
export type Annotations = ReadonlyMap<number, Annotation>

/** A change of an annotation; absent fields are unchanged. */
export interface AnnotationChange {
  /** Takes the place of the note; '' removes it. */
  readonly note?: string
  readonly addTags?: readonly string[]
  readonly removeTags?: readonly string[]
  readonly archived?: boolean
}

/** Trial number that denotes the experiment itself. */
export const experimentItself = 0
