/** Index of the least value, the first of several. */
export function leastOf(values: Float64Array): number {
  let least = 0
  for (let i = 1; i < values.length; i++) if (values[i]! < values[least]!) least = i
  return least
}
