/**
 * Dynamic batching: requests are served in arrival order by the first free worker, and a batch that
 * is not full waits for more (Triton's `max_queue_delay_microseconds`, TensorFlow Serving's
 * `batch_timeout_micros`).
 *
 * The time between departures of such a server depends on how long its oldest request has already
 * waited, which a service log does not record. Given the number of workers, the batch size and the
 * delay, each batch start is known: a worker is free, and the batch is full or its oldest request
 * has waited for the delay. The parameters are right where each batch then holds exactly the
 * requests that had arrived by its start. This test does not use batch durations, so the delay
 * follows from the times of arrivals and departures alone.
 */
import { indexOfMin } from '../../statistics/index-of-min.ts'
import type { ServiceLog } from '../service-log/service-log.ts'

/** Cores that work in parallel with the batches (see two-stages.ts). */
export interface TwoStageCores {
  readonly cores: number
  /** Core time before a request may join a batch, ms. */
  readonly decodeMs: number
  /** Core time to write one answer, ms. */
  readonly writeMs: number
}

/** Parameters of dynamic batching. */
export interface Batching {
  /** Batches that are served at the same time. */
  readonly workers: number
  /** Requests in a full batch. */
  readonly maxBatch: number
  /** Time for which a batch that is not full waits for more, ms. */
  readonly delayMs: number
  /**
   * Start of the delay: the arrival of the oldest request, or the later of that and a free worker.
   */
  readonly since: 'arrival' | 'free'
  /** Network and framework time of a request, before and after the workers, ms. */
  readonly overheadMs: number
  /** Cores that decode requests before they may join a batch, and that write the answers. */
  readonly cores?: TwoStageCores
}

/**
 * Simulates the latencies of requests under given arrivals (ms, ascending) and writes them to
 * `latencyMs`. The batching delay takes `slowness` times as long.
 * @param servedMs duration of a batch by size and start, slowness included; called in time order
 */
export function simulateBatches(
  batching: Batching,
  servedMs: (size: number, beganMs: number) => number,
  slowness: number,
  arrivalsMs: Float64Array,
  latencyMs: Float64Array,
): void {
  // The simulated arrivals are those at the workers, after the overhead.
  const atWorkers = { ...batching, delayMs: slowness * batching.delayMs, overheadMs: 0 }
  const freeMs = new Float64Array(atWorkers.workers).fill(Number.NEGATIVE_INFINITY)
  for (let first = 0; first < arrivalsMs.length; ) {
    const worker = indexOfMin(freeMs)
    const beganMs = computeBatchStart(atWorkers, arrivalsMs, first, freeMs[worker]!)
    let next = first + 1
    while (
      next < arrivalsMs.length &&
      next - first < atWorkers.maxBatch &&
      arrivalsMs[next]! <= beganMs
    )
      next++
    const endedMs = beganMs + servedMs(next - first, beganMs)
    freeMs[worker] = endedMs
    for (; first < next; first++) latencyMs[first] = endedMs - arrivalsMs[first]!
  }
}

/**
 * Computes the start of the batch whose oldest request is `first`, given the time from which a
 * worker is free.
 */
export function computeBatchStart(
  { maxBatch, delayMs, since, overheadMs }: Batching,
  sentMs: Float64Array,
  first: number,
  freeMs: number,
): number {
  const arrivedMs = sentMs[first]! + overheadMs
  const waitsUntilMs = (since === 'arrival' ? arrivedMs : Math.max(arrivedMs, freeMs)) + delayMs
  const fullMs =
    first + maxBatch <= sentMs.length
      ? sentMs[first + maxBatch - 1]! + overheadMs
      : Number.POSITIVE_INFINITY
  return Math.max(freeMs, arrivedMs, Math.min(waitsUntilMs, fullMs))
}

/** Duration of a batch as a straight line over its size. */
export interface BatchLine {
  readonly baseMs: number
  readonly msEach: number
}

export const evaluateLine = ({ baseMs, msEach }: BatchLine, size: number): number =>
  baseMs + msEach * size

/** Fits batch durations over batch size by least squares of the relative error. */
export function fitLine({ tookMs, departed }: ServiceLog): BatchLine {
  let line: BatchLine = { baseMs: 1, msEach: 0 }
  for (let pass = 0; pass < 2; pass++) {
    let [w, x, y, xx, xy] = [0, 0, 0, 0, 0]
    for (const [i, ms] of tookMs.entries()) {
      const size = departed[i]!
      const weight = 1 / evaluateLine(line, size) ** 2
      w += weight
      x += weight * size
      y += weight * ms
      xx += weight * size * size
      xy += weight * size * ms
    }
    const variance = xx / w - (x / w) ** 2
    // A larger batch never takes less time, and no batch takes no time.
    const msEach = Math.min(
      y / x,
      variance > 1e-9 ? Math.max(0, (xy / w - (x * y) / w ** 2) / variance) : 0,
    )
    line = { baseMs: Math.max(1e-6, (y - msEach * x) / w), msEach }
  }
  return line
}
