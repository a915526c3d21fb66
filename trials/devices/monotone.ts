/**
 * Latency that never falls as batch or length grow. Physics alone never does; what tables add to
 * it, and measured curves of shares, may by a part of their noise. The model is taken at tabulated
 * sizes, each raised to the largest of the sizes below it, and between them the logarithms are
 * interpolated: a surface that rises in both directions everywhere.
 */

/** Tabulated batches, and powers of two beyond. */
const batchKnots = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128]
/** Tokens, or pixels of an edge. */
const lengthKnots = [8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 640, 768, 1024]

/** @param at the model at a size */
export interface Surface {
  readonly at: (batch: number, length: number) => number
  /** Raised values by knot. */
  readonly known: Map<string, number>
}

/**
 * @param ownLength of the model, which is a knot beside the others: there nothing is interpolated
 */
export function monotoneMs(
  surface: Surface,
  batch: number,
  length: number,
  ownLength: number,
): number {
  const lengths = [...new Set([...lengthKnots, ownLength])].sort((a, b) => a - b)
  const [b0, b1, alongBatch] = between(batchKnots, batch)
  const [l0, l1, alongLength] = between(lengths, length)
  const raised = (i: number, j: number): number => raisedAt(surface, lengths, i, j)
  const atBatch = (i: number) =>
    mix(Math.log(raised(i, l0)), alongLength === 0 ? 0 : Math.log(raised(i, l1)), alongLength)
  return Math.exp(mix(atBatch(b0), alongBatch === 0 ? 0 : atBatch(b1), alongBatch))
}

const mix = (from: number, to: number, along: number) =>
  along === 0 ? from : from + along * (to - from)

/** Knots go on in powers of two. */
const knotAt = (knots: readonly number[], i: number) =>
  knots[i] ?? knots.at(-1)! * 2 ** (i - knots.length + 1)

/**
 * The knots around a size by number, and how far it lies between them in logarithms; below the
 * first, at the first.
 */
function between(
  knots: readonly number[],
  size: number,
): [below: number, above: number, along: number] {
  if (size <= knots[0]!) return [0, 0, 0]
  let i = 0
  while (knotAt(knots, i + 1) <= size) i++
  const from = Math.log(knotAt(knots, i))
  return [i, i + 1, (Math.log(size) - from) / (Math.log(knotAt(knots, i + 1)) - from)]
}

function raisedAt(surface: Surface, lengths: readonly number[], i: number, j: number): number {
  const key = `${i} ${lengths.length} ${j}`
  const known = surface.known.get(key)
  if (known !== undefined) return known
  const here = surface.at(knotAt(batchKnots, i), knotAt(lengths, j))
  const value = Math.max(
    here,
    i > 0 ? raisedAt(surface, lengths, i - 1, j) : 0,
    j > 0 ? raisedAt(surface, lengths, i, j - 1) : 0,
  )
  surface.known.set(key, value)
  return value
}
