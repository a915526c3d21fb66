/** Informative priors of ln rate and of the constraint from a device model. */
import type { TrainingPoint } from '../gp/training-points.ts'
import { memoise } from '../memoise.ts'
import { sampleRepresentatives } from '../space/candidates.ts'
import type { Configuration, Problem } from '../types.ts'
import { calibrateFactors } from './calibration.ts'
import { toConstraintTarget } from './constraint.ts'
import type { InformativePrior } from './informative-prior.ts'

/** Prior standard deviation of the device model's scale. Assumed. */
const scaleSd = 0.05
/**
 * The device model is accepted unless the data are e² times as probable without it. Its offset is
 * known to 10 %, and its residual has a standard deviation of 5 % (variance 0.003, the median).
 * Assumed.
 */
const deviceModel = {
  minLogBayesFactor: -2,
  offsetSd: 0.1,
  trendScale: 0.1,
  signalVariance: [Math.log(0.003), 1] as const,
}

/** A slope of exactly 1: the column enters unscaled. */
const fixedSlope = [1, 0] as const

/**
 * The device-model prior of ln rate at calibrated factors. Its columns are the calibrated ln rate,
 * its difference from the mean over the space (a scale error), and the sensitivities to each
 * factor.
 */
export function createRatePrior(
  problem: Problem,
  points: readonly TrainingPoint[],
): InformativePrior | undefined {
  const { priorLogRate, priorFactors } = problem
  if (!priorLogRate) return undefined
  const calibrated = priorFactors && calibrateFactors(priorFactors, points)
  const logRate = calibrated?.logRate ?? priorLogRate
  const centre = computeMeanLogRate(problem)
  return {
    slopes: [fixedSlope, [0, scaleSd], ...(calibrated?.offsets ?? [])],
    columns: (configurations) =>
      configurations.map((c) => {
        const expected = logRate(c) ?? centre
        return [expected, expected - centre, ...(calibrated?.sensitivities(c) ?? [])]
      }),
    saturation: calibrated?.saturation,
    ...deviceModel,
  }
}

/** Mean prior ln rate over the space: the fixed point of a scale error. */
const computeMeanLogRate = memoise((problem: Problem): number => {
  const expected = sampleRepresentatives(problem.space).flatMap(
    (c) => problem.priorLogRate?.(c) ?? [],
  )
  return expected.reduce((sum, value) => sum + value, 0) / Math.max(1, expected.length)
})

/** The device-model prior of the constraint, as one column with a learned scale. */
export function createConstraintPrior(problem: Problem): InformativePrior | undefined {
  const { priorLogConstraint } = problem
  if (!priorLogConstraint) return undefined
  const predictLogConstraint = (c: Configuration) => {
    const logValue = priorLogConstraint(c)
    return logValue === undefined ? 0 : toConstraintTarget(problem, logValue)
  }
  return {
    slopes: [[1, scaleSd]],
    columns: (configurations) => configurations.map((c) => [predictLogConstraint(c)]),
    ...deviceModel,
  }
}
