/**
 * The Matérn-5/2 kernel, and covariances between training rows and a candidate row. They are
 * computed one candidate at a time, without a design matrix of all candidates. Scoring candidates
 * spends most of its time here.
 */
import type { GpSpec, Hyperparameters, Rows } from './types.ts'

const SQRT5 = Math.sqrt(5)

/**
 * Matérn-5/2 of unit variance at the squared scaled distance r²: (1 + √5 r + 5 r²/3) exp(-√5 r)
 * (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, eq. 4.17).
 */
export function matern52(squaredDistance: number): number {
  const r = SQRT5 * Math.sqrt(squaredDistance)
  return (1 + r + (5 / 3) * squaredDistance) * Math.exp(-r)
}

/**
 * −2 dk/d(r²). The derivative of k by ln ℓ_g, the lengthscale of a group of columns, is this weight
 * times the part of r² that comes from the group.
 */
export function matern52Weight(squaredDistance: number): number {
  const r = SQRT5 * Math.sqrt(squaredDistance)
  return (5 / 3) * (1 + r) * Math.exp(-r)
}

/** Covariances between some training rows and another row z. */
export interface CrossKernel {
  /** Writes k(x, z) to `out` for the training rows at the given indices. */
  writeRow(z: Float64Array, out: Float64Array, indices: Int32Array): void
  /** Prior variance k(z, z). */
  computeVariance(z: Float64Array): number
}

/**
 * Creates the covariance function between the rows of X (n×d) and other rows z: Matérn part and
 * linear trend. Distances are computed as |x|² + |z|² − 2 x·z, so only columns where z is not 0
 * need work. Of the one-hot columns of a categorical parameter, only one is not 0.
 */
export function createCrossKernel(spec: GpSpec, h: Hyperparameters, X: Rows): CrossKernel {
  const d = spec.groups.length
  const n = X.length
  const inverseLengthscales = Float64Array.from(spec.groups, (g) =>
    g < 0 ? 0 : 1 / h.lengthscales[g]!,
  )
  const { slopeVariance } = spec
  // For each training row and column: −2 x / ℓ² (distance), and v x (trend with slope variance v).
  const factors = new Float64Array(n * d * 2)
  const norms = new Float64Array(n)
  for (let j = 0; j < n; j++) {
    const x = X[j]!
    for (let c = 0; c < d; c++) {
      const scaled = x[c]! * inverseLengthscales[c]!
      norms[j] = norms[j]! + scaled * scaled
      factors[2 * (j * d + c)] = -2 * scaled * inverseLengthscales[c]!
      factors[2 * (j * d + c) + 1] = x[c]! * slopeVariance[c]!
    }
  }
  const columns = new Int32Array(d)
  const values = new Float64Array(d)
  const computeTrend = (z: Float64Array) => {
    let sum = 0
    for (let c = 0; c < d; c++) sum += slopeVariance[c]! * z[c]! * z[c]!
    return sum
  }
  return {
    writeRow(z, out, indices) {
      let count = 0
      let norm = 0
      for (let c = 0; c < d; c++) {
        const value = z[c]!
        if (value === 0) continue
        columns[count] = 2 * c
        values[count++] = value
        norm += (value * inverseLengthscales[c]!) ** 2
      }
      for (let i = 0; i < indices.length; i++) {
        const j = indices[i]!
        const firstFactor = 2 * j * d
        let squaredDistance = norm + norms[j]!
        let linear = 0
        for (let k = 0; k < count; k++) {
          const c = firstFactor + columns[k]!
          squaredDistance += factors[c]! * values[k]!
          linear += factors[c + 1]! * values[k]!
        }
        out[i] = h.signalVariance * matern52(Math.max(0, squaredDistance)) + linear
      }
    },
    computeVariance: (z) => h.signalVariance + computeTrend(z),
  }
}
