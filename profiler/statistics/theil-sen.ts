/** Slope of a straight line that is robust against outliers. */
import { computeMedian } from './percentile.ts'

interface Point {
  readonly x: number
  readonly y: number
}

/**
 * Computes the median of the slopes of all pairs of points (Theil 1950; Sen 1968), 0 where no two
 * points differ in x. Takes time and memory proportional to the number of such pairs; points with
 * the same x form none.
 */
export function computeTheilSenSlope(points: readonly Point[]): number {
  const sorted = [...points].sort((a, b) => a.x - b.x)
  const slopes: number[] = []
  let firstLarger = sorted.length
  for (let i = sorted.length - 1; i >= 0; i--) {
    const a = sorted[i]!
    if (i + 1 < sorted.length && sorted[i + 1]!.x > a.x) firstLarger = i + 1
    for (const b of sorted.slice(firstLarger)) slopes.push((b.y - a.y) / (b.x - a.x))
  }
  return slopes.length === 0 ? 0 : computeMedian(slopes)
}
