/**
 * Servers of two stages at once: cores that decode requests and write answers, one task each at a
 * time and in order, beside an accelerator that serves batches of those that are decoded (Python
 * and Node servers, Triton with a pre-processing model, the built-in predictor). Either stage may
 * be the slower one; neither shows by itself.
 */
import { leastOf } from '../../statistics/index-of-min.ts'
import type { Batching, Cores } from './batching.ts'

/** Requests per second that the cores decode and write at most; without any, no limit. */
export const mostOfCoresRps = (of: Cores | undefined): number =>
  of === undefined ? Number.POSITIVE_INFINITY : (1000 * of.cores) / (of.decodeMs + of.writeMs)

/**
 * Tasks of the cores and requests that are decoded wait in the order in which they came: those from
 * `head` to `tail`.
 */
class Waiting {
  private readonly of: Int32Array
  private head = 0
  private tail = 0
  constructor(most: number) {
    this.of = new Int32Array(most)
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

const never = Number.POSITIVE_INFINITY

/**
 * Latencies under arrivals (ms, ascending), in their order, into `latencyMs`. Cores, batches and
 * the delay of those that are not full all take `slowness` times as long.
 * @param servedMs how long a batch of so many that begins then is served, asked for in order of
 * time, slowness included
 */
export function serveByStages(
  { cores, decodeMs, writeMs }: Cores,
  { most, delayMs }: Pick<Batching, 'most' | 'delayMs'>,
  servedMs: (size: number, beganMs: number) => number,
  slowness: number,
  arrivalsMs: Float64Array,
  latencyMs: Float64Array,
): void {
  const n = arrivalsMs.length
  /** Requests to decode, and as ~request answers to write. */
  const tasks = new Waiting(2 * n)
  const decoded = new Waiting(n)
  const decodedAtMs = new Float64Array(n)
  const doneMs = new Float64Array(cores).fill(never)
  const doing = new Int32Array(cores)
  const batch = new Int32Array(most)
  let inBatch = 0
  let batchMs = never
  let idle = cores
  let arrived = 0
  let now = 0
  const compute = () => {
    for (let core = 0; idle > 0 && tasks.size > 0; core++) {
      if (doneMs[core] !== never) continue
      doing[core] = tasks.take()
      doneMs[core] = now + slowness * (doing[core]! < 0 ? writeMs : decodeMs)
      idle--
    }
  }
  /** Time until which a batch that is not full waits for more. */
  const waitsUntilMs = () => {
    if (inBatch > 0 || decoded.size === 0) return never
    return decoded.size >= most ? now : decodedAtMs[decoded.first]! + slowness * delayMs
  }
  for (;;) {
    const core = leastOf(doneMs)
    const arrivalMs = arrived < n ? arrivalsMs[arrived]! : never
    const nextMs = Math.min(arrivalMs, doneMs[core]!, batchMs, Math.max(now, waitsUntilMs()))
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
    if (waitsUntilMs() <= now) {
      for (; inBatch < most && decoded.size > 0; inBatch++) batch[inBatch] = decoded.take()
      batchMs = now + servedMs(inBatch, now)
    }
    compute()
  }
}
