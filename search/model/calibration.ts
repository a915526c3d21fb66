import { backwardSolve, cholesky, forwardSolve } from '../gp/linalg.ts'
import type { Datum } from '../gp/training-points.ts'
import type { Configuration, MovedPrior, PriorFactors } from '../types.ts'
import type { Rise } from './saturating-predictive.ts'
import { asLeftOpen, type Calibration } from './weakly-identified.ts'

/** A physics prior moved to where the trials say its inputs are. */
interface CalibratedPhysics extends MovedPrior {
  /**
   * ln(factor) that it is moved by (k): the most probable after the trials, or the mean of what the
   * trials leave open.
   */
  readonly logFactors: readonly number[]
  /**
   * What is believed of ln(factor) beside those, before the trials are read by how the prior moves
   * there (k).
   */
  readonly offsets: readonly (readonly [mean: number, sd: number])[]
  /**
   * Along the likeliest way, by the factors' own deviations (the most probable point of first-order
   * reliability: Hasofer and Lind, J. Eng. Mech. 100, 1974).
   */
  readonly rise: Rise
}

/** Noise unknown: only physics is off. */
type Reading = Pick<Datum, 'at' | 'target'> & Partial<Datum>

/**
 * How far physics with the right factors still is from the truth, as a standard deviation of
 * ln(rate).
 */
const DISCREPANCY = 0.05
const STEPS = 6

/**
 * The maximum a posteriori factors: minimises Σ ((target − logRate(factors)) / noise)² + Σ (ln
 * factor / sd)², by Gauss-Newton steps that are halved while they do not improve (Bayesian
 * calibration of a simulator, Kennedy and O'Hagan 2001, with its discrepancy as noise). Where a
 * bottleneck hides another, a factor moves nothing until it is the bottleneck: steps begin from
 * none moved, and from the likeliest with one factor moved by its deviation. What the trials leave
 * open of them is moved on (left-open.ts).
 * @param data configurations and measured ln(rate); one that is only bounded says nothing while its
 * bound is kept
 */
export function calibratePhysics(
  factors: PriorFactors,
  data: readonly Reading[],
): CalibratedPhysics {
  const { sd } = factors
  const unmoved = startAt(sd.map(() => 0))
  const alone = sd.flatMap((_, i) =>
    [-1, 1].map((sign) => startAt(sd.map((v, j) => (j === i ? sign * v : 0)))),
  )
  const likeliest = alone.reduce(
    (best, start) => (start.misfit < best.misfit ? start : best),
    unmoved,
  )
  const found = descend(unmoved)
  const other = likeliest === unmoved ? found : descend(likeliest)
  const { prior, logFactors, offsets } = asLeftOpen(
    other.misfit < found.misfit ? other : found,
    sd,
    startAt,
    (of, factor) => informationOf(data, of, factor),
  )
  const sds = offsets.map(([, each]) => each)
  return { ...prior, logFactors, offsets, rise }

  function rise(configuration: Configuration): (by: number) => number {
    const begins = prior.sensitivities(configuration)
    const here = prior.logRate(configuration)
    const deviation = deviationAlong(begins)
    if (deviation === 0 || here === undefined) return (by) => by
    return (by) => {
      const luckier = (s: readonly number[]) =>
        factors.at(
          logFactors.map(
            (v, i) => v + ((by / deviation) * s[i]! * sds[i]! ** 2) / deviationAlong(s),
          ),
        )
      const first = luckier(begins)
      // As much luck, shared with what bounds it there.
      const both = first.sensitivities(configuration).map((v, i) => v + begins[i]!)
      const shared = deviationAlong(both) === 0 ? first : luckier(both)
      return Math.max(first.logRate(configuration)!, shared.logRate(configuration)!) - here
    }
  }

  function deviationAlong(sensitivities: readonly number[]): number {
    return Math.hypot(...sensitivities.map((v, i) => v * sds[i]!))
  }

  function startAt(logFactors: readonly number[]): Calibration {
    const prior = factors.at(logFactors)
    return { logFactors, prior, misfit: misfitOf(prior, logFactors) }
  }

  function descend(start: Calibration): Calibration {
    let at = start
    for (let step = 0; step < STEPS; step++) {
      const direction = gaussNewton(at.prior, at.logFactors)
      if (!direction) break
      const before = at.misfit
      for (let length = 1; length > 0.1 && at.misfit === before; length /= 2) {
        const moved = startAt(at.logFactors.map((v, i) => v + length * direction[i]!))
        if (moved.misfit < before) at = moved
      }
      if (before - at.misfit <= 1e-3) break
    }
    return at
  }

  function misfitOf(at: MovedPrior, moved: readonly number[]): number {
    const fit = data.reduce((sum, d) => {
      const logRate = at.logRate(d.at)
      return logRate === undefined ? sum : sum + robust(residualOf(d, logRate) / deviationOf(d))
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
      const residual = residualOf(d, logRate)
      if (residual === 0 && d.bound !== undefined) continue
      const deviation = deviationOf(d)
      const weight = 1 / deviation ** 2 / Math.sqrt(1 + (residual / deviation / OUTLIER) ** 2)
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

/** Of what was measured from what is expected, in ln(rate). */
function residualOf({ target, bound }: Reading, logRate: number): number {
  const residual = target - logRate
  if (bound === undefined) return residual
  return bound === 'most' ? Math.min(0, residual) : Math.max(0, residual)
}

/** Of data about ln(factor), by how the prior moves: one over a variance. */
function informationOf(data: readonly Reading[], prior: MovedPrior, factor: number): number {
  return data.reduce((sum, d) => {
    const logRate = prior.logRate(d.at)
    const silent = logRate === undefined || (d.bound !== undefined && residualOf(d, logRate) === 0)
    return silent ? sum : sum + (prior.sensitivities(d.at)[factor]! / deviationOf(d)) ** 2
  }, 0)
}

const deviationOf = ({ noise = 0 }: Reading): number =>
  Math.sqrt(DISCREPANCY ** 2 + (Number.isNaN(noise) ? 0 : noise))

/** Residuals beyond this many standard deviations pull ever less. */
const OUTLIER = 3
const robust = (z: number) => 2 * OUTLIER ** 2 * (Math.sqrt(1 + (z / OUTLIER) ** 2) - 1)
