import { distance } from 'fastest-levenshtein'

/**
 * "did you mean X, Y?" for a name that is not among the known ones; lists every known name when
 * none is close.
 */
export function suggestNames(name: string, candidates: readonly string[]): string {
  const near = findClosestNames(name, candidates)
  return near.length > 0 ? `did you mean ${near.join(', ')}?` : `known: ${candidates.join(', ')}`
}

/** No name is longer, and the time grows with the product of the lengths. */
const maxLetters = 100

/**
 * Up to four known names that share a prefix with the name, or lie within two edits or a third of
 * its length, nearest first.
 */
export function findClosestNames(name: string, candidates: readonly string[]): string[] {
  const wanted = normaliseName(name.slice(0, maxLetters))
  // A swap of two letters is two edits.
  const maxEdits = wanted.length < 4 ? 1 : Math.max(2, Math.floor(wanted.length / 3))
  return candidates
    .map((candidate) => ({ candidate, edits: countEdits(wanted, normaliseName(candidate)) }))
    .filter(({ edits }) => edits <= maxEdits)
    .sort((a, b) => a.edits - b.edits)
    .slice(0, 4)
    .map(({ candidate }) => candidate)
}

/** Lower case, letters and digits only. */
export const normaliseName = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '')

const countEdits = (a: string, b: string) =>
  a.length > 1 && (b.startsWith(a) || a.startsWith(b)) ? 0.5 : distance(a, b)
