import { CholeskyDecomposition, inverse, Matrix } from 'ml-matrix'
import { expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import {
  backwardSolve,
  cholesky,
  dot,
  forwardSolve,
  forwardSolveFour,
  invertFromFactor,
} from './linalg.ts'

const rng = createRng(3)
const n = 7
const root = new Matrix(
  Array.from({ length: n }, () => Array.from({ length: n }, () => rng.normal())),
)
const a = root.mmul(root.transpose()).add(Matrix.eye(n))
const flat = Float64Array.from(a.to1DArray())
const close = (x: ArrayLike<number>, y: ArrayLike<number>) =>
  expect(Array.from(x, (v, i) => Math.abs(v - y[i]!)).every((gap) => gap < 1e-9)).toBe(true)

test('a dot product covers the given stretches, whatever their length', () => {
  const [x, y] = [1, 2].map(() => Float64Array.from({ length: 40 }, () => rng.normal())) as [
    Float64Array,
    Float64Array,
  ]
  for (const n of [0, 1, 3, 4, 5, 8, 23]) {
    const expected = Array.from({ length: n }, (_, k) => x[3 + k]! * y[11 + k]!).reduce(
      (sum, v) => sum + v,
      0,
    )
    expect(dot(x, 3, y, 11, n)).toBeCloseTo(expected, 12)
  }
})

test('factor, solves and inverse agree with ml-matrix', () => {
  const l = cholesky(flat, n)!
  const decomposition = new CholeskyDecomposition(a)
  close(l, decomposition.lowerTriangularMatrix.to1DArray())
  const b = Float64Array.from({ length: n }, () => rng.normal())
  close(
    backwardSolve(l, n, forwardSolve(l, n, b)),
    decomposition.solve(Matrix.columnVector(b)).to1DArray(),
  )
  const expected = inverse(a)
  const found = invertFromFactor(l, n)
  for (let i = 0; i < n; i++)
    for (let j = 0; j <= i; j++) expect(found[i * n + j]).toBeCloseTo(expected.get(i, j), 9)
})

test('four right-hand sides are solved in place like one, and only four', () => {
  const l = cholesky(flat, n)!
  const sides = Array.from({ length: 4 }, () =>
    Float64Array.from({ length: n }, () => rng.normal()),
  )
  const alone = sides.map((b) => forwardSolve(l, n, b))
  forwardSolveFour(l, n, sides)
  for (const [i, x] of sides.entries()) close(x, alone[i]!)
  for (const count of [0, 1, 2, 3])
    expect(() => forwardSolveFour(l, n, sides.slice(0, count))).toThrow(/four right-hand sides/)
})

test('the factor and the filled part of the inverse are lower triangles', () => {
  const l = cholesky(flat, n)!
  for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) expect(l[i * n + j]).toBe(0)
})

test('a matrix that is not positive definite has no factor', () => {
  expect(cholesky(Float64Array.of(1, 2, 2, 1), 2)).toBeUndefined()
  // Singular: the second row adds nothing to the first.
  expect(cholesky(Float64Array.of(4, 2, 2, 1), 2)).toBeUndefined()
  expect(cholesky(Float64Array.of(0), 1)).toBeUndefined()
  expect(cholesky(Float64Array.of(Number.NaN), 1)).toBeUndefined()
  expect(cholesky(Float64Array.of(Infinity), 1)).toBeUndefined()
  expect(cholesky(Float64Array.of(4), 1)).toEqual(Float64Array.of(2))
})
