/**
 * Beliefs of a quantity that luck raises by less and less: normal below their mean, above it as far
 * as what is behind the bottleneck lets through.
 */

import { logExpectedImprovement, logH } from '../gp/normal.ts'
import type { Marginals } from '../gp/types.ts'
import type { Configuration } from '../types.ts'

export interface BentNormal extends Marginals {
  /**
   * How far above the mean the quantity is with 1, 2, ... `LUCKS` deviations of luck, m×LUCKS,
   * row-major, and never less for more; absent: as many deviations.
   */
  readonly rises?: Float64Array
}

/**
 * How far a quantity really rises at a configuration where its inputs move the likeliest way that,
 * if it went on as it begins, would raise it by so much.
 */
export type Rise = (configuration: Configuration) => (by: number) => number

/**
 * Deviations of luck up to which a rise is looked at, one by one; from there on it goes on as it
 * does before the last.
 */
const LUCKS = 4

/**
 * @param variance of the quantity as it begins to move, m
 * @param residualVariance of what is not of the inputs: that much is not bent
 */
export function bent(
  { mean, variance }: Marginals,
  configurations: readonly Configuration[],
  residualVariance: number,
  rise: Rise,
): BentNormal {
  const rises = new Float64Array(LUCKS * mean.length)
  for (const [i, v] of variance.entries()) {
    const ofInputs = Math.sqrt(Math.max(0, v - residualVariance))
    const rest = Math.sqrt(Math.min(v, residualVariance))
    const risen = ofInputs > 0 ? rise(configurations[i]!) : (by: number) => by
    let most = 0
    for (let luck = 1; luck <= LUCKS; luck++) {
      most = Math.max(most, Math.min(luck * ofInputs, risen(luck * ofInputs)))
      rises[LUCKS * i + luck - 1] = Math.hypot(most, luck * rest)
    }
  }
  return { mean, variance, rises }
}

/** The same with deviations so many times as wide. */
export function widened(belief: BentNormal, by: number): BentNormal {
  const { mean, variance, rises } = belief
  const wide = { mean, variance: variance.map((v) => by ** 2 * v) }
  return rises
    ? {
        ...wide,
        rises: rises.map((_, at) => above(belief, Math.floor(at / LUCKS), by * (1 + (at % LUCKS)))),
      }
    : wide
}

/** How far from its mean the i-th is with so many deviations of luck, or of bad luck. */
export function above({ variance, rises }: BentNormal, i: number, luck: number): number {
  if (rises === undefined || luck <= 0) return luck * Math.sqrt(variance[i]!)
  const from = Math.min(LUCKS - 1, Math.floor(luck))
  return riseAt(rises, i, from) + (luck - from) * slopeFrom(rises, i, from)
}

/**
 * Deviations of luck, negative ones of bad luck, that it takes to be so far from the mean; Infinity
 * where none would do.
 */
export function luckFor(belief: BentNormal, i: number, far: number): number {
  const { variance, rises } = belief
  if (rises === undefined || far <= 0) return far / Math.sqrt(variance[i]!)
  let from = 0
  while (from < LUCKS - 1 && riseAt(rises, i, from + 1) <= far) from++
  const slope = slopeFrom(rises, i, from)
  return slope > 0 ? from + (far - riseAt(rises, i, from)) / slope : Infinity
}

/**
 * ln E[max(0, quantity − mean − least)], expected improvement of a normal that bends: each bend
 * adds its change of slope × E[max(0, luck − where it is)].
 */
export function logExpectedExcess(belief: BentNormal, i: number, least: number): number {
  const { variance, rises } = belief
  const sd = Math.sqrt(variance[i]!)
  if (rises === undefined) return logExpectedImprovement(least, sd, 0)
  const begins = luckFor(belief, i, least)
  if (begins === Infinity) return -Infinity
  const slopeAfter = (luck: number) =>
    luck < 0 ? sd : slopeFrom(rises, i, Math.min(LUCKS - 1, Math.floor(luck)))
  const first = logH(-begins)
  let slopes = slopeAfter(begins)
  for (let bend = Math.max(0, Math.floor(begins) + 1); bend < LUCKS; bend++)
    slopes += (slopeAfter(bend) - slopeAfter(bend - 1)) * Math.exp(logH(-bend) - first)
  return first + Math.log(Math.max(0, slopes))
}

const riseAt = (rises: Float64Array, i: number, luck: number): number =>
  luck === 0 ? 0 : rises[LUCKS * i + luck - 1]!
const slopeFrom = (rises: Float64Array, i: number, luck: number): number =>
  riseAt(rises, i, luck + 1) - riseAt(rises, i, luck)
