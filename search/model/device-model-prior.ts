/**
 * Informative priors of ln rate and of the constraint, ln(metric / limit), from an analytical
 * device model. Each prior adds columns to the linear trend of the Gaussian process.
 */
import type { TrainingPoint } from '../gp/training-points.ts'
import { memoise } from '../memoise.ts'
import { sampleRepresentatives } from '../space/candidates.ts'
import type { Configuration, Problem } from '../types.ts'
import { calibrateFactors } from './calibration.ts'
import { toConstraintTarget } from './constraint.ts'
import type { InformativePrior } from './informative-prior.ts'

/** Prior standard deviation of the device model's scale. Assumed. */
const scaleSd = 0.05
/** Settings of both priors (informative-prior.ts). Assumed. */
const deviceModelPriorSettings = {
  /** Accepted unless the data are e² times as probable without it. */
  minLogBayesFactor: -2,
  /** Prior sd of the offset, in ln: 10 %. */
  offsetSd: 0.1,
  /** Factor on the prior sd of the GP's own trend slopes, which only correct this prior. */
  trendScale: 0.1,
  /**
   * Prior of the residual variance, LogNormal(mu, sigma). Its median 0.003 is a standard deviation
   * of about 5 %.
   */
  signalVariance: [Math.log(0.003), 1] as const,
}

/** Prior of a slope that is exactly 1: the column enters unscaled. */
const fixedSlope: readonly [mean: number, sd: number] = [1, 0]

/**
 * Creates the device-model prior of ln rate at calibrated factors. Its columns are the calibrated
 * ln rate, its difference from the mean over the space (a scale error), and the derivative of
 * ln rate with respect to the logarithm of each calibration factor (calibration.ts).
 */
export function createRatePrior(
  problem: Problem,
  points: readonly TrainingPoint[],
): InformativePrior | undefined {
  const { priorLogRate, priorFactors } = problem
  if (!priorLogRate) return undefined
  const calibration = priorFactors && calibrateFactors(priorFactors, points)
  const predictLogRate = calibration?.predictLogRate ?? priorLogRate
  const meanLogRate = computeMeanLogRate(problem)
  return {
    slopes: [
      fixedSlope, // Calibrated ln rate.
      [0, scaleSd], // Scale error.
      ...(calibration?.factorErrorPriors ?? []), // Errors of the calibration factors.
    ],
    computeColumns: (configurations) =>
      configurations.map((c) => {
        // Without a prediction: the mean over the space.
        const expectedLogRate = predictLogRate(c) ?? meanLogRate
        return [
          expectedLogRate,
          expectedLogRate - meanLogRate,
          ...(calibration?.computeSensitivities(c) ?? []),
        ]
      }),
    // The next bottleneck limits gains: known only from calibrated factors.
    saturation: calibration?.saturation,
    ...deviceModelPriorSettings,
  }
}

/**
 * Computes the mean prior ln rate over the space. A scale error stretches the deviations from this
 * mean, so it does not move the mean itself. 0 where the device model applies to no configuration.
 */
const computeMeanLogRate = memoise((problem: Problem): number => {
  const expectedLogRates = sampleRepresentatives(problem.space).flatMap(
    (c) => problem.priorLogRate?.(c) ?? [],
  )
  return (
    expectedLogRates.reduce((sum, value) => sum + value, 0) / Math.max(1, expectedLogRates.length)
  )
})

/** Creates the device-model prior of the constraint, as one column with a learned scale. */
export function createConstraintPrior(problem: Problem): InformativePrior | undefined {
  const { priorLogConstraint } = problem
  if (!priorLogConstraint) return undefined
  const predictLogConstraint = (c: Configuration) => {
    const logValue = priorLogConstraint(c)
    // Without a prediction: 0, which is the limit itself where there is one.
    return logValue === undefined ? 0 : toConstraintTarget(problem, logValue)
  }
  return {
    slopes: [[1, scaleSd]], // Learned scale, about 1.
    computeColumns: (configurations) => configurations.map((c) => [predictLogConstraint(c)]),
    ...deviceModelPriorSettings,
  }
}
