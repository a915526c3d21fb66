import { cholesky, dot } from '../gp/linalg.ts'
import type { Rng } from '../types.ts'

/** A joint normal distribution of m values. */
interface JointNormal {
  readonly mean: Float64Array
  /** m×m, row-major. Overwritten by `createJointSampler`. */
  readonly covariance: Float64Array
}

/**
 * Returns a function that draws from a joint normal distribution. Every draw overwrites the same
 * array.
 * @throws Error where the covariance is not positive definite
 */
export function createJointSampler(
  { mean, covariance }: JointNormal,
  rng: Rng,
): () => Float64Array {
  const m = mean.length
  // Jitter keeps nearly equal configurations positive definite.
  for (let i = 0; i < m; i++) covariance[i * m + i] = covariance[i * m + i]! * (1 + 1e-6) + 1e-8
  const l = cholesky(covariance, m)
  if (!l) throw new Error(`the joint posterior of ${m} configurations is not positive definite`)
  const z = new Float64Array(m)
  const draw = new Float64Array(m)
  return () => {
    for (let i = 0; i < m; i++) z[i] = rng.normal()
    for (let i = 0; i < m; i++) draw[i] = mean[i]! + dot(l, i * m, z, 0, i + 1)
    return draw
  }
}
