/** Nonlinear least squares by the Levenberg-Marquardt method, with forward differences. */
import type { Matrix as AnyMatrix } from 'ml-matrix'
import { loadMatrix } from '../matrix.ts'

interface LeastSquaresProblem {
  /** Weighted residuals of the data (n), with the robust loss ρ(r²) = 2 (√(1 + r²) − 1). */
  readonly data: (x: readonly number[]) => Float64Array
  /** Prior: every x[j] is normal around `start[j]` with this deviation (d). */
  readonly priorSd: readonly number[]
  readonly start: readonly number[]
  /** Initial value. Default: `start`. */
  readonly from?: readonly number[]
  /** Step of the finite differences. Default 1e-5; use a larger one for discontinuous data. */
  readonly difference?: number
}

/** The x (d) that minimises Σ ρ(data²) + Σ ((x − start) / priorSd)². */
export function solveLeastSquares(
  { data, priorSd, start, from = start, difference = 1e-5 }: LeastSquaresProblem,
  iterations = 40,
): number[] {
  const { solve } = loadMatrix()
  const cost = (x: readonly number[], r: Float64Array) =>
    r.reduce((sum, v) => sum + 2 * (Math.sqrt(1 + v * v) - 1), 0) +
    x.reduce((sum, v, j) => sum + ((v - start[j]!) / priorSd[j]!) ** 2, 0)
  let x = [...from]
  let r = data(x)
  let best = cost(x, r)
  let damping = 1e-2
  for (let iteration = 0; iteration < iterations; iteration++) {
    const { normal, gradient } = linearise(data, x, r, start, priorSd, difference)
    let improved = false
    for (let attempt = 0; attempt < 8 && !improved; attempt++) {
      const damped = normal.clone()
      for (let j = 0; j < x.length; j++) damped.set(j, j, normal.get(j, j) * (1 + damping))
      const step = solve(damped, gradient)
      const next = x.map((v, j) => v - Math.max(-1, Math.min(1, step.get(j, 0))))
      const nextR = data(next)
      const nextCost = cost(next, nextR)
      if (nextCost < best) {
        improved = true
        const gain = (best - nextCost) / best
        ;[x, r, best] = [next, nextR, nextCost]
        damping = Math.max(damping / 5, 1e-7)
        if (gain < 1e-6) return x
      } else damping *= 4
    }
    if (!improved) return x
  }
  return x
}

function linearise(
  data: LeastSquaresProblem['data'],
  x: readonly number[],
  r: Float64Array,
  start: readonly number[],
  priorSd: readonly number[],
  h: number,
): { normal: AnyMatrix; gradient: AnyMatrix } {
  const { Matrix } = loadMatrix()
  const d = x.length
  const columns = x.map((_, j) => {
    const moved = data(x.map((v, k) => (k === j ? v + h : v)))
    return moved.map((v, i) => (v - r[i]!) / h)
  })
  const weight = r.map((v) => 1 / Math.sqrt(1 + v * v))
  const normal = Matrix.zeros(d, d)
  const gradient = Matrix.zeros(d, 1)
  for (let j = 0; j < d; j++) {
    for (let k = 0; k <= j; k++) {
      let sum = 0
      for (let i = 0; i < r.length; i++) sum += weight[i]! * columns[j]![i]! * columns[k]![i]!
      normal.set(j, k, sum)
      normal.set(k, j, sum)
    }
    let sum = 0
    for (let i = 0; i < r.length; i++) sum += weight[i]! * columns[j]![i]! * r[i]!
    const precision = 1 / priorSd[j]! ** 2
    normal.set(j, j, normal.get(j, j) + precision)
    gradient.set(j, 0, sum + (x[j]! - start[j]!) * precision)
  }
  return { normal, gradient }
}
