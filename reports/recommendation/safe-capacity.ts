/**
 * The safe capacity, by which configurations are compared: the confirmed rate, or the rate at which
 * a confirmation would be tried.
 */
import type { CapacityAssessment } from './capacity-assessment.ts'
import type { Status } from './status.ts'

/**
 * Share of an estimate that a second measurement is likely to confirm. At 93 % the first rate tried
 * met the SLO in three of seven runs of the main job, at 90 % in four of five
 * (`npm run bench:main-job`).
 */
const confirmableShare = 0.9
/** Share of a rate proven by one short window, where the interval reaches far below it. */
const provenWindowShare = 0.8

interface CapacityEstimate {
  /** Requests per second at which the SLO's limit is reached, by one measurement. */
  readonly capacityRps: number
  readonly capacityCi90Rps: readonly [number, number]
  /** What the search predicted before the measurement, 90 % interval. */
  readonly predictedRps?: readonly [number, number]
  /** Highest rate at which a window proved the SLO by itself. */
  readonly provenRps?: number
}

/** Whether a figure is an estimate that a second measurement may contradict. */
export const isEstimate = ({
  status,
  bounds,
}: Pick<CapacityAssessment, 'bounds'> & { status: Status }): boolean =>
  (status === 'measured' || status === 'bound') && bounds !== 'upper'

/**
 * Estimate discounted as a confirmation would: at most 90 % of it, after drawing it towards the
 * prediction, and no more than the geometric mean of the estimate and its lower bound.
 * @returns requests per second; 0 for no capacity
 */
export function discountEstimate(estimate: CapacityEstimate): number {
  const { capacityRps, capacityCi90Rps, provenRps = 0 } = estimate
  const [low] = capacityCi90Rps
  const likely = confirmableShare * shrinkToPrediction(estimate)
  if (!(low > 0 && low < capacityRps)) return likely
  return Math.min(likely, Math.max(Math.sqrt(low * capacityRps), provenWindowShare * provenRps))
}

/**
 * Posterior mean of two normal estimates of ln(capacity): the measured one and the prediction, weighted
 * by their precisions. Never beyond the estimate. An interval without ends has no weight.
 */
function shrinkToPrediction({
  capacityRps,
  capacityCi90Rps,
  predictedRps,
}: CapacityEstimate): number {
  const spread = ([low, high]: readonly [number, number]) => Math.log(high / low)
  const [own, predicted] = [spread(capacityCi90Rps), predictedRps ? spread(predictedRps) : 0]
  if (predictedRps === undefined || !(own > 0 && Number.isFinite(own))) return capacityRps
  const weight = own ** 2 / (own ** 2 + predicted ** 2)
  const [low, high] = predictedRps
  return Math.min(capacityRps, capacityRps ** (1 - weight) * Math.sqrt(low * high) ** weight)
}
