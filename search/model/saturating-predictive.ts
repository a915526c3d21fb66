/**
 * Predictive distribution that saturates above its mean, because the next bottleneck limits further
 * gains. Below the mean it is normal; above, its upper quantile curve is piecewise linear in the
 * z-score.
 */
import { logExpectedImprovement, logH } from '../gp/normal.ts'
import type { Marginals } from '../gp/types.ts'
import type { Configuration } from '../types.ts'

export interface SaturatingPredictive extends Marginals {
  /**
   * Offsets of the upper quantiles at z = 1, 2, ..., `maxTabulatedZ` from the mean, m×maxTabulatedZ,
   * row-major, non-decreasing in z. Absent: normal, the offset is z standard deviations.
   */
  readonly upperOffsets?: Float64Array
}

/**
 * The saturation curve of a configuration: the true increase of the quantity where the linearised
 * model expects an increase of `linear`.
 */
export type SaturationCurve = (configuration: Configuration) => (linear: number) => number

/**
 * Upper quantiles are tabulated at z = 1 to 4; beyond, the last segment continues. Tabulated to 2,
 * ResNet-50 took 8 to 11 trials, not 7 (docs/research/search.md, where trials take minutes).
 */
const maxTabulatedZ = 4

/**
 * Applies a saturation curve to normal predictions of m configurations.
 * @param residualVariance part of the variance that the curve does not explain; it stays normal
 */
export function saturate(
  { mean, variance }: Marginals,
  configurations: readonly Configuration[],
  residualVariance: number,
  curve: SaturationCurve,
): SaturatingPredictive {
  const upperOffsets = new Float64Array(maxTabulatedZ * mean.length)
  for (const [i, v] of variance.entries()) {
    const linearSd = Math.sqrt(Math.max(0, v - residualVariance))
    const residualSd = Math.sqrt(Math.min(v, residualVariance))
    const increase = linearSd > 0 ? curve(configurations[i]!) : (linear: number) => linear
    let offset = 0
    for (let z = 1; z <= maxTabulatedZ; z++) {
      offset = Math.max(offset, Math.min(z * linearSd, increase(z * linearSd)))
      upperOffsets[maxTabulatedZ * i + z - 1] = Math.hypot(offset, z * residualSd)
    }
  }
  return { mean, variance, upperOffsets }
}

/** Computes the offset of the quantile at a z-score from the mean, for the i-th configuration. */
export function computeQuantileOffset(
  { variance, upperOffsets }: SaturatingPredictive,
  i: number,
  z: number,
): number {
  if (upperOffsets === undefined || z <= 0) return z * Math.sqrt(variance[i]!)
  const knot = Math.min(maxTabulatedZ - 1, Math.floor(z))
  return getOffset(upperOffsets, i, knot) + (z - knot) * computeSlopeAfter(upperOffsets, i, knot)
}

/**
 * Computes the z-score at which the quantile of the i-th configuration has the given offset from
 * the mean; Infinity above the saturation.
 */
export function computeZScore(prediction: SaturatingPredictive, i: number, offset: number): number {
  const { variance, upperOffsets } = prediction
  if (upperOffsets === undefined || offset <= 0) return offset / Math.sqrt(variance[i]!)
  let knot = 0
  while (knot < maxTabulatedZ - 1 && getOffset(upperOffsets, i, knot + 1) <= offset) knot++
  const slope = computeSlopeAfter(upperOffsets, i, knot)
  return slope > 0 ? knot + (offset - getOffset(upperOffsets, i, knot)) / slope : Infinity
}

/**
 * Computes ln E[max(0, quantity − mean − threshold)] for the i-th configuration. The quantity is
 * piecewise linear in a standard normal z, so that each knot adds its change of slope × E[max(0, z
 * − knot)].
 */
export function computeLogExpectedExcess(
  prediction: SaturatingPredictive,
  i: number,
  threshold: number,
): number {
  const { variance, upperOffsets } = prediction
  const sd = Math.sqrt(variance[i]!)
  if (upperOffsets === undefined) return logExpectedImprovement(threshold, sd, 0)
  const start = computeZScore(prediction, i, threshold)
  if (start === Infinity) return -Infinity
  const computeSlope = (z: number) =>
    z < 0 ? sd : computeSlopeAfter(upperOffsets, i, Math.min(maxTabulatedZ - 1, Math.floor(z)))
  const first = logH(-start)
  let slopes = computeSlope(start)
  for (let knot = Math.max(0, Math.floor(start) + 1); knot < maxTabulatedZ; knot++)
    slopes += (computeSlope(knot) - computeSlope(knot - 1)) * Math.exp(logH(-knot) - first)
  return first + Math.log(Math.max(0, slopes))
}

/** Returns the tabulated offset at an integer z-score. */
const getOffset = (upperOffsets: Float64Array, i: number, z: number): number =>
  z === 0 ? 0 : upperOffsets[maxTabulatedZ * i + z - 1]!

/** Computes the slope of the quantile curve between z and z + 1. */
const computeSlopeAfter = (upperOffsets: Float64Array, i: number, z: number): number =>
  getOffset(upperOffsets, i, z + 1) - getOffset(upperOffsets, i, z)
