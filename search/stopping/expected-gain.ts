/** Expected gain of one more trial, and how well the predictions are calibrated. */
import { logAcquisition } from '../acquisition/expected-improvement.ts'
import { preselect } from '../acquisition/maximise.ts'
import { widen } from '../model/saturating-predictive.ts'
import { fitSurrogate } from '../model/surrogate.ts'
import { resolveReplicaPrice } from '../replica-price.ts'
import type { Configuration, Observation, Problem } from '../types.ts'
import { findIncumbent } from './incumbent.ts'

/** Upper bound of the calibration ratio. A model that needs more is not improved by widening. */
const maxCalibrationRatio = 2

/**
 * Expected saving of the best next trial, as a share of the incumbent's cost: the maximum of
 * expected improvement × P(feasible), with predictions widened by the calibration ratio. Undefined
 * without an incumbent.
 */
export function computeExpectedGain(
  problem: Problem,
  observations: readonly Observation[],
  untried: readonly Configuration[],
): { readonly share: number; readonly priorAccepted: boolean } | undefined {
  const surrogate = fitSurrogate(problem, observations, [])
  const incumbent = findIncumbent(problem, observations, surrogate)
  if (!incumbent) return undefined
  const ratio = computeCalibrationRatio(observations)
  const score = (candidates: readonly Configuration[], accuracy?: 'approximate') => {
    const prices = candidates.map((c) => resolveReplicaPrice(problem.pricePerHour, c))
    const { rate, ...predictions } = surrogate.predict(candidates, accuracy)
    return {
      candidates,
      scores: logAcquisition(
        problem,
        prices,
        { ...predictions, rate: rate && widen(rate, ratio) },
        incumbent.logCost,
      ),
    }
  }
  const { scores } = score(preselect(untried, (all) => score(all, 'approximate')))
  const logGain = scores.reduce((max, value) => Math.max(max, value), -Infinity)
  return { share: -Math.expm1(-Math.exp(logGain)), priorAccepted: surrogate.priorAccepted }
}

/**
 * Calibration ratio: root mean square of the standardised residuals of the predicted rates, in
 * [1, `maxCalibrationRatio`]. One residual of 1 is added, and the ratio never falls below 1, because
 * a few good predictions prove nothing.
 */
export function computeCalibrationRatio(observations: readonly Observation[]): number {
  const squares = observations.flatMap((o) => {
    if (o.state !== 'complete' || !o.predicted || !o.rate) return []
    const residual = Math.log(o.rate.value / o.predicted.value)
    // The rate of a pruned trial is an upper bound: one above the prediction has no residual.
    if (o.censored && residual > 0) return []
    return [residual ** 2 / ((o.predicted.logSd ?? 0) ** 2 + (o.rate.logSd ?? 0) ** 2)].filter(
      Number.isFinite,
    )
  })
  const mean = squares.reduce((sum, square) => sum + square, 1) / (squares.length + 1)
  return Math.min(maxCalibrationRatio, Math.max(1, Math.sqrt(mean)))
}
