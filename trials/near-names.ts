import { distance } from 'fastest-levenshtein'

/**
 * "did you mean X, Y?" for a name that is not among the known ones; lists every known name when
 * none is close.
 */
export function suggestNames(name: string, candidates: readonly string[]): string {
  const near = findClosestNames(name, candidates)
  return near.length > 0 ? `did you mean ${near.join(', ')}?` : `known: ${candidates.join(', ')}`
}

/**
 * Longer input is truncated, because the time grows with the product of the lengths. No known name
 * is longer.
 */
const maxLetters = 100

/**
 * Finds up to four known names, nearest first. They are a prefix of the name, extend it, or differ
 * by at most two edits or a third of its length.
 */
export function findClosestNames(name: string, candidates: readonly string[]): string[] {
  const normalisedName = normaliseName(name.slice(0, maxLetters))
  // A swap of two letters is two edits.
  const maxEdits =
    normalisedName.length < 4 ? 1 : Math.max(2, Math.floor(normalisedName.length / 3))
  return candidates
    .map((candidate) => ({
      candidate,
      edits: countEdits(normalisedName, normaliseName(candidate)),
    }))
    .filter(({ edits }) => edits <= maxEdits)
    .sort((a, b) => a.edits - b.edits)
    .slice(0, 4)
    .map(({ candidate }) => candidate)
}

/** Lower case, letters and digits only. */
export const normaliseName = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '')

/** Ranks a prefix between an equal name and one edit. */
const prefixEdits = 0.5

const countEdits = (a: string, b: string) =>
  a.length > 1 && (b.startsWith(a) || a.startsWith(b)) ? prefixEdits : distance(a, b)
