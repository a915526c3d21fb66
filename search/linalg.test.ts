import { CholeskyDecomposition, inverse, Matrix } from 'ml-matrix'
import { expect, test } from 'vitest'
import { backwardSolve, cholesky, forwardSolve, inverseFromFactor } from './linalg.ts'
import { createRng } from './rng.ts'

const rng = createRng(3)
const n = 7
const root = new Matrix(Array.from({ length: n }, () => Array.from({ length: n }, () => rng.normal())))
const a = root.mmul(root.transpose()).add(Matrix.eye(n))
const flat = Float64Array.from(a.to1DArray())
const close = (x: ArrayLike<number>, y: ArrayLike<number>) =>
  expect(Array.from(x, (v, i) => Math.abs(v - y[i]!)).every((gap) => gap < 1e-9)).toBe(true)

test('factor, solves and inverse agree with ml-matrix', () => {
  const l = cholesky(flat, n)!
  const decomposition = new CholeskyDecomposition(a)
  close(l, decomposition.lowerTriangularMatrix.to1DArray())
  const b = Float64Array.from({ length: n }, () => rng.normal())
  close(backwardSolve(l, n, forwardSolve(l, n, b)), decomposition.solve(Matrix.columnVector(b)).to1DArray())
  const expected = inverse(a)
  const found = inverseFromFactor(l, n)
  for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++) expect(found[i * n + j]).toBeCloseTo(expected.get(i, j), 9)
})

test('an indefinite matrix has no factor', () => expect(cholesky(Float64Array.of(1, 2, 2, 1), 2)).toBeUndefined())
