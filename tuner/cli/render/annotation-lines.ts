/**
 * Formats the annotation of an experiment or a trial. Control characters are removed, because the
 * store may come from someone else.
 */
import { stripControls } from '../../../profiler/plain-text.ts'
import type { Annotation } from '../../../trials/annotation.ts'

/** Returns no lines without an annotation. */
export function formatAnnotation(annotation: Annotation | undefined, indent = '  '): string[] {
  if (!annotation) return []
  const { note, tags, archivedAt } = annotation
  return [
    ...(archivedAt === undefined ? [] : [`archived on ${stripControls(archivedAt.slice(0, 10))}`]),
    ...(tags.length === 0 ? [] : [`tags: ${stripControls(tags.join(', '))}`]),
    ...(note === undefined
      ? []
      : stripControls(note)
          .split('\n')
          .map((line, i) => (i === 0 ? `note: ${line}` : `      ${line}`))),
  ].map((line) => indent + line)
}
