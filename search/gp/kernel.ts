/**
 * The kernel between the rows that were observed and others, without a matrix of them: what scoring
 * many candidates spends its time on.
 */
import { type GpShape, type Hyperparameters, isSameRow, type Rows } from './types.ts'

const SQRT5 = Math.sqrt(5)

/** k(r²) = (1 + √5 r + 5 r²/3) exp(-√5 r). */
export function matern52(squared: number): number {
  const r = SQRT5 * Math.sqrt(squared)
  return (1 + r + (5 / 3) * squared) * Math.exp(-r)
}

/** -2 dk/d(r²), so that ∂k/∂ln ℓ_g is this times the group's share of r². */
export function matern52Weight(squared: number): number {
  const r = SQRT5 * Math.sqrt(squared)
  return (5 / 3) * (1 + r) * Math.exp(-r)
}

export interface CrossKernel {
  /** Writes k(x, z) for some training rows x. */
  row(z: Float64Array, out: Float64Array, at: Int32Array): void
  /** k(z, z). */
  variance(z: Float64Array): number
}

/** What rounding may make of the distance of a row from itself. */
const SAME = 1e-6

/**
 * k between rows of X and others: Matérn part, trend and what each row has of its own. Distances
 * come as |x|² + |z|² − 2 x·z, so that of a candidate only the columns count in which it is not 0:
 * of the columns that stand for names, one.
 */
export function crossKernel(shape: GpShape, h: Hyperparameters, X: Rows): CrossKernel {
  const d = shape.groups.length
  const n = X.length
  const inverse = Float64Array.from(shape.groups, (g) => (g < 0 ? 0 : 1 / h.lengthscales[g]!))
  const { slopeVariance, ownVariance = 0 } = shape
  // Of each training row and column, one after the other: −2 x / ℓ² and v x.
  const factors = new Float64Array(n * d * 2)
  const norms = new Float64Array(n)
  for (let j = 0; j < n; j++) {
    const x = X[j]!
    for (let c = 0; c < d; c++) {
      const near = x[c]! * inverse[c]!
      norms[j] = norms[j]! + near * near
      factors[2 * (j * d + c)] = -2 * near * inverse[c]!
      factors[2 * (j * d + c) + 1] = x[c]! * slopeVariance[c]!
    }
  }
  const columns = new Int32Array(d)
  const values = new Float64Array(d)
  const trend = (z: Float64Array) => {
    let sum = 0
    for (let c = 0; c < d; c++) sum += slopeVariance[c]! * z[c]! * z[c]!
    return sum
  }
  return {
    row(z, out, rows) {
      let count = 0
      let norm = 0
      for (let c = 0; c < d; c++) {
        const value = z[c]!
        if (value === 0) continue
        columns[count] = 2 * c
        values[count++] = value
        norm += (value * inverse[c]!) ** 2
      }
      for (let i = 0; i < rows.length; i++) {
        const j = rows[i]!
        const at = 2 * j * d
        let squared = norm + norms[j]!
        let linear = 0
        for (let k = 0; k < count; k++) {
          const c = at + columns[k]!
          squared += factors[c]! * values[k]!
          linear += factors[c + 1]! * values[k]!
        }
        const own = ownVariance > 0 && squared < SAME && isSameRow(X[j]!, z) ? ownVariance : 0
        out[i] = h.signalVariance * matern52(Math.max(0, squared)) + linear + own
      }
    },
    variance: (z) => h.signalVariance + ownVariance + trend(z),
  }
}
