/**
 * The figure by which configurations are compared: the rate that is relied on. Of a confirmed
 * configuration that is the confirmed rate, of others what a confirmation would be tried at.
 */
import type { Known, Status } from './status.ts'

/**
 * Part of an estimate that still holds in a second measurement. At 93 % the rate first tried held
 * in three of seven runs of the main job, at 90 % in four of five (`npm run bench:main-job`).
 */
const confirmablePart = 0.9
/** Part of a rate met by one short window, where the interval reaches far below it. */
const windowPart = 0.8

interface CapacityEstimate {
  /** Requests per second at which one measurement sees the SLO reached. */
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
}: Pick<Known, 'bounds'> & { status: Status }): boolean =>
  (status === 'measured' || status === 'bound') && bounds !== 'upper'

/**
 * Estimate discounted as a confirmation would: at most 90 % of it, after drawing it towards the
 * prediction, and no more than the geometric mean of the estimate and its lower bound.
 * @returns requests per second; 0 for no capacity
 */
export function discountEstimate(estimate: CapacityEstimate): number {
  const { capacityRps, capacityCi90Rps, provenRps = 0 } = estimate
  const [low] = capacityCi90Rps
  const likely = confirmablePart * shrinkToPrediction(estimate)
  if (!(low > 0 && low < capacityRps)) return likely
  return Math.min(likely, Math.max(Math.sqrt(low * capacityRps), windowPart * provenRps))
}

/**
 * Posterior mean of two normal readings of ln(capacity): the estimate and the prediction, weighted
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
