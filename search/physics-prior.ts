import { backwardSolve, cholesky, forwardSolve } from './linalg.ts'
import type { Configuration, MovedPrior, PriorFactors } from './types.ts'

/** A physics prior moved to where the trials say its inputs are. */
interface CalibratedPhysics extends MovedPrior {
  /** Most probable ln(factor) after the trials (k). */
  readonly logFactors: readonly number[]
}

/** How far physics with the right factors still is from the truth, as a standard deviation of ln(rate). */
const DISCREPANCY = 0.05
const STEPS = 6

/**
 * The maximum a posteriori factors: minimises Σ ((target − logRate(factors)) / noise)² + Σ (ln factor / sd)², by Gauss-Newton steps
 * that are halved while they do not improve (Bayesian calibration of a simulator, Kennedy and O'Hagan 2001, with its discrepancy as noise).
 * @param data configurations and measured ln(rate)
 */
export function calibratePhysics(
  factors: PriorFactors,
  data: readonly { readonly at: Configuration; readonly target: number }[],
): CalibratedPhysics {
  const { sd } = factors
  let logFactors: readonly number[] = sd.map(() => 0)
  let prior = factors.at(logFactors)
  let misfit = misfitOf(prior, logFactors)
  for (let step = 0; step < STEPS; step++) {
    const direction = gaussNewton(prior, logFactors)
    if (!direction) break
    let improved = false
    for (let length = 1; length > 0.1 && !improved; length /= 2) {
      const moved = logFactors.map((v, i) => v + length * direction[i]!)
      const next = factors.at(moved)
      const value = misfitOf(next, moved)
      if (value >= misfit) continue
      improved = misfit - value > 1e-3
      logFactors = moved
      prior = next
      misfit = value
    }
    if (!improved) break
  }
  return { ...prior, logFactors }

  function misfitOf(at: MovedPrior, moved: readonly number[]): number {
    const fit = data.reduce((sum, d) => {
      const logRate = at.logRate(d.at)
      return logRate === undefined ? sum : sum + robust((d.target - logRate) / DISCREPANCY)
    }, 0)
    return fit + moved.reduce((sum, v, i) => sum + (v / sd[i]!) ** 2, 0)
  }

  function gaussNewton(at: MovedPrior, from: readonly number[]): Float64Array | undefined {
    const k = sd.length
    const normal = new Float64Array(k * k)
    const gradient = new Float64Array(k)
    for (let i = 0; i < k; i++) {
      normal[i * k + i] = 1 / sd[i]! ** 2
      gradient[i] = -from[i]! / sd[i]! ** 2
    }
    for (const d of data) {
      const logRate = at.logRate(d.at)
      if (logRate === undefined) continue
      const residual = d.target - logRate
      const weight = 1 / DISCREPANCY ** 2 / Math.sqrt(1 + (residual / DISCREPANCY / OUTLIER) ** 2)
      const s = at.sensitivities(d.at)
      for (let i = 0; i < k; i++) {
        gradient[i]! += weight * s[i]! * residual
        for (let j = 0; j < k; j++) normal[i * k + j]! += weight * s[i]! * s[j]!
      }
    }
    const l = cholesky(normal, k)
    return l && backwardSolve(l, k, forwardSolve(l, k, gradient))
  }
}

/** Residuals beyond this many standard deviations pull ever less. */
const OUTLIER = 3
const robust = (z: number) => 2 * OUTLIER ** 2 * (Math.sqrt(1 + (z / OUTLIER) ** 2) - 1)
