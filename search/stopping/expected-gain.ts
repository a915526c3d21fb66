/** What one more trial is expected to bring. */
import { logAcquisition } from '../acquisition/expected-improvement.ts'
import { shortlisted } from '../acquisition/maximise.ts'
import { widened } from '../model/saturating-predictive.ts'
import { fitSurrogate } from '../model/surrogate.ts'
import { priceOf } from '../replica-price.ts'
import type { Configuration, Observation, Problem } from '../types.ts'
import { believedBest } from './incumbent.ts'

/** Most times that deviations are taken: beyond that the model is not to be believed at all. */
const MOST_SURPRISED = 2

/**
 * The share of the best believed cost that the most promising of the untried is expected to save:
 * expected improvement × probability of feasibility, at its greatest, deviations as many times as
 * wide as the search was found to be surprised. Undefined while nothing feasible is known.
 */
export function expectedGain(
  problem: Problem,
  observations: readonly Observation[],
  untried: readonly Configuration[],
): { readonly share: number; readonly informed: boolean } | undefined {
  const surrogate = fitSurrogate(problem, observations, [])
  const best = believedBest(problem, observations, surrogate)
  if (!best) return undefined
  const wide = surprise(observations)
  const scored = (candidates: readonly Configuration[], how?: 'roughly') => {
    const prices = candidates.map((c) => priceOf(problem.pricePerHour, c))
    const { rate, ...beliefs } = surrogate.believe(candidates, how)
    return {
      candidates,
      scores: logAcquisition(
        problem,
        prices,
        { ...beliefs, rate: rate && widened(rate, wide) },
        best.logCost,
      ),
    }
  }
  const { scores } = scored(shortlisted(untried, (all) => scored(all, 'roughly')))
  const logGain = scores.reduce((most, score) => Math.max(most, score), -Infinity)
  return { share: -Math.expm1(-Math.exp(logGain)), informed: surrogate.informed }
}

/**
 * How many of the deviations that the search believed in its rates were off, root mean square: 1
 * where it knows what it knows, and never less, for a few lucky readings are no proof. One reading
 * is taken to have been as believed.
 */
export function surprise(observations: readonly Observation[]): number {
  const squares = observations.flatMap((o) => {
    if (o.state !== 'complete' || !o.foretold || !o.rate) return []
    const off = Math.log(o.rate.value / o.foretold.value)
    // Of a trial that was cut short the rate is at most so much: more than was believed tells
    // nothing.
    if (o.censored && off > 0) return []
    return [off ** 2 / ((o.foretold.logSd ?? 0) ** 2 + (o.rate.logSd ?? 0) ** 2)].filter(
      Number.isFinite,
    )
  })
  const mean = squares.reduce((sum, square) => sum + square, 1) / (squares.length + 1)
  return Math.min(MOST_SURPRISED, Math.max(1, Math.sqrt(mean)))
}
