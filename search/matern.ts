/**
 * The Matérn-5/2 kernel of unit variance, of the squared scaled distance r² (Rasmussen and
 * Williams, Gaussian Processes for Machine Learning, 2006, eq. 4.17).
 */

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
