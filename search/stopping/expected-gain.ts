/** Expected gain of one more trial, and how well the predictions are calibrated. */
import { logAcquisition } from '../acquisition/expected-improvement.ts'
import { preselect } from '../acquisition/maximise.ts'
import { widen } from '../model/predictive.ts'
import type { Surrogate } from '../model/surrogate.ts'
import { resolveReplicaPrice } from '../replica-price.ts'
import type { Configuration, Observation, Problem } from '../types.ts'

/** Upper bound of the calibration ratio. A model that needs more is not improved by widening. */
const maxCalibrationRatio = 2

/**
 * Expected saving of the best next trial, as a share of the incumbent's cost: the maximum of
 * expected improvement × P(feasible), with predicted rates widened by a ratio.
 */
export function computeExpectedGain(
  problem: Problem,
  surrogate: Surrogate,
  incumbentLogCost: number,
  untried: readonly Configuration[],
  ratio: number,
): number {
  const score = (candidates: readonly Configuration[], accuracy?: 'approximate') => {
    const prices = candidates.map((c) => resolveReplicaPrice(problem.pricePerHour, c))
    const { rate, ...others } = surrogate.predict(candidates, accuracy)
    const predictions = { ...others, rate: rate && widen(rate, ratio) }
    return { candidates, scores: logAcquisition(problem, prices, predictions, incumbentLogCost) }
  }
  const { scores } = score(preselect(untried, (all) => score(all, 'approximate')))
  return -Math.expm1(-Math.exp(scores.reduce((max, value) => Math.max(max, value), -Infinity)))
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
