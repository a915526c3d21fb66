/**
 * Capacity by heavy-traffic theory, for an SLO limit that is long compared with the service times.
 * There the capacity is close to the saturation, and a queue so busy takes longer to reach its
 * steady state than any simulation lasts. Waits are exponential with mean variance / (2 (1 -
 * utilization)) (Kingman 1961; Köllerström 1974 for several workers).
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
const maxLag = 20

/**
 * Rate, per second, at which the share `allowed` of Poisson arrivals exceeds the limit. Undefined
 * where the utilization would be too low for the formula, where a full batch exceeds the limit, and
 * for other disciplines: refusals, shared cores, two stages, service out of order.
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
  const times = (2 * (limitMs - meanMs)) / Math.log(1 / allowed)
  // Work arrives with variance utilization / rate² per ms and leaves with that of the service
  // steps. Both grow with the utilization.
  const varies = 1 / servedPerMs + variance / (workers * meanMs)
  const utilization = times / (times + varies)
  return utilization >= minUtilization ? 1000 * servedPerMs * utilization : undefined
}

/**
 * Mean duration of the steps of a saturated queue, and their long-run variance with the
 * autocovariance of consecutive steps.
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
