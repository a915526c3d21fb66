/**
 * Latency that is monotone in batch and length. The physical model is; corrections by tables and
 * share curves may not be, because of noise. The model is evaluated at knots, each is raised to the
 * maximum of all smaller knots, and logarithms are interpolated between them.
 */

/** Knots of the batch size; powers of two follow. */
const batchKnots = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128]
/** Knots of the length: tokens, or pixels of an edge. */
const lengthKnots = [8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 640, 768, 1024]

/** A latency model, with a cache of its running maxima. */
export interface Surface {
  readonly evaluate: (batch: number, length: number) => number
  /** Running maxima by knot. */
  readonly maxima: Map<string, number>
}

/** @param ownLength native length of the model: an extra knot, so that it is exact there */
export function interpolateMonotone(
  surface: Surface,
  batch: number,
  length: number,
  ownLength: number,
): number {
  const lengths = [...new Set([...lengthKnots, ownLength])].sort((a, b) => a - b)
  const [b0, b1, alongBatch] = findKnots(batchKnots, batch)
  const [l0, l1, alongLength] = findKnots(lengths, length)
  const raised = (i: number, j: number): number => computeRunningMaximum(surface, lengths, i, j)
  const atBatch = (i: number) =>
    interpolate(
      Math.log(raised(i, l0)),
      alongLength === 0 ? 0 : Math.log(raised(i, l1)),
      alongLength,
    )
  return Math.exp(interpolate(atBatch(b0), alongBatch === 0 ? 0 : atBatch(b1), alongBatch))
}

const interpolate = (from: number, to: number, along: number) =>
  along === 0 ? from : from + along * (to - from)

/** Gets the i-th knot; beyond the table, knots continue in powers of two. */
const getKnot = (knots: readonly number[], i: number) =>
  knots[i] ?? knots.at(-1)! * 2 ** (i - knots.length + 1)

/**
 * Indices of the knots around a size, and its logarithmic position between them; the first knot for
 * smaller sizes.
 */
function findKnots(
  knots: readonly number[],
  size: number,
): [below: number, above: number, along: number] {
  if (size <= knots[0]!) return [0, 0, 0]
  let i = 0
  while (getKnot(knots, i + 1) <= size) i++
  const from = Math.log(getKnot(knots, i))
  return [i, i + 1, (Math.log(size) - from) / (Math.log(getKnot(knots, i + 1)) - from)]
}

function computeRunningMaximum(
  surface: Surface,
  lengths: readonly number[],
  i: number,
  j: number,
): number {
  const key = `${i} ${lengths.length} ${j}`
  const maxima = surface.maxima.get(key)
  if (maxima !== undefined) return maxima
  const atKnot = surface.evaluate(getKnot(batchKnots, i), getKnot(lengths, j))
  const value = Math.max(
    atKnot,
    i > 0 ? computeRunningMaximum(surface, lengths, i - 1, j) : 0,
    j > 0 ? computeRunningMaximum(surface, lengths, i, j - 1) : 0,
  )
  surface.maxima.set(key, value)
  return value
}
