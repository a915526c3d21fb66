/**
 * What people wrote beside an experiment or a trial, as text: it may come from someone else's
 * store.
 */
import { plainText } from '../../profiler/plain-text.ts'
import type { Annotation } from '../../trials/annotation.ts'

/** Nothing where nothing was written. */
export function annotationLines(annotation: Annotation | undefined, indent = '  '): string[] {
  if (!annotation) return []
  const { note, tags, archivedAt } = annotation
  return [
    ...(archivedAt === undefined ? [] : [`archived on ${plainText(archivedAt.slice(0, 10))}`]),
    ...(tags.length === 0 ? [] : [`tags: ${plainText(tags.join(', '))}`]),
    ...(note === undefined
      ? []
      : plainText(note)
          .split('\n')
          .map((line, i) => (i === 0 ? `note: ${line}` : `      ${line}`))),
  ].map((line) => indent + line)
}
