/**
 * The capacity of a queue whose SLO is long beside its services: there it is nearly all of the
 * saturation, and a queue so busy takes longer to forget than any simulation lasts. What is left of
 * the saturation follows from how fast work comes and goes, and how much both vary (heavy traffic:
 * Kingman 1961; for several workers Köllerström 1974): waits are exponential, of mean variance / (2
 * (1 - utilization)).
 */
import {
  continueProbability,
  saturationOf,
  stepsWhenFull,
  type Twin,
  takesInOrder,
} from './queue-model.ts'

/**
 * Utilization from which waits are near enough to exponential: the capacity is then within 0.1 % of
 * Crommelin's for constant services.
 */
const busy = 0.97
const lags = 20

/**
 * Requests per second at which the share `allowed` of Poisson arrivals stays longer than the limit.
 * Undefined where the queue is not busy enough then for the formula, nor full batches within the
 * limit, or of another kind: requests refused, shared cores, two stages, an order other than that
 * of arrival.
 */
export function heavyTrafficCapacity(
  twin: Twin,
  limitMs: number,
  allowed: number,
): number | undefined {
  const { workers = 1, shared = false, places, batching } = twin
  if (places !== undefined || shared || batching?.cores !== undefined || !takesInOrder(twin))
    return undefined
  const servedPerMs = saturationOf(twin) / 1000
  const { meanMs, variance } = stepsWhenBusy(twin)
  // A full batch takes as long as that by itself: it is not waiting that decides.
  if (meanMs >= limitMs) return undefined
  const times = (2 * (limitMs - meanMs)) / Math.log(1 / allowed)
  // Work, in ms, comes at utilization / rate² of variance per ms, and goes at that of the steps:
  // both grow with the utilization.
  const varies = 1 / servedPerMs + variance / (workers * meanMs)
  const utilization = times / (times + varies)
  return utilization >= busy ? 1000 * servedPerMs * utilization : undefined
}

/**
 * Mean of the steps of a queue without end, and their variance in the long run: with that of
 * neighbours, which the twin mostly takes in a row.
 */
function stepsWhenBusy(twin: Twin): { meanMs: number; variance: number } {
  const { workers } = twin
  const tookMs = stepsWhenFull(twin)
  const n = tookMs.length
  const meanMs = tookMs.reduce((total, ms) => total + ms, 0) / n
  let variance = 0
  for (let lag = 0; lag <= (workers === undefined ? 0 : Math.min(lags, n - 1)); lag++) {
    let product = 0
    for (let i = 0; i < n; i++) product += (tookMs[i]! - meanMs) * (tookMs[(i + lag) % n]! - meanMs)
    variance += ((lag === 0 ? 1 : 2 * continueProbability ** lag) * product) / n
  }
  return { meanMs, variance: Math.max(0, variance) }
}
