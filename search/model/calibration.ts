/**
 * Bayesian calibration of a device-model prior (Kennedy and O'Hagan, 'Bayesian calibration of
 * computer models', 2001).
 *
 *   symbol   meaning                                                    shape
 *   k        factors: uncertain inputs of the device model
 *   n        training points, y = measured ln(rate)
 *   f        ln(factor), prior N(0, sd²)                                k
 *   g(f)     the device model's ln(rate) at the training points         n
 *   δ        model discrepancy, standard deviation of ln(rate)
 *   J        sensitivities ∂g/∂f                                        n×k
 *
 * 1. Maximum a posteriori factors: minimise Σ ρ((y − g(f)) / √(δ² + noise)) + Σ (f / sd)², where ρ
 *    is the pseudo-Huber loss, by damped Gauss-Newton steps.
 * 2. Weakly identified factors. While one bottleneck binds, trials only bound the factor of
 *    another. Its most probable value may then be the point where its bottleneck begins to bind,
 *    and J at that point would make it seem exactly known. Such a factor moves to its marginal
 *    posterior mean and gets its marginal standard deviation, the other factors fixed.
 * 3. Saturation. The linearised model overstates increases of the rate, because another bottleneck
 *    binds. The curve follows the direction of the most probable point of first-order reliability
 *    (Hasofer and Lind, J. Eng. Mech. 100, 1974), and evaluates the device model along it.
 */
import { backwardSolve, cholesky, forwardSolve } from '../gp/linalg.ts'
import type { TrainingPoint } from '../gp/training-points.ts'
import type { Configuration, PriorFactors, ShiftedPrior } from '../types.ts'
import type { SaturationCurve } from './saturating-predictive.ts'

/** A device-model prior at calibrated factors. */
interface CalibratedPrior extends ShiftedPrior {
  /** Calibrated f: most probable, or the marginal mean of a weakly identified factor, k. */
  readonly logFactors: readonly number[]
  /**
   * Prior of f − `logFactors` for the linear trend, k. For a weakly identified factor it is the
   * marginal posterior instead, because the data are already in it.
   */
  readonly factorErrorPriors: readonly (readonly [mean: number, sd: number])[]
  readonly saturation: SaturationCurve
}

/** A training point; without `noise` the discrepancy is the only error. */
type CalibrationPoint = Pick<TrainingPoint, 'configuration' | 'target'> & Partial<TrainingPoint>

/** The prior at factors f, with the objective of step 1: −2 ln posterior, up to a constant. */
interface FactorFit {
  readonly logFactors: readonly number[]
  readonly prior: ShiftedPrior
  readonly misfit: number
}

interface WeaklyIdentifiedFactor {
  readonly factor: number
  /** Marginal posterior standard deviation. */
  readonly sd: number
  /** Distance of the marginal mean from the mode, in prior standard deviations. */
  readonly distance: number
  /** The fit with the factor at its marginal mean. */
  readonly atMean: FactorFit
}

/**
 * δ: error of the device model with the right factors, as a standard deviation of ln(rate).
 * Assumed.
 */
const discrepancySd = 0.05
/** Assumed: few factors and a good start need few steps. */
const maxGaussNewtonSteps = 6
/** Shortest step, as a share of the Gauss-Newton step, after halvings. Assumed. */
const minStepLength = 0.1
/**
 * Decrease of the misfit below which the steps have converged: of no consequence for ln posterior.
 */
const convergedDecrease = 1e-3
/**
 * Standardised residual at which the pseudo-Huber loss turns from quadratic to linear: three
 * standard deviations are rare without an outlier. Assumed.
 */
const huberThreshold = 3
/**
 * The marginal posterior is summed on a grid of this many points per prior standard deviation.
 * Assumed.
 */
const gridPointsPerSd = 3
/** Grid points on either side of the mode: three prior standard deviations. */
const gridHalfWidth = 3 * gridPointsPerSd
/**
 * A factor is weakly identified if its sd exceeds this multiple of what the sensitivities give.
 * Assumed.
 */
const minWeakSdRatio = 1.5
/**
 * At the marginal mean the sensitivities may carry at most this multiple of the marginal
 * information; with more they already describe the factor. Assumed.
 */
const maxInformationAtMean = 4

/**
 * Calibrates the factors of the device-model prior. Gauss-Newton starts from f = 0, and from the
 * best point with one factor moved by a standard deviation: behind a bottleneck a factor has no
 * gradient.
 * @param points measured ln(rate); a bound that the prediction satisfies has no residual
 */
