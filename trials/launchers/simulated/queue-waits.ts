/** Waiting times in queues, in closed form. */

/** Standard normal quantile (Winitzki 2008, by his approximation of erf⁻¹): accurate to 1 %. */
export function computeNormalQuantile(p: number): number {
  const x = 2 * p - 1
  const ln = Math.log(1 - x * x)
  const a = 2 / (Math.PI * 0.147) + ln / 2
  return Math.sign(x) * Math.sqrt(2) * Math.sqrt(Math.sqrt(a * a - ln / 0.147) - a)
}

/** A queue with one server. */
export interface Queue {
  readonly serviceMs: number
  /** Arrival rate times service time, below 1. */
  readonly utilization: number
  /** Squared coefficient of variation of the service times. */
  readonly serviceCv2: number
  /** Squared coefficient of variation of the times between arrivals. Default 1: Poisson. */
  readonly arrivalCv2?: number
}

/**
 * Mean wait of the requests that wait at all, ms: s (ca² + cs²) / 2 (1 − ρ). For Poisson arrivals
 * it follows from the formula of Pollaczek and Khinchine, for others from Kingman's (1961).
 */
const computeMeanDelayedMs = ({
  serviceMs,
  utilization,
  serviceCv2,
  arrivalCv2 = 1,
}: Queue): number => (serviceMs * (arrivalCv2 + serviceCv2)) / (2 * (1 - utilization))

/** Mean wait of all requests, ms: the share ρ of them waits. */
export const computeMeanWaitMs = (queue: Queue): number =>
  queue.utilization * computeMeanDelayedMs(queue)

/** Quantile q of the wait, ms: the share ρ of the requests waits, with an exponential tail. */
export const computeWaitQuantileMs = (queue: Queue, q: number): number =>
  queue.utilization > 0
    ? computeMeanDelayedMs(queue) * Math.max(0, Math.log(queue.utilization / (1 - q)))
    : 0

/**
 * Quantile q of the wait, ms, in a queue with several servers: the mean by Sakasegawa (1977) and an
 * exponential tail.
 */
export function computeMultiServerWaitMs(
  servers: number,
  { utilization, serviceMs }: Pick<Queue, 'utilization' | 'serviceMs'>,
  q: number,
): number {
  const meanMs =
    (utilization ** (Math.sqrt(2 * (servers + 1)) - 1) * serviceMs) / (servers * (1 - utilization))
  return meanMs * Math.max(0, Math.log(utilization / (1 - q)))
}
