/** Informative priors of ln rate and of the constraint from a device model. */
import { memoise } from '../memoise.ts'
import { sampleRepresentatives } from '../space/candidates.ts'
import type { Configuration, Problem } from '../types.ts'
import { toConstraintTarget } from './constraint.ts'
import type { InformativePrior } from './informative-prior.ts'

/** Prior standard deviation of the device model's scale. */
const scaleSd = 0.05
/**
 * The device model is accepted unless the data are e² times as probable without it. Its offset is
 * known to 10 %, and its residual has a standard deviation of 5 % (variance 0.003, the median).
 */
const deviceModel = {
  minLogBayesFactor: -2,
  offsetSd: 0.1,
  trendScale: 0.1,
  signalVariance: [Math.log(0.003), 1] as const,
}

/**
 * The device-model prior of ln rate. Its column is the difference of the expected ln rate from the
 * mean over the space: a scale error.
 */
export function createRatePrior(problem: Problem): InformativePrior | undefined {
  const { priorLogRate, priorFactors } = problem
  if (!priorLogRate) return undefined
  const centre = computeMeanLogRate(problem)
  return {
    mean: {
      sd: priorFactors?.sd ?? [],
      at(logFactors) {
        const logRate = priorFactors?.at(logFactors) ?? priorLogRate
        return (c) => logRate(c) ?? centre
      },
    },
    slopes: [[0, scaleSd]],
    columns: (configurations) => configurations.map((c) => [(priorLogRate(c) ?? centre) - centre]),
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
  const expected = (c: Configuration) => {
    const logValue = priorLogConstraint(c)
    return logValue === undefined ? 0 : toConstraintTarget(problem, logValue)
  }
  return {
    slopes: [[1, scaleSd]],
    columns: (configurations) => configurations.map((c) => [expected(c)]),
    ...deviceModel,
  }
}
