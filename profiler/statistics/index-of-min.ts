/** Finds the index of the smallest value, the first of several. */
export function findIndexOfMin(values: Float64Array): number {
  let minIndex = 0
  for (let i = 1; i < values.length; i++) if (values[i]! < values[minIndex]!) minIndex = i
  return minIndex
}
