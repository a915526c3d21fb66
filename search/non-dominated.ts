/**
 * The items no other item dominates: none is at least as good in every objective and better in one. Objectives are minimised.
 * Items with equal values all stay; items with a value that is not a number never do. Order is kept.
 */
export function paretoFront<T>(items: readonly T[], objectives: (item: T) => readonly number[]): T[] {
  const values = items.map(objectives)
  const dominates = (a: readonly number[], b: readonly number[]) => a.every((v, i) => v <= b[i]!) && a.some((v, i) => v < b[i]!)
  return items.filter((_, i) => !values[i]!.some(Number.isNaN) && !values.some((other) => dominates(other, values[i]!)))
}
