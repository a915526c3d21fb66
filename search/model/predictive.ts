/** Predictive distributions: normal, or an equal mixture of normals over draws of a device model. */
import { logCdf, logExpectedImprovement } from '../gp/normal.ts'
import type { Marginals } from '../gp/types.ts'
import { logMeanExp } from './factor-posterior.ts'

/** Predictions of m configurations. `mean` and `variance` are those of the whole mixture. */
export interface Predictive extends Marginals {
  /** Means of the S components, S arrays of m, and their common variance. Absent: normal. */
  readonly components?: {
    readonly means: readonly Float64Array[]
    readonly variance: Float64Array
  }
}

/** The equal mixture of S normals of common variance. */
export function mix(means: readonly Float64Array[], variance: Float64Array): Predictive {
  const average = (i: number, of: (mean: number) => number) =>
    means.reduce((sum, each) => sum + of(each[i]!), 0) / means.length
  const mean = variance.map((_, i) => average(i, (value) => value))
  return {
    mean,
    variance: variance.map((v, i) => v + average(i, (value) => (value - mean[i]!) ** 2)),
    components: { means, variance },
  }
}

/** The prediction with all deviations from the mean multiplied by a factor. */
export const widen = ({ mean, variance, components }: Predictive, factor: number): Predictive => ({
  mean,
  variance: variance.map((v) => factor ** 2 * v),
  ...(components && {
    components: {
      means: components.means.map((each) =>
        each.map((value, i) => mean[i]! + factor * (value - mean[i]!)),
      ),
      variance: components.variance.map((v) => factor ** 2 * v),
    },
  }),
})

/**
 * ln of the mean over the components of exp(`of`), for the i-th configuration.
 * @param of takes the component's offset from the mean of the whole, and its standard deviation
 */
const averageComponents = (
  { mean, variance, components }: Predictive,
  i: number,
  of: (offset: number, sd: number) => number,
): number =>
  components
    ? logMeanExp(
        components.means.map((each) => of(each[i]! - mean[i]!, Math.sqrt(components.variance[i]!))),
      )
    : of(0, Math.sqrt(variance[i]!))

/** ln E[max(0, quantity − mean − threshold)] for the i-th configuration. */
export const logExpectedExcess = (prediction: Predictive, i: number, threshold: number): number =>
  averageComponents(prediction, i, (offset, sd) =>
    logExpectedImprovement(threshold - offset, sd, 0),
  )

/** ln P(quantity − mean ≥ threshold) for the i-th configuration. */
export const logProbabilityAbove = (prediction: Predictive, i: number, threshold: number): number =>
  averageComponents(prediction, i, (offset, sd) => logCdf((offset - threshold) / sd))

/** Bisection steps for a quantile of a mixture: a thousandth of a standard deviation. */
const bisectionSteps = 14

/** Offset from the mean of the quantile with the probability Φ(z), for the i-th configuration. */
export function quantileOffset(prediction: Predictive, i: number, z: number): number {
  const sd = Math.sqrt(prediction.variance[i]!)
  if (prediction.components === undefined) return z * sd
  let [low, high] = [-6 * sd, 6 * sd]
  for (let step = 0; step < bisectionSteps; step++) {
    const middle = (low + high) / 2
    if (logProbabilityAbove(prediction, i, middle) > logCdf(-z)) low = middle
    else high = middle
  }
  return (low + high) / 2
}
