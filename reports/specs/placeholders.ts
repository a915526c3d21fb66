/** Placeholders that the user must fill, and the notes on them that stand first in a file. */
import { builtinImage } from '../../trials/launchers/builtin-image.ts'

/** Stands for an image that only the user knows; no node can pull it. */
export const imagePlaceholder = 'REPLACE_WITH_YOUR_IMAGE'

const prefix = 'INCOMPLETE: '

/** @param remedy a sentence with the flag or the command that fills the placeholder */
export const describeMissing = (what: string, remedy: string): string =>
  `${prefix}${what}. ${remedy}`

/** @param stages of a pipeline that the note is on: 'stage embed' */
export const addStagesToMissing = (note: string, stages: string): string =>
  `${prefix}${stages}: ${note.slice(prefix.length)}`

export const isMissing = (note: string): boolean => note.startsWith(prefix)

export const weightsRemedy = 'Run again with --model-uri.'

export const missingWeights = describeMissing('no model weights', weightsRemedy)

/**
 * A note if the user named no image, or if it exists only on the machine that built it.
 * @param measured image of the trials
 */
export function describeImage(image: string, measured?: string): string[] {
  if (image === measured) return []
  if (image === imagePlaceholder)
    return [describeMissing('no container image', 'Run again with --image.')]
  if (!image.startsWith(builtinImage)) return []
  return [
    describeMissing(
      `image ${image} is in no registry`,
      'Build it as in deploy/README.md, push it and run again with --image.',
    ),
  ]
}
