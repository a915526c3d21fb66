/** The kernel between the rows that were observed and others, without a matrix of them: what scoring many candidates spends its time on. */
import type { Matrix } from 'ml-matrix'
import { amplitudeOf, type GpShape, type Hyperparameters } from './gp-model.ts'
import { matern52 } from './matern.ts'

export interface CrossKernel {
  /** Writes k(x, z) for some training rows x. */
  row(z: ArrayLike<number>, out: Float64Array, at: Int32Array): void
  /** k(z, z). */
  variance(z: ArrayLike<number>): number
  /** k(y, z) for pairs of rows, m. */
  between(Y: Matrix, Z: Matrix): Float64Array
}

/** k between rows of X and others: Matérn part and trend, each over the columns that it has. */
export function crossKernel(shape: GpShape, h: Hyperparameters, X: Matrix): CrossKernel {
  const all = Array.from(shape.groups.keys())
  const near = Int32Array.from(all.filter((c) => shape.groups[c]! >= 0))
  const sloped = Int32Array.from(all.filter((c) => shape.slopeVariance[c]! > 0))
  const n = X.rows
  const p = near.length
  const q = sloped.length
  const inverse = Float64Array.from(near, (c) => 1 / h.lengthscales[shape.groups[c]!]!)
  const positions = new Float64Array(n * p)
  const trends = new Float64Array(n * q)
  const amplitudes = new Float64Array(n)
  for (let j = 0; j < n; j++) {
    for (let c = 0; c < p; c++) positions[j * p + c] = X.get(j, near[c]!) * inverse[c]!
    for (let c = 0; c < q; c++) trends[j * q + c] = X.get(j, sloped[c]!) * shape.slopeVariance[sloped[c]!]!
    amplitudes[j] = h.signalVariance * amplitudeOf(shape, X.getRow(j))
  }
  const position = new Float64Array(p)
  const values = new Float64Array(q)
  const trend = (y: ArrayLike<number>, z: ArrayLike<number>) => {
    let sum = 0
    for (const c of sloped) sum += shape.slopeVariance[c]! * y[c]! * z[c]!
    return sum
  }
  return {
    row(z, out, rows) {
      for (let c = 0; c < p; c++) position[c] = z[near[c]!]! * inverse[c]!
      for (let c = 0; c < q; c++) values[c] = z[sloped[c]!]!
      const amplitude = amplitudeOf(shape, z)
      for (let i = 0; i < rows.length; i++) {
        const j = rows[i]!
        let squared = 0
        for (let c = 0, at = j * p; c < p; c++, at++) {
          const apart = positions[at]! - position[c]!
          squared += apart * apart
        }
        let linear = 0
        for (let c = 0, at = j * q; c < q; c++, at++) linear += trends[at]! * values[c]!
        out[i] = amplitude * amplitudes[j]! * matern52(squared) + linear
      }
    },
    variance: (z) => h.signalVariance * amplitudeOf(shape, z) ** 2 + trend(z, z),
    between: (Y, Z) =>
      Float64Array.from({ length: Y.rows }, (_, i) => {
        const y = Y.getRow(i)
        const z = Z.getRow(i)
        let squared = 0
        for (let c = 0; c < p; c++) squared += ((y[near[c]!]! - z[near[c]!]!) * inverse[c]!) ** 2
        return h.signalVariance * amplitudeOf(shape, y) * amplitudeOf(shape, z) * matern52(squared) + trend(y, z)
      }),
  }
}
