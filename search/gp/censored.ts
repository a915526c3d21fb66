import { fitGp, type HyperPriors } from './fit.ts'
import { logCdf, logPdf } from './normal.ts'
import { condition, type Gp } from './regression.ts'
import { type Datum, gpDataOf } from './training-points.ts'
import type { GpShape, Rows } from './types.ts'

/**
 * Passes of fitting the hyperparameters to the sites and the sites to the hyperparameters, and of
 * sweeps over the sites in each.
 */
const PASSES = 2
const SWEEPS = 6
const SETTLED = 1e-2
const DAMPING = 0.8
/** Precision of a site that says nothing. */
const NOTHING = 1e-6

interface FittedReadings {
  /** Its `logLikelihood` is the evidence of all readings, one-sided ones too. */
  readonly gp: Gp
  /** The readings as exact ones of known noise. */
  readonly sites: readonly Datum[]
}

/**
 * A Gaussian process of readings of which some say only that the truth is at least, or at most, so
 * much: likelihood Φ(±(f − bound) / s), s² the reading's noise. Expectation propagation (Minka
 * 2001; Rasmussen and Williams 2006, §3.6) stands a Gaussian site in for each of those: a reading
 * that says the same. At given sites the gradient of the evidence is that of the Gaussian
 * likelihood (Seeger, 'Expectation propagation for exponential families', 2005), so the
 * hyperparameters are fitted to sites as to readings.
 * @param X design matrix of the readings, n×d
 */
export function fitReadings(
  shape: GpShape,
  X: Rows,
  readings: readonly Datum[],
  priors: HyperPriors,
): FittedReadings {
  if (readings.every((r) => r.bound === undefined))
    return { gp: fitGp(shape, gpDataOf(X, readings), { priors }), sites: readings }
  let sites = readings.map(
    (r): Datum => (r.bound ? { ...r, target: r.target + 0.5 * signOf(r), noise: 1 } : r),
  )
  let gp = fitGp(shape, gpDataOf(X, sites), { priors })
  for (let pass = 0; pass < PASSES; pass++) {
    for (let sweep = 0; sweep < SWEEPS; sweep++) {
      const swept = sweepSites(
        condition(shape, gpDataOf(X, sites), gp.hyperparameters),
        readings,
        sites,
      )
      sites = swept.sites
      if (swept.moved < SETTLED) break
    }
    const { warning, hyperparameters } = gp
    gp =
      pass < PASSES - 1
        ? fitGp(shape, gpDataOf(X, sites), { priors, from: hyperparameters })
        : {
            ...condition(shape, gpDataOf(X, sites), hyperparameters),
            ...(warning ? { warning } : {}),
          }
  }
  const corrections = siteCorrections(gp, readings, sites)
  return { gp: { ...gp, logLikelihood: gp.logLikelihood + corrections }, sites }
}

const signOf = (reading: Datum): number => (reading.bound === 'least' ? 1 : -1)

function sweepSites(
  gp: Gp,
  readings: readonly Datum[],
  sites: readonly Datum[],
): { sites: Datum[]; moved: number } {
  const cavity = gp.leaveOneOut()
  let moved = 0
  const next = sites.map((site, i) => {
    const reading = readings[i]!
    if (!reading.bound) return site
    const { precision, shift } = siteOf(cavity.mean[i]!, cavity.variance[i]!, reading)
    const damped = (1 - DAMPING) / site.noise + DAMPING * precision
    moved = Math.max(moved, Math.abs(damped - 1 / site.noise) * cavity.variance[i]!)
    return {
      ...site,
      noise: 1 / damped,
      target: ((1 - DAMPING) * (site.target / site.noise) + DAMPING * shift) / damped,
    }
  })
  return { sites: next, moved }
}

/**
 * Natural parameters of the site that gives a cavity N(mean, variance) the moments which the
 * reading gives it (Rasmussen and Williams, eq. 3.58).
 */
function siteOf(
  mean: number,
  variance: number,
  reading: Datum,
): { precision: number; shift: number } {
  const sign = signOf(reading)
  const spread = variance + reading.noise
  const z = (sign * (mean - reading.target)) / Math.sqrt(spread)
  const ratio = Math.exp(logPdf(z) - logCdf(z))
  const tiltedMean = mean + (sign * variance * ratio) / Math.sqrt(spread)
  const tiltedVariance = variance - (variance * variance * ratio * (z + ratio)) / spread
  const precision = 1 / tiltedVariance - 1 / variance
  if (!(precision > NOTHING)) return { precision: NOTHING, shift: NOTHING * mean }
  return { precision, shift: tiltedMean / tiltedVariance - mean / variance }
}

/**
 * What the evidence has beyond the Gaussian likelihood of the sites: their normalisers (Rasmussen
 * and Williams, eq. 3.65).
 */
function siteCorrections(gp: Gp, readings: readonly Datum[], sites: readonly Datum[]): number {
  const cavity = gp.leaveOneOut()
  return readings.reduce((sum, reading, i) => {
    if (!reading.bound) return sum
    const [mean, variance] = [cavity.mean[i]!, cavity.variance[i]!]
    const site = sites[i]!
    const z = (signOf(reading) * (mean - reading.target)) / Math.sqrt(variance + reading.noise)
    const both = variance + site.noise
    return (
      sum + logCdf(z) + 0.5 * Math.log(2 * Math.PI * both) + (mean - site.target) ** 2 / (2 * both)
    )
  }, 0)
}
