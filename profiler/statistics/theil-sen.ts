/** A straight line that a few outliers do not move. */
import { quantileOfSorted } from './percentile.ts'

interface Point {
  readonly x: number
  readonly y: number
}

/**
 * The median of the slopes of all pairs that have one (Theil 1950; Sen 1968), 0 where no two points
 * lie apart in x. Takes time and memory by the number of such pairs: points of the same x are in
 * none with each other.
 */
export function theilSenSlope(points: readonly Point[]): number {
  const sorted = [...points].sort((a, b) => a.x - b.x)
  const slopes: number[] = []
  let larger = sorted.length
  for (let i = sorted.length - 1; i >= 0; i--) {
    const a = sorted[i]!
    if (i + 1 < sorted.length && sorted[i + 1]!.x > a.x) larger = i + 1
    for (const b of sorted.slice(larger)) slopes.push((b.y - a.y) / (b.x - a.x))
  }
  return slopes.length === 0 ? 0 : quantileOfSorted(Float64Array.from(slopes).sort(), 0.5)
}
