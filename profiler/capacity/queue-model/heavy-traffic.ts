/**
 * Capacity by heavy-traffic theory, for an SLO limit that is long compared with the service times.
 * The capacity is then close to the saturation, where a queue takes too long to become stationary
 * for a simulation. Waits are exponential with mean variance / (2 (1 - utilization)) (Kingman 1961;
 * Köllerström 1974 for several workers).
 */
import {
  collectFullDurations,
  computeSaturation,
  continueProbability,
  type QueueModel,
  servesInOrder,
} from './queue-model.ts'

/**
 * Utilization from which waits are nearly exponential. The capacity is then within 0.1 % of
 * Crommelin's exact result for constant services.
 */
const minUtilization = 0.97
/**
 * Largest lag in the sum of autocovariances; the bootstrap continues a block for 5 steps on
 * average.
 */
const maxLag = 20

/**
 * Computes the rate, per second, at which the share `allowed` of Poisson arrivals exceeds the
 * limit. Undefined where the utilization would be too low for the formula, where a full batch
 * exceeds the limit, and for servers beyond the theory: with refusals, shared cores, two stages or
 * service out of order.
 */
export function computeHeavyTrafficCapacity(
  model: QueueModel,
  limitMs: number,
  allowed: number,
): number | undefined {
  const { workers = 1, sharesCores = false, systemCapacity, batching } = model
  if (
    systemCapacity !== undefined ||
    sharesCores ||
    batching?.cores !== undefined ||
    !servesInOrder(model)
  )
    return undefined
  const servedPerMs = computeSaturation(model) / 1000
  const { meanMs, variance } = computeBusyMoments(model)
  // A full batch alone reaches the limit, so waiting does not decide.
  if (meanMs >= limitMs) return undefined
  // P(wait > limit) = allowed for exponential waits of mean variance / (2 (1 - utilization)).
  const waitScaleMs = (2 * (limitMs - meanMs)) / Math.log(1 / allowed)
  // Work arrives with variance utilization / rate² per ms and leaves with that of the service
  // steps. Both grow with the utilization.
  const variancePerMs = 1 / servedPerMs + variance / (workers * meanMs)
  const utilization = waitScaleMs / (waitScaleMs + variancePerMs)
  return utilization >= minUtilization ? 1000 * servedPerMs * utilization : undefined
}

/**
 * Computes the mean duration of the steps of a saturated queue and their long-run variance. For
 * workers, it includes the autocovariance that simulations keep between consecutive steps.
 */
function computeBusyMoments(model: QueueModel): { meanMs: number; variance: number } {
  const { workers } = model
  const tookMs = collectFullDurations(model)
  const n = tookMs.length
  const meanMs = tookMs.reduce((total, ms) => total + ms, 0) / n
  let variance = 0
  for (let lag = 0; lag <= (workers === undefined ? 0 : Math.min(maxLag, n - 1)); lag++) {
    let product = 0
    for (let i = 0; i < n; i++) product += (tookMs[i]! - meanMs) * (tookMs[(i + lag) % n]! - meanMs)
    variance += ((lag === 0 ? 1 : 2 * continueProbability ** lag) * product) / n
  }
  return { meanMs, variance: Math.max(0, variance) }
}