export function calibrateFactors(
  factors: PriorFactors,
  points: readonly CalibrationPoint[],
): CalibratedPrior {
  const { sd: priorSds } = factors
  const fitAtZero = fitAt(priorSds.map(() => 0))
  const fitsWithOneMoved = priorSds.flatMap((_, i) =>
    [-1, 1].map((sign) => fitAt(priorSds.map((sd, j) => (j === i ? sign * sd : 0)))),
  )
  const start = fitsWithOneMoved.reduce(
    (best, fit) => (fit.misfit < best.misfit ? fit : best),
    fitAtZero,
  )
  const fromZero = descend(fitAtZero)
  const fromBest = start === fitAtZero ? fromZero : descend(start)
  const mode = fromBest.misfit < fromZero.misfit ? fromBest : fromZero
  const { prior, logFactors, factorErrorPriors } = averageWeaklyIdentified(mode)
  const calibratedSds = factorErrorPriors.map(([, sd]) => sd)
  return { ...prior, logFactors, factorErrorPriors, saturation: createSaturationCurve }

  function fitAt(shift: readonly number[]): FactorFit {
    const shiftedPrior = factors.applyFactors(shift)
    return { logFactors: shift, prior: shiftedPrior, misfit: computeMisfit(shiftedPrior, shift) }
  }

  function computeMisfit(shiftedPrior: ShiftedPrior, shift: readonly number[]): number {
    const loss = points.reduce((sum, point) => {
      const logRate = shiftedPrior.predictLogRate(point.configuration)
      return logRate === undefined
        ? sum
        : sum + computePseudoHuber(computeResidual(point, logRate) / computeErrorSd(point))
    }, 0)
    return loss + shift.reduce((sum, v, i) => sum + (v / priorSds[i]!) ** 2, 0)
  }

  /** Takes Gauss-Newton steps, each halved until the misfit decreases. */
  function descend(from: FactorFit): FactorFit {
    let fit = from
    for (let step = 0; step < maxGaussNewtonSteps; step++) {
      const direction = computeGaussNewtonStep(points, priorSds, fit)
      if (!direction) break
      const misfitBefore = fit.misfit
      for (let length = 1; length > minStepLength && fit.misfit === misfitBefore; length /= 2) {
        const next = fitAt(fit.logFactors.map((v, i) => v + length * direction[i]!))
        if (next.misfit < misfitBefore) fit = next
      }
      if (misfitBefore - fit.misfit <= convergedDecrease) break
    }
    return fit
  }

  /** Step 2: moves weakly identified factors to their marginal means, the furthest first. */
  function averageWeaklyIdentified(
    mode: FactorFit,
  ): FactorFit & Pick<CalibratedPrior, 'factorErrorPriors'> {
    const factorErrorPriors = mode.logFactors.map((v, i): readonly [number, number] => [
      -v,
      priorSds[i]!,
    ])
    const remaining = new Set(priorSds.keys())
    let fit = mode
    for (;;) {
      const furthest = [...remaining]
        .flatMap((factor) => findWeaklyIdentified(fit, factor) ?? [])
        .sort((a, b) => b.distance - a.distance)[0]
      if (furthest === undefined) return { ...fit, factorErrorPriors }
      remaining.delete(furthest.factor)
      factorErrorPriors[furthest.factor] = [0, furthest.sd]
      fit = furthest.atMean
    }
  }

  /**
   * Computes the marginal posterior of a factor, summed on a grid with the other factors fixed.
   * Undefined where the sensitivities describe it as well, or where the data carry less than the
   * prior.
   */
  function findWeaklyIdentified(
    fit: FactorFit,
    factor: number,
  ): WeaklyIdentifiedFactor | undefined {
    const priorSd = priorSds[factor]!
    const information = computeInformation(points, fit.prior, factor)
    if (information * priorSd ** 2 < 1) return undefined
    const shiftBy = (shift: number) =>
      fitAt(fit.logFactors.map((v, i) => (i === factor ? v + shift : v)))
    const grid = Array.from({ length: 2 * gridHalfWidth + 1 }, (_, j) => {
      const shift = ((j - gridHalfWidth) * priorSd) / gridPointsPerSd
      return { shift, weight: Math.exp(0.5 * (fit.misfit - shiftBy(shift).misfit)) }
    })
    const total = grid.reduce((sum, { weight }) => sum + weight, 0)
    const mean = grid.reduce((sum, { shift, weight }) => sum + weight * shift, 0) / total
    const variance =
      grid.reduce((sum, { shift, weight }) => sum + weight * (shift - mean) ** 2, 0) / total
    const atMean = shiftBy(mean)
    if (
      variance * information < minWeakSdRatio ** 2 ||
      variance * computeInformation(points, atMean.prior, factor) > maxInformationAtMean
    )
      return undefined
    return { factor, sd: Math.sqrt(variance), distance: Math.abs(mean) / priorSd, atMean }
  }

  /**
   * Step 3: moves the factors along two directions, and takes the larger increase. One is the
   * gradient at the calibrated factors. The other is its sum with the gradient at the first end
   * point, which includes the bottleneck that binds there.
   */
  function createSaturationCurve(configuration: Configuration): (linear: number) => number {
    const gradient = prior.computeSensitivities(configuration)
    const calibratedLogRate = prior.predictLogRate(configuration)
    const linearSd = computeSdAlong(gradient)
    if (linearSd === 0 || calibratedLogRate === undefined) return (linear) => linear
    return (linear) => {
      const zScore = linear / linearSd
      /** Computes the prior at the point of `zScore` standard deviations along a direction. */
      const moveAlong = (direction: readonly number[]) =>
        factors.applyFactors(
          logFactors.map(
            (v, i) =>
              v + (zScore * direction[i]! * calibratedSds[i]! ** 2) / computeSdAlong(direction),
          ),
        )
      const alongGradient = moveAlong(gradient)
      const summedGradient = alongGradient
        .computeSensitivities(configuration)
        .map((v, i) => v + gradient[i]!)
      const alongSummedGradient =
        computeSdAlong(summedGradient) === 0 ? alongGradient : moveAlong(summedGradient)
      return (
        Math.max(
          alongGradient.predictLogRate(configuration)!,
          alongSummedGradient.predictLogRate(configuration)!,
        ) - calibratedLogRate
      )
    }
  }

  /** Computes the standard deviation of the linearised ln(rate) with the given sensitivities. */
  function computeSdAlong(sensitivities: readonly number[]): number {
    return Math.hypot(...sensitivities.map((v, i) => v * calibratedSds[i]!))
  }
}

