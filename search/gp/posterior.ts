/**
 * Posterior of the Gaussian process at new points Z, from the Cholesky factor L of the training
 * covariance K = L Lᵀ and α = K⁻¹ (y - X b0). All symbols: regression.ts.
 */
import type { CrossKernel } from './kernel.ts'
import { dot, forwardSolveFour } from './linalg.ts'
import { computePriorMean, type GpSpec, type Marginals, type Rows } from './types.ts'

/** Cholesky factor and α of all training points, or of a subset. */
export interface TrainingFactor {
  /** L, row-major. */
  readonly l: Float64Array
  readonly alpha: Float64Array
  /** Indices of the training points. */
  readonly indices: Int32Array
}

/** Lower bound of a posterior variance; rounding can leave a negative one. */
export const minPosteriorVariance = 1e-12
/** Points per pass over L: `forwardSolveFour` solves for four right-hand sides at once. */
const blockSize = 4

/** Posterior of the noise-free function at the rows of Z (m×d). */
export class Posterior {
  constructor(
    private readonly spec: GpSpec,
    private readonly cross: CrossKernel,
  ) {}

  computeMarginals(Z: Rows, factor: TrainingFactor): Marginals {
    const mean = new Float64Array(Z.length)
    const variance = new Float64Array(Z.length)
    this.visitWhitened(Z, factor, (i, meanAtZ, varianceAtZ) => {
      mean[i] = meanAtZ
      variance[i] = varianceAtZ
    })
    return { mean, variance }
  }

  /** The marginals, with the whitened cross-covariances L⁻¹ k(X, z) of each row of Z (m×n). */
  computeWhitened(
    Z: Rows,
    factor: TrainingFactor,
  ): Marginals & { readonly rows: readonly Float64Array[] } {
    const rows: Float64Array[] = []
    const mean = new Float64Array(Z.length)
    const variance = new Float64Array(Z.length)
    this.visitWhitened(Z, factor, (i, meanAtZ, varianceAtZ, row) => {
      mean[i] = meanAtZ
      variance[i] = varianceAtZ
      rows.push(row.slice())
    })
    return { mean, variance, rows }
  }

  /**
   * Calls `visit` with posterior mean, variance and whitened cross-covariances of each row of Z.
   * Later rows reuse the same vector.
   */
  private visitWhitened(
    Z: Rows,
    { l, indices, alpha }: TrainingFactor,
    visit: (i: number, mean: number, variance: number, row: Float64Array) => void,
  ): void {
    const { cross, spec } = this
    const rows = Array.from({ length: blockSize }, () => new Float64Array(indices.length))
    const mean = new Float64Array(blockSize)
    for (let first = 0; first < Z.length; first += blockSize) {
      const count = Math.min(blockSize, Z.length - first)
      for (let r = 0; r < count; r++) {
        const z = Z[first + r]!
        cross.writeRow(z, rows[r]!, indices)
        mean[r] = computePriorMean(spec, z) + dot(rows[r]!, 0, alpha, 0, indices.length)
      }
      forwardSolveFour(l, indices.length, rows)
      for (let r = 0; r < count; r++) {
        const variance =
          cross.computeVariance(Z[first + r]!) - dot(rows[r]!, 0, rows[r]!, 0, indices.length)
        visit(first + r, mean[r]!, Math.max(minPosteriorVariance, variance), rows[r]!)
      }
    }
  }
}

/**
 * Computes the posterior covariance of the function at the rows of Z (m×m, row-major).
 * @param prior kernel among the rows of Z
 * @param whitened L⁻¹ k(X, z) for each row
 */
export function computeJointCovariance(
  prior: CrossKernel,
  Z: Rows,
  whitened: readonly Float64Array[],
): Float64Array {
  const m = Z.length
  const covariance = new Float64Array(m * m)
  const priorRow = new Float64Array(m)
  const rowIndices = Int32Array.from({ length: m }, (_, i) => i)
  for (let i = 0; i < m; i++) {
    prior.writeRow(Z[i]!, priorRow, rowIndices.subarray(0, i + 1))
    for (let j = 0; j <= i; j++) {
      const value = priorRow[j]! - dot(whitened[i]!, 0, whitened[j]!, 0, whitened[i]!.length)
      covariance[i * m + j] = value
      covariance[j * m + i] = value
    }
  }
  return covariance
}
