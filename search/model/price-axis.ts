/** Dependence of the price of a replica on the parameters of a space. */
import { sampleRepresentatives } from '../space/candidates.ts'
import { satisfiesConstraints } from '../space/space.ts'
import type { Problem } from '../types.ts'

/** Differences of ln price below this are rounding. */
const minLogPriceDifference = 1e-9
/** Maximum number of configurations from which one parameter at a time is varied. Assumed. */
const maxLines = 24
/**
 * Maximum number of values of one parameter that are compared; a recorded table may have thousands.
 * Assumed.
 */
const maxValuesPerLine = 64

/**
 * Computes the smallest ln price and its range over the space; range 0 if all configurations cost
 * the same.
 */
export function computeLogPriceRange(problem: Problem): [lowest: number, range: number] {
  const logPrices = sampleRepresentatives(problem.space).map((c) =>
    Math.log(problem.pricePerHour(c)),
  )
  const lowest = Math.min(...logPrices)
  const range = Math.max(...logPrices) - lowest
  return [lowest, range > minLogPriceDifference ? range : 0]
}

/** Whether the price depends on a parameter, all else equal. */
export const affectsPrice = (problem: Problem, name: string): boolean =>
  computePriceLines(problem, name).some((line) =>
    line.some((logPrice) => Math.abs(logPrice - line[0]!) > minLogPriceDifference),
  )

/** Computes ln prices along one parameter from up to `maxLines` configurations, one line each. */
function computePriceLines(problem: Problem, name: string): number[][] {
  const parameter = problem.space.parameters.find((p) => p.name === name)!
  const allValues = 'values' in parameter ? parameter.values : [parameter.min, parameter.max]
  const stride = Math.ceil(allValues.length / maxValuesPerLine)
  const values = allValues.filter((_, i) => i % stride === 0)
  const representatives = sampleRepresentatives(problem.space)
  const baseStride = Math.ceil(representatives.length / maxLines)
  const bases = representatives.filter((_, i) => i % baseStride === 0)
  return bases.map((base) =>
    values
      .map((value) => ({ ...base, [name]: value }))
      .filter((configuration) => satisfiesConstraints(problem.space, configuration))
      .map((configuration) => Math.log(problem.pricePerHour(configuration))),
  )
}
