/**
 * Dense linear algebra for the inner loops of Gaussian processes. Square matrices are row-major
 * Float64Arrays; triangular ones use the lower triangle.
 */

/**
 * Computes Σ a[i + k] b[j + k] over k < n, in four partial sums, so that additions need not wait
 * for one another.
 */
export function dot(a: Float64Array, i: number, b: Float64Array, j: number, n: number): number {
  let s0 = 0
  let s1 = 0
  let s2 = 0
  let s3 = 0
  let k = 0
  for (; k + 3 < n; k += 4) {
    s0 += a[i + k]! * b[j + k]!
    s1 += a[i + k + 1]! * b[j + k + 1]!
    s2 += a[i + k + 2]! * b[j + k + 2]!
    s3 += a[i + k + 3]! * b[j + k + 3]!
  }
  for (; k < n; k++) s0 += a[i + k]! * b[j + k]!
  return s0 + s1 + (s2 + s3)
}

/**
 * Computes the Cholesky factor L of a symmetric positive definite n×n matrix, A = L Lᵀ. Reads and
 * returns lower triangles, with zeros above. Undefined where A is not positive definite.
 */
export function cholesky(a: Float64Array, n: number): Float64Array | undefined {
  const l = new Float64Array(n * n)
  for (let i = 0; i < n; i++) {
    const row = i * n
    for (let j = 0; j <= i; j++) {
      const other = j * n
      const sum = a[row + j]! - dot(l, row, l, other, j)
      if (i !== j) l[row + j] = sum / l[other + j]!
      else if (sum > 0 && Number.isFinite(sum)) l[row + i] = Math.sqrt(sum)
      else return undefined
    }
  }
  return l
}

/** Solves L x = b for lower-triangular L (n×n). */
export function forwardSolve(l: Float64Array, n: number, b: Float64Array): Float64Array {
  const x = new Float64Array(n)
  for (let i = 0; i < n; i++) {
    x[i] = (b[i]! - dot(l, i * n, x, 0, i)) / l[i * n + i]!
  }
  return x
}

/**
 * Solves L x = b in place for four right-hand sides, in one pass over L.
 * @throws RangeError for fewer right-hand sides
 */
export function forwardSolveFour(
  l: Float64Array,
  n: number,
  [a, b, c, d]: readonly Float64Array[],
): void {
  if (!a || !b || !c || !d) throw new RangeError('forwardSolveFour needs four right-hand sides')
  for (let i = 0; i < n; i++) {
    const row = i * n
    let sa = a[i]!
    let sb = b[i]!
    let sc = c[i]!
    let sd = d[i]!
    for (let k = 0; k < i; k++) {
      const v = l[row + k]!
      sa -= v * a[k]!
      sb -= v * b[k]!
      sc -= v * c[k]!
      sd -= v * d[k]!
    }
    const pivot = 1 / l[row + i]!
    a[i] = sa * pivot
    b[i] = sb * pivot
    c[i] = sc * pivot
    d[i] = sd * pivot
  }
}

/** Solves Lᵀ x = b for lower-triangular L (n×n). */
export function backwardSolve(l: Float64Array, n: number, b: Float64Array): Float64Array {
  const x = Float64Array.from(b)
  for (let i = n - 1; i >= 0; i--) {
    const xi = x[i]! / l[i * n + i]!
    x[i] = xi
    for (let k = 0; k < i; k++) x[k] = x[k]! - l[i * n + k]! * xi
  }
  return x
}

/** Computes L⁻¹ of a lower-triangular L (n×n). */
function invertLower(l: Float64Array, n: number): Float64Array {
  const inverse = new Float64Array(n * n)
  for (let i = 0; i < n; i++) {
    const row = i * n
    const pivot = 1 / l[row + i]!
    for (let k = 0; k < i; k++) {
      const lik = l[row + k]! * pivot
      const other = k * n
      for (let j = 0; j <= k; j++) inverse[row + j] = inverse[row + j]! - lik * inverse[other + j]!
    }
    inverse[row + i] = pivot
  }
  return inverse
}

/** Computes A⁻¹ = L⁻ᵀ L⁻¹ from the Cholesky factor L; fills the lower triangle. */
export function invertFromFactor(l: Float64Array, n: number): Float64Array {
  const inverse = invertLower(l, n)
  const a = new Float64Array(n * n)
  for (let k = 0; k < n; k++) {
    const row = k * n
    for (let i = 0; i <= k; i++) {
      const lki = inverse[row + i]!
      const out = i * n
      for (let j = 0; j <= i; j++) a[out + j] = a[out + j]! + lki * inverse[row + j]!
    }
  }
  return a
}
