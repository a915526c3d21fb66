/** Notes of what keeps a spec from starting; the header shows them in one block at the top. */
import { builtinImage } from '../../trials/launchers/builtin-image.ts'

/** Placeholder where only the user knows the image; no node can pull it. */
export const imageToFill = 'REPLACE_WITH_YOUR_IMAGE'

const prefix = 'INCOMPLETE: '

/** @param remedy a sentence with the flag or the command that fills the placeholder */
export const incomplete = (what: string, remedy: string): string => `${prefix}${what}. ${remedy}`

export const isIncomplete = (note: string): boolean => note.startsWith(prefix)

export const weightsRemedy = 'Run again with --model-uri.'

export const missingWeights = incomplete('no model weights', weightsRemedy)

/** For an image that nobody named, or that exists only where it was built. @param measured image of the trials */
export function imageNotes(image: string, measured?: string): string[] {
  if (image === measured) return []
  if (image === imageToFill) return [incomplete('no container image', 'Run again with --image.')]
  return image.startsWith(builtinImage)
    ? [
        incomplete(
          `image ${image} is in no registry`,
          'Build it as in deploy/README.md, push it and run again with --image.',
        ),
      ]
    : []
}
