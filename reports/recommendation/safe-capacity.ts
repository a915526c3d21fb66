/**
 * The safe capacity, by which configurations are ranked: the confirmed rate, else the rate at which
 * a confirmation would measure.
 */
import type { CapacityAssessment } from './capacity-assessment.ts'
import type { Status } from './status.ts'

/**
 * Share of an estimate that a second measurement is likely to confirm. In `npm run bench:main-job`,
 * the first rate met the SLO in four of five runs at 90 % of the estimate, and in three of seven at
 * 93 %.
 */
const confirmableShare = 0.9
/**
 * Lower bound of the discount, as a share of the highest rate that one window proved. It applies if
 * the interval reaches far below that rate. One short window is weak evidence, hence not all of it.
 */
const minProvenRateShare = 0.8

interface CapacityEstimate {
  /** Highest rate that meets the SLO by one measurement, requests per second. */
  readonly capacityRps: number
  readonly capacityCi90Rps: readonly [number, number]
  /** Prediction of the search before the measurement, 90 % interval, requests per second. */
  readonly predictedRps?: readonly [number, number]
  /** Highest rate at which a single window proves the SLO, requests per second. */
  readonly provenRps?: number
}

/**
 * Whether a capacity was measured only once, so that a confirmation may refute it. Upper bounds are
 * not discounted.
 */
export const isUnconfirmedEstimate = ({
  status,
  bounds,
}: Pick<CapacityAssessment, 'bounds'> & { status: Status }): boolean =>
  (status === 'measured' || status === 'bound') && bounds !== 'upper'

/**
 * Discounts an estimate to a rate that a confirmation is likely to confirm: 90 % of the estimate,
 * shrunk towards the prediction. If the interval has a lower end, the result is at most the
 * geometric mean of estimate and lower end, or 80 % of the proven rate if that is higher.
 * @returns requests per second; 0 for an estimate of 0
 */
export function discountEstimate(estimate: CapacityEstimate): number {
  const { capacityRps, capacityCi90Rps, provenRps = 0 } = estimate
  const [low] = capacityCi90Rps
  const confirmableRps = confirmableShare * shrinkToPrediction(estimate)
  if (!(low > 0 && low < capacityRps)) return confirmableRps
  return Math.min(
    confirmableRps,
    Math.max(Math.sqrt(low * capacityRps), minProvenRateShare * provenRps),
  )
}

/**
 * Shrinks the estimate towards the prediction: the precision-weighted mean of two normal estimates
 * of ln(capacity), at most the measured one. Without a prediction, or with an unbounded interval,
 * the estimate stays.
 */
function shrinkToPrediction({
  capacityRps,
  capacityCi90Rps,
  predictedRps,
}: CapacityEstimate): number {
  const computeLogWidth = ([low, high]: readonly [number, number]) => Math.log(high / low)
  const [measuredWidth, predictedWidth] = [
    computeLogWidth(capacityCi90Rps),
    predictedRps ? computeLogWidth(predictedRps) : 0,
  ]
  if (predictedRps === undefined || !(measuredWidth > 0 && Number.isFinite(measuredWidth)))
    return capacityRps
  const predictionWeight = measuredWidth ** 2 / (measuredWidth ** 2 + predictedWidth ** 2)
  const [low, high] = predictedRps
  return Math.min(
    capacityRps,
    capacityRps ** (1 - predictionWeight) * Math.sqrt(low * high) ** predictionWeight,
  )
}
