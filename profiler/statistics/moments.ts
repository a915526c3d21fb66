/** Means, variances and centres of samples. */

/** Computes mean and population variance of values, or of those at the given indices. */
export function computeMoments(
  values: ArrayLike<number>,
  indices?: ArrayLike<number>,
): { readonly mean: number; readonly variance: number } {
  const n = indices?.length ?? values.length
  const getValue = (i: number) => values[indices === undefined ? i : indices[i]!]!
  let sum = 0
  for (let i = 0; i < n; i++) sum += getValue(i)
  const mean = sum / n
  let squares = 0
  for (let i = 0; i < n; i++) squares += (getValue(i) - mean) ** 2
  return { mean, variance: squares / n }
}

/**
 * Computes the mean of the middle half of the values (interquartile mean): robust against outliers,
 * and smooth where the median jumps between few distinct values. NaN without values.
 */
export function computeMidmean(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort()
  const [from, to] = [sorted.length / 4, (3 * sorted.length) / 4]
  let sum = 0
  for (let i = Math.floor(from); i < to; i++)
    sum += sorted[i]! * (Math.min(i + 1, to) - Math.max(i, from))
  return sum / (to - from)
}
