/**
 * The posterior at candidates, from a factor of the training rows' K: symbols as in
 * gp-regression.ts.
 */
import type { CrossKernel } from './kernel.ts'
import { dot, forwardSolveFour } from './linalg.ts'
import { type GpShape, type Marginals, meanAt, type Rows } from './types.ts'

/** Some rows of K, factorised, with their α. */
export interface Whitening {
  readonly l: Float64Array
  readonly alpha: Float64Array
  readonly at: Int32Array
}

/** What rounding leaves of a variance that is nothing. */
export const LEAST_VARIANCE = 1e-12
/** Rows that are solved for in one pass over L. */
const BLOCK = 4

export class Posterior {
  constructor(
    private readonly shape: GpShape,
    private readonly cross: CrossKernel,
  ) {}

  marginals(Z: Rows, from: Whitening): Marginals {
    const mean = new Float64Array(Z.length)
    const variance = new Float64Array(Z.length)
    this.whiten(Z, from, (i, value, spread) => {
      mean[i] = value
      variance[i] = spread
    })
    return { mean, variance }
  }

  /** The marginals, and L⁻¹ k(X, z) for each row (m of n). */
  whitened(Z: Rows, from: Whitening): Marginals & { readonly rows: readonly Float64Array[] } {
    const rows: Float64Array[] = []
    const mean = new Float64Array(Z.length)
    const variance = new Float64Array(Z.length)
    this.whiten(Z, from, (i, value, spread, row) => {
      mean[i] = value
      variance[i] = spread
      rows.push(row.slice())
    })
    return { mean, variance, rows }
  }

  /**
   * Visits the rows of Z with posterior mean, variance and L⁻¹ k(X, z), numbers that are
   * overwritten afterwards.
   */
  private whiten(
    Z: Rows,
    { l, at, alpha }: Whitening,
    visit: (i: number, mean: number, variance: number, row: Float64Array) => void,
  ): void {
    const { cross, shape } = this
    const rows = Array.from({ length: BLOCK }, () => new Float64Array(at.length))
    const mean = new Float64Array(BLOCK)
    for (let first = 0; first < Z.length; first += BLOCK) {
      const count = Math.min(BLOCK, Z.length - first)
      for (let r = 0; r < count; r++) {
        const z = Z[first + r]!
        cross.row(z, rows[r]!, at)
        mean[r] = meanAt(shape, z) + dot(rows[r]!, 0, alpha, 0, at.length)
      }
      forwardSolveFour(l, at.length, rows)
      for (let r = 0; r < count; r++) {
        const variance = cross.variance(Z[first + r]!) - dot(rows[r]!, 0, rows[r]!, 0, at.length)
        visit(first + r, mean[r]!, Math.max(LEAST_VARIANCE, variance), rows[r]!)
      }
    }
  }
}

/**
 * Covariance of the function at the rows of Z (m×m, row-major). @param own the kernel among them
 * @param rows L⁻¹ k(X, z) for each
 */
export function jointCovariance(
  own: CrossKernel,
  Z: Rows,
  rows: readonly Float64Array[],
): Float64Array {
  const m = Z.length
  const covariance = new Float64Array(m * m)
  const prior = new Float64Array(m)
  const upTo = Int32Array.from({ length: m }, (_, i) => i)
  for (let i = 0; i < m; i++) {
    own.row(Z[i]!, prior, upTo.subarray(0, i + 1))
    for (let j = 0; j <= i; j++) {
      const value = prior[j]! - dot(rows[i]!, 0, rows[j]!, 0, rows[i]!.length)
      covariance[i * m + j] = value
      covariance[j * m + i] = value
    }
  }
  return covariance
}
