import { shuffle } from '../rng.ts'
import type { Rng } from '../types.ts'

const primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71]

/**
 * Creates a function that returns point `index` (0, 1, 2, ...) of a Halton sequence in [0, 1)^d.
 * The rng's seed decides its random digit permutations (Owen, 'A randomized Halton algorithm in R',
 * 2017).
 * @throws RangeError beyond 20 dimensions
 */
export function createHalton(dimensions: number, rng: Rng): (index: number) => Float64Array {
  if (dimensions > primes.length)
    throw new RangeError(
      `a Halton sequence of ${dimensions} dimensions is not supported (at most ${primes.length})`,
    )
  const permutations = Array.from({ length: dimensions }, (_, j) =>
    sampleDigitPermutations(primes[j]!, rng.fork(`halton ${j}`)),
  )
  return (index) =>
    Float64Array.from(permutations, (digits, j) => computeRadicalInverse(index, primes[j]!, digits))
}

/** Maximum digits of a radical inverse; larger bases need fewer for 32 bits. */
const maxDigits = 24

function sampleDigitPermutations(base: number, rng: Rng): Uint8Array[] {
  const count = Math.min(maxDigits, Math.ceil(32 / Math.log2(base)))
  return Array.from({ length: count }, () => Uint8Array.from(shuffle([...Array(base).keys()], rng)))
}

/** The digits of `index` in the base, permuted and mirrored at the radix point (van der Corput). */
function computeRadicalInverse(
  index: number,
  base: number,
  permutations: readonly Uint8Array[],
): number {
  let value = 0
  let scale = 1 / base
  let remaining = index
  for (const digits of permutations) {
    value += digits[remaining % base]! * scale
    remaining = Math.floor(remaining / base)
    scale /= base
  }
  // Rounding must not reach 1.
  return Math.min(value, 1 - 2 ** -53)
}
