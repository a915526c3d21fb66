/** Random factors of service times, from a table. */

/** Number of factors; a power of two, so that indices can be masked. */
const size = 1024
const factorsBySd = new Map<number, Float64Array>()
let normals: Float64Array | undefined

/**
 * Gets lognormal factors of mean 1, in random order. All callers share them: each server starts at
 * an index of its own. Their number is a power of two, or 1 without jitter.
 * @param sd standard deviation of ln(factor)
 */
export function getJitterFactors(sd: number): Float64Array {
  const cachedFactors = factorsBySd.get(sd) ?? createFactors(sd)
  factorsBySd.set(sd, cachedFactors)
  return cachedFactors
}

function createFactors(sd: number): Float64Array {
  if (sd === 0) return Float64Array.of(1)
  normals ??= sampleStandardNormals()
  const factors = normals.map((z) => Math.exp(sd * z))
  const mean = factors.reduce((sum, f) => sum + f, 0) / size
  return factors.map((f) => f / mean)
}

/**
 * Samples by Box and Muller over a linear congruential stream (Numerical Recipes, 3rd edition,
 * section 7.1), of mean 0 and deviation 1 exactly.
 */
function sampleStandardNormals(): Float64Array {
  let state = 20_211_101
  const uniform = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return (state + 0.5) / 2 ** 32
  }
  const samples = Float64Array.from(
    { length: size },
    () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()),
  )
  const mean = samples.reduce((sum, z) => sum + z, 0) / size
  const sd = Math.sqrt(samples.reduce((sum, z) => sum + (z - mean) ** 2, 0) / size)
  return samples.map((z) => (z - mean) / sd)
}
