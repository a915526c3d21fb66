/** Beliefs that are less wide above their mean than below it (the split normal distribution: Wallis, Statistical Science 29, 2014). */
import type { Marginals } from './gp-model.ts'
import type { Configuration } from './types.ts'

export interface SplitNormal extends Marginals {
  /** Standard deviations above the mean, m; absent: as below it. */
  readonly upward?: Float64Array
}

/** Standard deviation above the mean. */
export const upwardSd = ({ variance, upward }: SplitNormal, i: number): number => upward?.[i] ?? Math.sqrt(variance[i]!)

/** How far a quantity really rises at a configuration where its inputs move the likeliest way that, if it went on as it begins, would raise it by so much. */
export type Rise = (configuration: Configuration, by: number) => number

/** Deviations of luck at which a rise is looked at. */
const LUCK = 2

/**
 * Standard deviations above the mean where the quantity bends: inputs that are luckier raise it by less than in proportion, up to what hides behind
 * the bottleneck.
 * @param variance of the quantity as it begins to move, m
 * @param residualVariance of what is not of the inputs: that much is not bent
 */
export function bentUpward(
  configurations: readonly Configuration[],
  variance: Float64Array,
  residualVariance: number,
  rise: Rise,
): Float64Array {
  return variance.map((v, i) => {
    const ofInputs = Math.sqrt(Math.max(0, v - residualVariance))
    if (ofInputs === 0) return Math.sqrt(v)
    const bent = Math.max(0, rise(configurations[i]!, LUCK * ofInputs) / LUCK)
    return Math.hypot(Math.min(ofInputs, bent), Math.sqrt(residualVariance))
  })
}
