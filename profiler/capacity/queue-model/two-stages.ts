/**
 * Two-stage servers: cores decode requests and write answers, one task each and in order; an
 * accelerator serves batches of decoded requests (Python and Node servers, Triton with a
 * pre-processing model, the built-in predictor). Either stage may be the bottleneck, and neither is
 * observed directly.
 */
import { indexOfMin } from '../../statistics/index-of-min.ts'
import type { Batching, TwoStageCores } from './batching.ts'

/** Highest rate at which the cores can decode requests and write answers, per second. */
export const maxCoresRps = (of: TwoStageCores | undefined): number =>
  of === undefined ? Number.POSITIVE_INFINITY : (1000 * of.cores) / (of.decodeMs + of.writeMs)

/** A first-in, first-out queue of indices, from `head` to `tail`. */
class IndexQueue {
  private readonly of: Int32Array
  private head = 0
  private tail = 0
  constructor(maxBatch: number) {
    this.of = new Int32Array(maxBatch)
  }
  get size(): number {
    return this.tail - this.head
  }
  get first(): number {
    return this.of[this.head]!
  }
  add(item: number): void {
    this.of[this.tail++] = item
  }
  take(): number {
    return this.of[this.head++]!
  }
}

/** Time of an event that is not scheduled. */
const never = Number.POSITIVE_INFINITY

/**
 * Simulates the latencies of requests under given arrivals (ms, ascending) and writes them to
 * `latencyMs`. Core times and the batching delay take `slowness` times as long.
 * @param servedMs duration of a batch by size and start, slowness included; called in time order
 */
export function simulateTwoStages(
  { cores, decodeMs, writeMs }: TwoStageCores,
  { maxBatch, delayMs }: Pick<Batching, 'maxBatch' | 'delayMs'>,
  servedMs: (size: number, beganMs: number) => number,
  slowness: number,
  arrivalsMs: Float64Array,
  latencyMs: Float64Array,
): void {
  const n = arrivalsMs.length
  /** Tasks that wait for a core: a request index to decode, or its complement (~) to write. */
  const tasks = new IndexQueue(2 * n)
  const decoded = new IndexQueue(n)
  const decodedAtMs = new Float64Array(n)
  const doneMs = new Float64Array(cores).fill(never)
  const doing = new Int32Array(cores)
  const batch = new Int32Array(maxBatch)
  let inBatch = 0
  let batchMs = never
  let idle = cores
  let arrived = 0
  let now = 0
  const startTasks = () => {
    for (let core = 0; idle > 0 && tasks.size > 0; core++) {
      if (doneMs[core] !== never) continue
      doing[core] = tasks.take()
      doneMs[core] = now + slowness * (doing[core]! < 0 ? writeMs : decodeMs)
      idle--
    }
  }
  /** Start of the next batch: at once if full, else after the delay of its oldest request. */
  const nextBatchMs = () => {
    if (inBatch > 0 || decoded.size === 0) return never
    return decoded.size >= maxBatch ? now : decodedAtMs[decoded.first]! + slowness * delayMs
  }
  for (;;) {
    const core = indexOfMin(doneMs)
    const arrivalMs = arrived < n ? arrivalsMs[arrived]! : never
    const nextMs = Math.min(arrivalMs, doneMs[core]!, batchMs, Math.max(now, nextBatchMs()))
    if (nextMs === never) return
    now = nextMs
    if (batchMs === now) {
      for (let i = 0; i < inBatch; i++) tasks.add(~batch[i]!)
      inBatch = 0
      batchMs = never
    } else if (doneMs[core] === now) {
      const task = doing[core]!
      doneMs[core] = never
      idle++
      if (task < 0) latencyMs[~task] = now - arrivalsMs[~task]!
      else {
        decodedAtMs[task] = now
        decoded.add(task)
      }
    } else if (arrivalMs === now) tasks.add(arrived++)
    if (nextBatchMs() <= now) {
      for (; inBatch < maxBatch && decoded.size > 0; inBatch++) batch[inBatch] = decoded.take()
      batchMs = now + servedMs(inBatch, now)
    }
    startTasks()
  }
}
