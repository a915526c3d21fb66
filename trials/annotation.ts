/** What people write beside measurements. No figure depends on any of it. */

export interface Annotation {
  readonly note?: string
  /** In the order of the alphabet, each once. */
  readonly tags: readonly string[]
  /** Of an experiment that lists leave out: when it was put away. */
  readonly archivedAt?: string
}

/** An annotation by the number of the trial it is of; 0: the experiment itself. */
export type Annotations = ReadonlyMap<number, Annotation>

/** What is to be different; what is absent stays. */
export interface AnnotationChange {
  /** Takes the place of the note; '' removes it. */
  readonly note?: string
  readonly addTags?: readonly string[]
  readonly removeTags?: readonly string[]
  readonly archived?: boolean
}

/** Where the number of a trial stands, for the experiment. */
export const experimentItself = 0
