/**
 * Posterior draws of the uncertain factors of a device model (Bayesian calibration: Kennedy and
 * O'Hagan 2001), by sequential Monte Carlo.
 *
 *   symbol   meaning                                                       shape
 *   k        factors: uncertain inputs of the device model
 *   f        ln(factor), prior N(0, diag sd²)                              k
 *   L(f)     likelihood of the measurements
 *   β        exponent of L, from 0 (prior) to 1 (posterior)
 *
 * A population of draws from the prior is led to the posterior through p(f) L(f)^β with rising β
 * (Del Moral, Doucet and Jasra, J. R. Stat. Soc. B 68, 2006). At each β the draws are resampled by
 * weight, and moved once by elliptical slice sampling (Murray, Adams and MacKay, AISTATS 2010), which
 * has no step size to tune. Two bottlenecks that explain the measurements equally well both keep
 * their draws, and the mean weights multiply to the evidence ∫ L(f) p(f) df.
 */
import type { Rng } from '../types.ts'

interface FactorPosterior {
  /** Posterior draws of f, equally weighted, `factorDraws`×k; a single empty one without factors. */
  readonly draws: readonly (readonly number[])[]
  /** ln ∫ L(f) p(f) df. */
  readonly logEvidence: number
}

export const factorDraws = 64
/** β rises until the effective sample size falls to this share of the draws. */
const minEffectiveShare = 0.5
/** Bisection steps for the next β, and the largest number of β. */
const bisectionSteps = 20
const maxSteps = 60

interface Draw {
  readonly f: readonly number[]
  readonly logLikelihood: number
}

/** @param sd prior standard deviation of each f, k */
export function sampleFactorPosterior(
  sd: readonly number[],
  logLikelihood: (f: readonly number[]) => number,
  rng: Rng,
): FactorPosterior {
  const drawPrior = () => sd.map((each) => each * rng.normal())
  const evaluate = (f: readonly number[]): Draw => ({ f, logLikelihood: logLikelihood(f) })
  if (sd.length === 0) return { draws: [[]], logEvidence: logLikelihood([]) }
  let draws = Array.from({ length: factorDraws }, () => evaluate(drawPrior()))
  let logEvidence = 0
  let beta = 0
  for (let step = 0; beta < 1 && step < maxSteps; step++) {
    const next = step === maxSteps - 1 ? 1 : findNextExponent(draws, beta)
    const logWeights = draws.map((draw) => (next - beta) * draw.logLikelihood)
    logEvidence += logMeanExp(logWeights)
    beta = next
    draws = resample(draws, logWeights, rng)
    draws = draws.map((draw) => moveOnEllipse(draw, drawPrior(), beta, evaluate, rng))
  }
  return { draws: draws.map(({ f }) => f), logEvidence }
}

/** The largest β at which the weights of the draws keep the effective sample size. */
function findNextExponent(draws: readonly Draw[], beta: number): number {
  const keepsSample = (next: number) => {
    const logWeights = draws.map((draw) => (next - beta) * draw.logLikelihood)
    // Effective sample size (Σ w)² / Σ w² as a share of the draws.
    const share = 2 * logMeanExp(logWeights) - logMeanExp(logWeights.map((w) => 2 * w))
    return share >= Math.log(minEffectiveShare)
  }
  if (keepsSample(1)) return 1
  let [low, high] = [beta, 1]
  for (let i = 0; i < bisectionSteps; i++) {
    const middle = (low + high) / 2
    if (keepsSample(middle)) low = middle
    else high = middle
  }
  return high
}

/** Systematic resampling: one uniform number, evenly spaced thresholds. */
function resample(draws: readonly Draw[], logWeights: readonly number[], rng: Rng): Draw[] {
  const highest = Math.max(...logWeights)
  const weights = logWeights.map((w) => Math.exp(w - highest))
  const total = weights.reduce((sum, w) => sum + w, 0)
  const start = rng.next()
  let at = 0
  let passed = weights[0]!
  return draws.map((_, i) => {
    const threshold = ((i + start) / draws.length) * total
    while (passed < threshold && at < draws.length - 1) passed += weights[++at]!
    return draws[at]!
  })
}

/**
 * One elliptical slice move at exponent β: a point on the ellipse through the draw and a draw from
 * the prior, from a bracket of angles that shrinks towards the draw.
 */
function moveOnEllipse(
  draw: Draw,
  prior: readonly number[],
  beta: number,
  evaluate: (f: readonly number[]) => Draw,
  rng: Rng,
): Draw {
  const threshold = beta * draw.logLikelihood + Math.log(rng.next())
  let angle = 2 * Math.PI * rng.next()
  let [low, high] = [angle - 2 * Math.PI, angle]
  for (;;) {
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)]
    const moved = evaluate(draw.f.map((v, i) => v * cos + prior[i]! * sin))
    if (beta * moved.logLikelihood > threshold) return moved
    if (high - low < 1e-9) return draw
    if (angle < 0) low = angle
    else high = angle
    angle = low + (high - low) * rng.next()
  }
}

/** ln of the mean of exp(values). */
export function logMeanExp(values: readonly number[]): number {
  const highest = values.reduce((max, value) => Math.max(max, value), -Infinity)
  if (highest === -Infinity) return -Infinity
  const sum = values.reduce((total, value) => total + Math.exp(value - highest), 0)
  return highest + Math.log(sum / values.length)
}
