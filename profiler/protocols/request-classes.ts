/** Assigns a class to each request of a pool. */
import type { PromptClass } from '../prompt-spec.ts'
import { shuffle, type Uniform } from '../seeded-random.ts'

/**
 * Distributes `count` to shares as whole numbers that sum to `count`, each within one of its exact
 * share (largest remainders, Hamilton's method).
 * @param shares above 0, in any unit
 */
export function apportionCounts(shares: readonly number[], count: number): number[] {
  const total = shares.reduce((sum, share) => sum + share, 0)
  // A part that is whole up to rounding is whole.
  const parts = shares.map((share) => Number(((share / total) * count).toFixed(9)))
  const counts = parts.map(Math.floor)
  const remainder = count - counts.reduce((sum, part) => sum + part, 0)
  const byRemainder = [...parts.keys()].sort(
    (a, b) => parts[b]! - counts[b]! - (parts[a]! - counts[a]!) || a - b,
  )
  for (const i of byRemainder.slice(0, remainder)) counts[i]!++
  return counts
}

/** Draws classes in random order. The number of each differs from its share by less than one. */
export function drawClasses(
  classes: readonly PromptClass[],
  count: number,
  uniform: Uniform,
): PromptClass[] {
  const counts = apportionCounts(
    classes.map(({ share }) => share),
    count,
  )
  return shuffle(
    classes.flatMap((promptClass, i) => new Array<PromptClass>(counts[i]!).fill(promptClass)),
    uniform,
  )
}
