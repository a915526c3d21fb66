/**
 * Bulk service in arrival order: the first free worker takes the oldest requests, and a batch that
 * is not full waits for more (Triton's `max_queue_delay_microseconds`, TensorFlow Serving's
 * `batch_timeout_micros`). With batches of one request it is a first come, first served queue.
 */
import { findIndexOfMin } from '../../statistics/index-of-min.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { type ServiceDiscipline, startDelay } from './service-discipline.ts'

/**
 * Simulates the latencies of requests under given arrivals (ms, ascending) and writes them to
 * `latencyMs`; Infinity for requests that find `systemCapacity` others. The batching delay takes
 * `slowness` times as long.
 * @param servedMs duration of a batch by size and start, slowness included; called in time order
 */
export function simulateBulkService(
  discipline: Omit<ServiceDiscipline, 'overheadMs'>,
  servedMs: (size: number, beganMs: number) => number,
  slowness: number,
  arrivalsMs: Float64Array,
  systemCapacity: number,
  latencyMs: Float64Array,
): void {
  const { workers, maxBatch, maxDelayMs } = discipline
  const n = arrivalsMs.length
  const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
  const admitted = new Int32Array(n)
  const isLimited = systemCapacity < n
  /** Ends of the requests in service, ascending from `departedCount` on. */
  const endsMs = new Float64Array(isLimited ? n : 0)
  let admittedCount = 0
  /** Requests whose service has begun. */
  let startedCount = 0
  let departedCount = 0
  /** The worker that is free first. */
  let worker = 0
  const startBefore = (untilMs: number) => {
    while (startedCount < admittedCount && freeMs[worker]! < untilMs) {
      const oldestMs = arrivalsMs[admitted[startedCount]!]!
      const delayedMs = startDelay(discipline, oldestMs, freeMs[worker]!) + slowness * maxDelayMs
      const dueMs =
        admittedCount - startedCount < maxBatch
          ? delayedMs
          : Math.min(delayedMs, arrivalsMs[admitted[startedCount + maxBatch - 1]!]!)
      const beganMs = Math.max(freeMs[worker]!, dueMs)
      if (beganMs >= untilMs) return
      const size = Math.min(maxBatch, admittedCount - startedCount)
      const endedMs = beganMs + servedMs(size, beganMs)
      freeMs[worker] = endedMs
      worker = findIndexOfMin(freeMs)
      for (const next = startedCount + size; startedCount < next; startedCount++) {
        const request = admitted[startedCount]!
        latencyMs[request] = endedMs - arrivalsMs[request]!
        if (!isLimited) continue
        let position = startedCount
        for (; position > departedCount && endsMs[position - 1]! > endedMs; position--)
          endsMs[position] = endsMs[position - 1]!
        endsMs[position] = endedMs
      }
    }
  }
  for (let i = 0; i < n; i++) {
    const atMs = arrivalsMs[i]!
    startBefore(atMs)
    while (isLimited && departedCount < startedCount && endsMs[departedCount]! <= atMs)
      departedCount++
    if (admittedCount - departedCount < systemCapacity) admitted[admittedCount++] = i
    else latencyMs[i] = Number.POSITIVE_INFINITY
  }
  startBefore(Number.POSITIVE_INFINITY)
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
  // Without weights at first, then weighted by the durations of that line.
  for (let pass = 0; pass < 2; pass++) {
    // Weighted sums for sizes x and durations y.
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