/**
 * Computes (Jᵀ W J + diag(sd⁻²))⁻¹ (Jᵀ W r − f / sd²), with the weights W of the pseudo-Huber loss.
 */
function computeGaussNewtonStep(
  points: readonly CalibrationPoint[],
  priorSds: readonly number[],
  { prior, logFactors }: FactorFit,
): Float64Array | undefined {
  const k = priorSds.length
  const normalMatrix = new Float64Array(k * k)
  const gradient = new Float64Array(k)
  for (let i = 0; i < k; i++) {
    normalMatrix[i * k + i] = 1 / priorSds[i]! ** 2
    gradient[i] = -logFactors[i]! / priorSds[i]! ** 2
  }
  for (const point of points) {
    const logRate = prior.predictLogRate(point.configuration)
    if (logRate === undefined) continue
    const residual = computeResidual(point, logRate)
    if (residual === 0 && point.bound !== undefined) continue
    const errorSd = computeErrorSd(point)
    const weight = 1 / errorSd ** 2 / Math.sqrt(1 + (residual / errorSd / huberThreshold) ** 2)
    const sensitivities = prior.computeSensitivities(point.configuration)
    for (let i = 0; i < k; i++) {
      gradient[i]! += weight * sensitivities[i]! * residual
      for (let j = 0; j < k; j++)
        normalMatrix[i * k + j]! += weight * sensitivities[i]! * sensitivities[j]!
    }
  }
  const factor = cholesky(normalMatrix, k)
  return factor && backwardSolve(factor, k, forwardSolve(factor, k, gradient))
}

/** Computes measured minus predicted ln(rate); 0 for a bound that the prediction satisfies. */
function computeResidual({ target, bound }: CalibrationPoint, logRate: number): number {
  const residual = target - logRate
  if (bound === undefined) return residual
  return bound === 'upper' ? Math.min(0, residual) : Math.max(0, residual)
}

/**
 * Computes the Fisher information of the points about one factor, from the sensitivities (1 /
 * variance).
 */
function computeInformation(
  points: readonly CalibrationPoint[],
  prior: ShiftedPrior,
  factor: number,
): number {
  return points.reduce((sum, point) => {
    const logRate = prior.predictLogRate(point.configuration)
    const isUninformative =
      logRate === undefined || (point.bound !== undefined && computeResidual(point, logRate) === 0)
    return isUninformative
      ? sum
      : sum +
          (prior.computeSensitivities(point.configuration)[factor]! / computeErrorSd(point)) ** 2
  }, 0)
}

const computeErrorSd = ({ noise = 0 }: CalibrationPoint): number =>
  Math.sqrt(discrepancySd ** 2 + (Number.isNaN(noise) ? 0 : noise))

/** Computes twice the pseudo-Huber loss of a standardised residual: z² for small z. */
const computePseudoHuber = (z: number) =>
  2 * huberThreshold ** 2 * (Math.sqrt(1 + (z / huberThreshold) ** 2) - 1)
