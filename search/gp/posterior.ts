/**
 * The posterior at other rows, from the factor of the training covariance K. Symbols:
 * regression.ts.
 */
import type { CrossKernel } from './kernel.ts'
import { dot, forwardSolveFour } from './linalg.ts'
import { computePriorMean, type GpSpec, type Marginals, type Rows } from './types.ts'

/** Cholesky factor of the covariance of some training rows, with their α. */
export interface TrainingFactor {
  /** L, row-major. */
  readonly l: Float64Array
  readonly alpha: Float64Array
  /** Indices of the training rows. */
  readonly at: Int32Array
}

/** Lower bound of a posterior variance; rounding can leave a negative one. */
export const minPosteriorVariance = 1e-12
/** Right-hand sides that `forwardSolveFour` solves in one pass over L. */
const blockSize = 4

/** Posterior of the noise-free function at the rows of Z (m×d). */
export class Posterior {
  constructor(
    private readonly spec: GpSpec,
    private readonly cross: CrossKernel,
  ) {}

  computeMarginals(Z: Rows, from: TrainingFactor): Marginals {
    const mean = new Float64Array(Z.length)
    const variance = new Float64Array(Z.length)
    this.visitWhitened(Z, from, (i, value, v) => {
      mean[i] = value
      variance[i] = v
    })
    return { mean, variance }
  }

  /** The marginals, and L⁻¹ k(X, z) for each row of Z (m vectors of n numbers). */
  computeWhitened(
    Z: Rows,
    from: TrainingFactor,
  ): Marginals & { readonly rows: readonly Float64Array[] } {
    const rows: Float64Array[] = []
    const mean = new Float64Array(Z.length)
    const variance = new Float64Array(Z.length)
    this.visitWhitened(Z, from, (i, value, v, row) => {
      mean[i] = value
      variance[i] = v
      rows.push(row.slice())
    })
    return { mean, variance, rows }
  }

  /**
   * Calls `visit` with posterior mean, variance and L⁻¹ k(X, z) of each row of Z. The vector is
   * reused for later rows.
   */
  private visitWhitened(
    Z: Rows,
    { l, at, alpha }: TrainingFactor,
    visit: (i: number, mean: number, variance: number, row: Float64Array) => void,
  ): void {
    const { cross, spec } = this
    const rows = Array.from({ length: blockSize }, () => new Float64Array(at.length))
    const mean = new Float64Array(blockSize)
    for (let first = 0; first < Z.length; first += blockSize) {
      const count = Math.min(blockSize, Z.length - first)
      for (let r = 0; r < count; r++) {
        const z = Z[first + r]!
        cross.writeRow(z, rows[r]!, at)
        mean[r] = computePriorMean(spec, z) + dot(rows[r]!, 0, alpha, 0, at.length)
      }
      forwardSolveFour(l, at.length, rows)
      for (let r = 0; r < count; r++) {
        const variance =
          cross.computeVariance(Z[first + r]!) - dot(rows[r]!, 0, rows[r]!, 0, at.length)
        visit(first + r, mean[r]!, Math.max(minPosteriorVariance, variance), rows[r]!)
      }
    }
  }
}

/**
 * Posterior covariance of the function at the rows of Z (m×m, row-major).
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
  const indices = Int32Array.from({ length: m }, (_, i) => i)
  for (let i = 0; i < m; i++) {
    prior.writeRow(Z[i]!, priorRow, indices.subarray(0, i + 1))
    for (let j = 0; j <= i; j++) {
      const value = priorRow[j]! - dot(whitened[i]!, 0, whitened[j]!, 0, whitened[i]!.length)
      covariance[i * m + j] = value
      covariance[j * m + i] = value
    }
  }
  return covariance
}
