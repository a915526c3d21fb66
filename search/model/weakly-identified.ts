/**
 * What trials leave open of a physics prior's factors. Where two bottlenecks meet, one of them is
 * only known to be no tighter: the most probable is where it begins to bind, for there it is
 * nearest to what was expected, and the slopes of that very point would have it known exactly.
 */
import type { MovedPrior } from '../types.ts'

/**
 * A prior moved by its factors, and how far from the data, and from what was expected of the
 * factors, it is: −2 ln of their posterior, but for a constant.
 */
export interface Calibration {
  /** ln(factor) (k). */
  readonly logFactors: readonly number[]
  readonly prior: MovedPrior
  readonly misfit: number
}

interface LeftOpen {
  readonly factor: number
  /** Of its posterior, the others as they are. */
  readonly sd: number
  /** How far off its mean is, in deviations of what was expected. */
  readonly deviations: number
  /** To that mean. */
  readonly moved: Calibration
}

/** A factor is looked at in so many steps of its deviation, to so many on either side. */
const STEPS_A_DEVIATION = 3
const REACH = 9
/**
 * It is left open where its deviation is so many times what the slopes say, and where it is moved
 * to they say little more: no more than so many times what is known.
 */
const OPEN = 1.5
const TOLD_AGAIN = 4

/**
 * The most probable factors, those that are left open by more than slopes say moved to the mean of
 * what they may be: one after the other, the furthest first.
 * @param sd of ln(factor) before any trial (k)
 * @param movedTo the prior at other factors
 * @param informationOf what the data say of a factor by slopes, one over a variance
 * @returns with it what is believed of each factor beside where it was moved to, before the data
 * are read by slopes (k): of those left open all that the data say
 */
export function asLeftOpen(
  mostProbable: Calibration,
  sd: readonly number[],
  movedTo: (logFactors: readonly number[]) => Calibration,
  informationOf: (prior: MovedPrior, factor: number) => number,
): Calibration & { readonly offsets: readonly (readonly [mean: number, sd: number])[] } {
  const offsets = mostProbable.logFactors.map((v, i): readonly [number, number] => [-v, sd[i]!])
  const left = new Set(sd.keys())
  let at = mostProbable
  for (;;) {
    const furthest = [...left]
      .flatMap((factor) => leftOpen(at, factor) ?? [])
      .sort((a, b) => b.deviations - a.deviations)[0]
    if (furthest === undefined) return { ...at, offsets }
    left.delete(furthest.factor)
    offsets[furthest.factor] = [0, furthest.sd]
    at = furthest.moved
  }

  /** By adding up its posterior; undefined where the slopes say as much. */
  function leftOpen(of: Calibration, factor: number): LeftOpen | undefined {
    const expectedSd = sd[factor]!
    const told = informationOf(of.prior, factor)
    if (told * expectedSd ** 2 < 1) return undefined
    const movedBy = (by: number) =>
      movedTo(of.logFactors.map((v, i) => (i === factor ? v + by : v)))
    const points = Array.from({ length: 2 * REACH + 1 }, (_, j) => {
      const by = ((j - REACH) * expectedSd) / STEPS_A_DEVIATION
      return { by, weight: Math.exp(0.5 * (of.misfit - movedBy(by).misfit)) }
    })
    const total = points.reduce((sum, { weight }) => sum + weight, 0)
    const mean = points.reduce((sum, { by, weight }) => sum + weight * by, 0) / total
    const variance =
      points.reduce((sum, { by, weight }) => sum + weight * (by - mean) ** 2, 0) / total
    const moved = movedBy(mean)
    if (variance * told < OPEN ** 2 || variance * informationOf(moved.prior, factor) > TOLD_AGAIN)
      return undefined
    return { factor, sd: Math.sqrt(variance), deviations: Math.abs(mean) / expectedSd, moved }
  }
}
