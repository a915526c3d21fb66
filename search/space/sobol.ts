import type { Rng } from '../types.ts'

/**
 * Primitive polynomials (degree s, coefficients a) and first direction numbers m of dimensions 2 to
 * 20; dimension 1 is van der Corput's. Source: Joe and Kuo, 'Constructing Sobol sequences with
 * better two-dimensional projections', SIAM J. Sci. Comput. 30 (2008), table new-joe-kuo-6.21201.
 */
const directions: readonly (readonly [
  degree: number,
  coefficients: number,
  first: readonly number[],
])[] = [
  [1, 0, [1]],
  [2, 1, [1, 3]],
  [3, 1, [1, 3, 1]],
  [3, 2, [1, 1, 1]],
  [4, 1, [1, 1, 3, 3]],
  [4, 4, [1, 3, 5, 13]],
  [5, 2, [1, 1, 5, 5, 17]],
  [5, 4, [1, 1, 5, 5, 5]],
  [5, 7, [1, 1, 7, 11, 19]],
  [5, 11, [1, 1, 5, 1, 1]],
  [5, 13, [1, 1, 1, 3, 11]],
  [5, 14, [1, 3, 5, 5, 31]],
  [6, 1, [1, 3, 3, 9, 7, 49]],
  [6, 13, [1, 1, 1, 15, 21, 21]],
  [6, 16, [1, 3, 1, 13, 27, 49]],
  [6, 19, [1, 1, 1, 15, 7, 5]],
  [6, 22, [1, 3, 1, 15, 13, 25]],
  [6, 25, [1, 1, 5, 5, 19, 61]],
  [7, 1, [1, 3, 7, 11, 23, 15, 103]],
]
const bitCount = 32

/**
 * Creates a function that returns point `index` (0, 1, 2, ...) of a Sobol sequence in [0, 1)^d. A
 * random digital shift, which the rng's seed decides, preserves its (t, s) property (L'Ecuyer and
 * Lemieux 2002, §3.2).
 * @throws RangeError beyond 20 dimensions
 */
export function createSobol(dimensions: number, rng: Rng): (index: number) => Float64Array {
  if (dimensions > directions.length + 1)
    throw new RangeError(
      `a Sobol sequence of ${dimensions} dimensions is not supported (at most ${directions.length + 1})`,
    )
  const vectors = Array.from({ length: dimensions }, (_, j) => computeDirectionVectors(j))
  const shifts = Array.from({ length: dimensions }, (_, j) =>
    rng.fork(`sobol ${j}`).int(2 ** bitCount),
  )
  return (index) =>
    Float64Array.from(vectors, (v, j) => {
      let bits = shifts[j]!
      for (let b = 0, gray = index ^ (index >>> 1); gray !== 0; b++, gray >>>= 1)
        if (gray & 1) bits ^= v[b]!
      return (bits >>> 0) / 2 ** bitCount
    })
}

/** v_i = m_i 2^(32 - i), i = 1..32, by the recurrence of Bratley and Fox (1988), eq. 2. */
function computeDirectionVectors(dimension: number): Uint32Array {
  const v = new Uint32Array(bitCount)
  if (dimension === 0) return v.map((_, i) => 2 ** (bitCount - 1 - i))
  const [degree, coefficients, first] = directions[dimension - 1]!
  for (let i = 0; i < bitCount; i++) {
    if (i < degree) {
      v[i] = first[i]! * 2 ** (bitCount - 1 - i)
      continue
    }
    let bits = v[i - degree]! ^ (v[i - degree]! >>> degree)
    for (let k = 1; k < degree; k++) if ((coefficients >>> (degree - 1 - k)) & 1) bits ^= v[i - k]!
    v[i] = bits
  }
  return v
}
