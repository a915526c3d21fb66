/** Random factors of service times, from a table. */

const size = 1024
const factorsBySd = new Map<number, Float64Array>()
let normals: Float64Array | undefined

/**
 * Lognormal factors of mean 1, in random order, shared by all callers: each server starts at its
 * own index. Their number is a power of two.
 * @param sd standard deviation of ln(factor)
 */
export function getJitterFactors(sd: number): Float64Array {
  const found = factorsBySd.get(sd) ?? createFactors(sd)
  factorsBySd.set(sd, found)
  return found
}

function createFactors(sd: number): Float64Array {
  if (sd === 0) return Float64Array.of(1)
  normals ??= drawStandardNormals()
  const factors = normals.map((z) => Math.exp(sd * z))
  const mean = factors.reduce((sum, f) => sum + f, 0) / size
  return factors.map((f) => f / mean)
}

/**
 * Box and Muller over a linear congruential stream (Numerical Recipes, 3rd edition, section 7.1),
 * of mean 0 and deviation 1 exactly.
 */
function drawStandardNormals(): Float64Array {
  let state = 20_211_101
  const uniform = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return (state + 0.5) / 2 ** 32
  }
  const drawn = Float64Array.from(
    { length: size },
    () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()),
  )
  const mean = drawn.reduce((sum, z) => sum + z, 0) / size
  const sd = Math.sqrt(drawn.reduce((sum, z) => sum + (z - mean) ** 2, 0) / size)
  return drawn.map((z) => (z - mean) / sd)
}
