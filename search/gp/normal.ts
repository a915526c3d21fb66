/**
 * The normal distribution: log density, log cdf and log expected improvement, accurate far into the
 * tail.
 */

/** z of a two-sided 90 % interval. */
export const z90 = 1.645

const logSqrt2Pi = 0.5 * Math.log(2 * Math.PI)

// Chebyshev coefficients of ln(erfcx(z) (1 + z/2)) in 2/(2 + z) (Numerical Recipes, 3rd ed.,
// §6.2.2); relative error near 1e-15.
const erfcxCoefficients = [
  -1.3026537197817094, 0.6419697923564902, 1.9476473204185836e-2, -9.561514786808631e-3,
  -9.46595344482036e-4, 3.66839497852761e-4, 4.2523324806907e-5, -2.0278578112534e-5,
  -1.624290004647e-6, 1.30365583558e-6, 1.5626441722e-8, -8.5238095915e-8, 6.529054439e-9,
  5.059343495e-9, -9.91364156e-10, -2.27365122e-10, 9.6467911e-11, 2.394038e-12, -6.886027e-12,
  8.94487e-13, 3.13092e-13, -1.12708e-13, 3.81e-16, 7.106e-15, -1.523e-15, -9.4e-17, 1.21e-16,
  -2.8e-17,
]

/** exp(z²) erfc(z) for z ≥ 0. */
function erfcx(z: number): number {
  const t = 2 / (2 + z)
  const twice = 4 * t - 2
  let d = 0
  let previous = 0
  for (let j = erfcxCoefficients.length - 1; j > 0; j--) {
    const last = d
    d = twice * d - previous + erfcxCoefficients[j]!
    previous = last
  }
  return t * Math.exp(0.5 * (erfcxCoefficients[0]! + twice * d) - previous)
}

/** ln φ(z). */
export const logPdf = (z: number): number => -0.5 * z * z - logSqrt2Pi

/** ln Φ(z), accurate for z down to -1e150. */
export function logCdf(z: number): number {
  if (z < 0) return Math.log(0.5 * erfcx(-z * Math.SQRT1_2)) - 0.5 * z * z
  return Math.log1p(-0.5 * erfcx(z * Math.SQRT1_2) * Math.exp(-0.5 * z * z))
}

/** Φ(z). */
export const cdf = (z: number): number => Math.exp(logCdf(z))

/**
 * ln h(u), h(u) = φ(u) + u Φ(u): the log expected improvement of a standard normal over -u (Ament
 * et al., 'Unexpected improvements to expected improvement', NeurIPS 2023, eq. 9). Below -1000 from
 * the asymptotic series h = φ(u)/u² (1 - 3/u² + 15/u⁴ - ...).
 */
export function logH(u: number): number {
  if (u > -1) return Math.log(Math.exp(logPdf(u)) + u * cdf(u))
  const inverse = 1 / (u * u)
  if (u < -1000) return logPdf(u) + Math.log(inverse) + Math.log1p(inverse * (15 * inverse - 3))
  return logPdf(u) + Math.log1p(u * Math.sqrt(Math.PI / 2) * erfcx(-u * Math.SQRT1_2))
}

/** ln E[max(0, best - Y)] for Y ~ N(mean, sd²). With sd 0: ln of the improvement itself. */
export const logExpectedImprovement = (mean: number, sd: number, best: number): number =>
  sd > 0 ? logH((best - mean) / sd) + Math.log(sd) : Math.log(Math.max(0, best - mean))

/** ln density of LogNormal(mu, sigma) at x > 0. */
export const logNormalLogPdf = (x: number, mu: number, sigma: number): number => {
  const z = (Math.log(x) - mu) / sigma
  return logPdf(z) - Math.log(sigma * x)
}
