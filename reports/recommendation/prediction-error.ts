/** How well the search predicted the capacities of pipelines before it measured them. */
import { quantile } from 'simple-statistics'
import { modelsCapacityOrLatency } from '../../search/objective.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { percent, rate } from '../format.ts'
import type { RankingCriteria } from './ranked-candidate.ts'
import type { PredictionError } from './types.ts'

/**
 * Compares predictions with measured capacities, in trials that measured one. Undefined without
 * such trials, and for objectives that predict another quantity.
 * @param subject trial of the best (or nearest) configuration
 */
export function evaluatePredictions(
  trials: readonly FinishedTrial[],
  subject: FinishedTrial,
  { objective }: Pick<RankingCriteria, 'objective'>,
): PredictionError | undefined {
  if (!modelsCapacityOrLatency(objective)) return undefined
  const compared = trials.flatMap((trial) => {
    if (trial.state !== 'complete' || trial.predicted === undefined) return []
    const { capacityRps, bounds } = trial.measurement
    return capacityRps > 0 && bounds === 'both'
      ? [{ trial, predictedRps: trial.predicted.rate, measuredRps: capacityRps }]
      : []
  })
  if (compared.length === 0) return undefined
  const errors = compared.map(computeError)
  const own = compared.find(({ trial }) => trial === subject)
  return {
    trials: compared.length,
    median: quantile(errors, 0.5),
    p90: quantile(errors, 0.9),
    ...(own && { subject: { predictedRps: own.predictedRps, measuredRps: own.measuredRps } }),
  }
}

const computeError = ({ predictedRps, measuredRps }: NonNullable<PredictionError['subject']>) =>
  Math.abs(predictedRps / measuredRps - 1)

/** 'Predicted at 310 req/s, measured at 323 req/s; 3 predictions were off by 4 % (median), 6 % (p90)' */
export const describePredictionError = ({
  trials,
  median,
  p90,
  subject,
}: PredictionError): string =>
  [
    ...(subject
      ? [`Predicted at ${rate(subject.predictedRps)}, measured at ${rate(subject.measuredRps)}`]
      : []),
    trials === 1
      ? `one prediction was off by ${percent(median)}`
      : `${trials} predictions were off by ${percent(median)} (median), ${percent(p90)} (p90)`,
  ]
    .join('; ')
    .replace(/^./, (first) => first.toUpperCase())
