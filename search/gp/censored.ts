/** Gaussian process regression with censored observations, by expectation propagation. */

import { fitGp, type HyperPriors } from './fit.ts'
import { logCdf, logPdf } from './normal.ts'
import { conditionGp, type Gp } from './regression.ts'
import { type TrainingPoint, toGpData } from './training-points.ts'
import type { GpSpec, Rows } from './types.ts'

/**
 * Alternations between fitting hyperparameters to the sites and sites to the hyperparameters. With
 * one, the fit can violate a bound that contradicts its neighbours (docs/research/search.md, tried
 * without gain).
 */
const fitPasses = 2
/** Sweeps over the sites in each pass; fewer where they converge. Assumed. */
const maxSweeps = 6
/**
 * Largest change of a site's precision, relative to its cavity, at which the sweeps have converged.
 * Assumed.
 */
const convergedChange = 1e-2
/** Share of the new site parameters in each update. Undamped updates can oscillate. Assumed. */
const dampingFactor = 0.8
/** Precision of a site whose censored observation carries no information: a thousand in ln rate. */
const minSitePrecision = 1e-6

interface CensoredFit {
  /** Its `logLikelihood` is the evidence of all points, censored ones included. */
  readonly gp: Gp
  /** The points with each censored one replaced by its Gaussian site, n. */
  readonly sites: readonly TrainingPoint[]
}

/**
 * Fits a Gaussian process to points of which some are censored: likelihood Φ(±(f − bound) / s),
 * where s² is the point's noise variance.
 *
 * Expectation propagation (Minka 2001; Rasmussen and Williams 2006, §3.6) approximates each of
 * these likelihoods by a Gaussian site. At fixed sites the gradient of the evidence equals that of
 * the Gaussian likelihood (Seeger, 'Expectation propagation for exponential families', 2005), so
 * that hyperparameters are fitted to sites as to exact observations.
 * @param X design matrix of the points, n×d
 */
export function fitCensoredGp(
  spec: GpSpec,
  X: Rows,
  points: readonly TrainingPoint[],
  priors: HyperPriors,
): CensoredFit {
  if (points.every((r) => r.bound === undefined))
    return { gp: fitGp(spec, toGpData(X, points), { priors }), sites: points }
  // Sites start half a unit beyond their bounds, with variance 1.
  let sites = points.map(
    (point): TrainingPoint =>
      point.bound
        ? { ...point, target: point.target + 0.5 * getBoundSign(point), noise: 1 }
        : point,
  )
  let gp = fitGp(spec, toGpData(X, sites), { priors })
  for (let pass = 0; pass < fitPasses; pass++) {
    for (let sweep = 0; sweep < maxSweeps; sweep++) {
      const swept = sweepSites(
        conditionGp(spec, toGpData(X, sites), gp.hyperparameters),
        points,
        sites,
      )
      sites = swept.sites
      if (swept.change < convergedChange) break
    }
    const { warning, hyperparameters } = gp
    gp =
      pass < fitPasses - 1
        ? fitGp(spec, toGpData(X, sites), { priors, from: hyperparameters })
        : {
            ...conditionGp(spec, toGpData(X, sites), hyperparameters),
            ...(warning ? { warning } : {}),
          }
  }
  const corrections = computeSiteCorrections(gp, points, sites)
  return { gp: { ...gp, logLikelihood: gp.logLikelihood + corrections }, sites }
}

/** Returns +1 for a lower bound, -1 for an upper bound. */
const getBoundSign = (point: TrainingPoint): number => (point.bound === 'lower' ? 1 : -1)

/** Updates all sites once, damped and in parallel, and finds the largest change of a precision. */
function sweepSites(
  gp: Gp,
  points: readonly TrainingPoint[],
  sites: readonly TrainingPoint[],
): { sites: TrainingPoint[]; change: number } {
  const cavity = gp.predictLeaveOneOut()
  let change = 0
  const next = sites.map((site, i) => {
    const point = points[i]!
    if (!point.bound) return site
    const { precision, shift } = matchMoments(cavity.mean[i]!, cavity.variance[i]!, point)
    const dampedPrecision = (1 - dampingFactor) / site.noise + dampingFactor * precision
    change = Math.max(change, Math.abs(dampedPrecision - 1 / site.noise) * cavity.variance[i]!)
    return {
      ...site,
      noise: 1 / dampedPrecision,
      target:
        ((1 - dampingFactor) * (site.target / site.noise) + dampingFactor * shift) /
        dampedPrecision,
    }
  })
  return { sites: next, change }
}

/**
 * Computes the natural parameters of the site that matches the moments of cavity × likelihood
 * (Rasmussen and Williams, eq. 3.58). The cavity is N(mean, variance).
 */
function matchMoments(
  mean: number,
  variance: number,
  point: TrainingPoint,
): { precision: number; shift: number } {
  const sign = getBoundSign(point)
  const totalVariance = variance + point.noise
  const z = (sign * (mean - point.target)) / Math.sqrt(totalVariance)
  const ratio = Math.exp(logPdf(z) - logCdf(z))
  const tiltedMean = mean + (sign * variance * ratio) / Math.sqrt(totalVariance)
  const tiltedVariance = variance - (variance * variance * ratio * (z + ratio)) / totalVariance
  const precision = 1 / tiltedVariance - 1 / variance
  // Negated, so that NaN counts as no information, too.
  if (!(precision > minSitePrecision))
    return { precision: minSitePrecision, shift: minSitePrecision * mean }
  return { precision, shift: tiltedMean / tiltedVariance - mean / variance }
}

/**
 * Computes the ln normalisers of the sites: the evidence minus the Gaussian likelihood of the sites
 * (Rasmussen and Williams, eq. 3.65).
 */
function computeSiteCorrections(
  gp: Gp,
  points: readonly TrainingPoint[],
  sites: readonly TrainingPoint[],
): number {
  const cavity = gp.predictLeaveOneOut()
  return points.reduce((sum, point, i) => {
    if (!point.bound) return sum
    const [mean, variance] = [cavity.mean[i]!, cavity.variance[i]!]
    const site = sites[i]!
    const z = (getBoundSign(point) * (mean - point.target)) / Math.sqrt(variance + point.noise)
    const total = variance + site.noise
    return (
      sum +
      logCdf(z) +
      0.5 * Math.log(2 * Math.PI * total) +
      (mean - site.target) ** 2 / (2 * total)
    )
  }, 0)
}
