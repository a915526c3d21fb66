/**
 * Servers that serve requests together, in the order of their arrival, by the first of several
 * workers that is free, and that let a batch which is not full wait for more (dynamic batching:
 * Triton's `max_queue_delay_microseconds`, TensorFlow Serving's `batch_timeout_micros`).
 *
 * Of such a server the steps from one departure to the next hang on what no step shows: how long
 * the oldest has waited already. But when each batch began is known, were there so many workers, so
 * large a batch and so long a delay: at the latest of when a worker was free and when the batch was
 * full or its oldest had waited long enough. That is right where the batches then have in them who
 * had come by then, and nobody who came after. Who left together does not hang on how long anything
 * takes: so the delay shows in the order of arrivals and departures alone.
 */
import { leastOf } from '../../statistics/index-of-min.ts'
import type { Steps } from '../service-log/service-log.ts'

/** What cores do beside batches (see two-stages.ts). */
export interface Cores {
  readonly cores: number
  /** Time of a core before a request may join a batch, ms. */
  readonly decodeMs: number
  /** Time of a core to write one answer, ms. */
  readonly writeMs: number
}

/** How a server puts batches together. */
export interface Batching {
  /** Batches that are served at once. */
  readonly workers: number
  /** Requests of a full batch. */
  readonly most: number
  /** How long one that is not full waits for more, ms. */
  readonly delayMs: number
  /** Since its oldest request came, or since a worker was free to gather it too. */
  readonly since: 'arrival' | 'free'
  /** What each request takes on its way to the workers and back, ms. */
  readonly besideMs: number
  /** Cores that decode requests before they may join a batch, and write their answers. */
  readonly cores?: Cores
}

/**
 * Latencies under arrivals (ms, ascending), in their order, into `latencyMs`: batches are served so
 * long, and their delay takes `slowness` times as long.
 */
export function serveByBatches(
  batching: Batching,
  servedMs: (size: number, beganMs: number) => number,
  slowness: number,
  arrivalsMs: Float64Array,
  latencyMs: Float64Array,
): void {
  // Arrivals are those at the workers.
  const way = { ...batching, delayMs: slowness * batching.delayMs, besideMs: 0 }
  const freeMs = new Float64Array(way.workers).fill(Number.NEGATIVE_INFINITY)
  for (let first = 0; first < arrivalsMs.length; ) {
    const worker = leastOf(freeMs)
    const beganMs = beginsMs(way, arrivalsMs, first, freeMs[worker]!)
    let next = first + 1
    while (next < arrivalsMs.length && next - first < way.most && arrivalsMs[next]! <= beganMs)
      next++
    const endedMs = beganMs + servedMs(next - first, beganMs)
    freeMs[worker] = endedMs
    for (; first < next; first++) latencyMs[first] = endedMs - arrivalsMs[first]!
  }
}

/**
 * When the batch of a request begins that is the oldest of those not yet served, a worker being
 * free from some time on.
 */
export function beginsMs(
  { most, delayMs, since, besideMs }: Batching,
  sentMs: Float64Array,
  first: number,
  freeMs: number,
): number {
  const cameMs = sentMs[first]! + besideMs
  const waitsUntilMs = (since === 'arrival' ? cameMs : Math.max(cameMs, freeMs)) + delayMs
  const fullMs =
    first + most <= sentMs.length ? sentMs[first + most - 1]! + besideMs : Number.POSITIVE_INFINITY
  return Math.max(freeMs, cameMs, Math.min(waitsUntilMs, fullMs))
}

/** What a batch of so many takes. */
export interface Line {
  readonly baseMs: number
  readonly msEach: number
}

export const lineAt = ({ baseMs, msEach }: Line, size: number): number => baseMs + msEach * size

/**
 * A straight line through steps over their size, by least squares of the share by which they differ
 * from it.
 */
export function lineThrough({ tookMs, departed }: Steps): Line {
  let line: Line = { baseMs: 1, msEach: 0 }
  for (let pass = 0; pass < 2; pass++) {
    let [w, x, y, xx, xy] = [0, 0, 0, 0, 0]
    for (const [i, ms] of tookMs.entries()) {
      const size = departed[i]!
      const weight = 1 / lineAt(line, size) ** 2
      w += weight
      x += weight * size
      y += weight * ms
      xx += weight * size * size
      xy += weight * size * ms
    }
    const variance = xx / w - (x / w) ** 2
    // A batch takes no less for being larger, and none takes nothing.
    const msEach = Math.min(
      y / x,
      variance > 1e-9 ? Math.max(0, (xy / w - (x * y) / w ** 2) / variance) : 0,
    )
    line = { baseMs: Math.max(1e-6, (y - msEach * x) / w), msEach }
  }
  return line
}
