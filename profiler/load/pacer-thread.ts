/** Thread of the pacer: sleeps until the next scheduled time and wakes the sending thread. */
import { parentPort, workerData } from 'node:worker_threads'

export interface Pace {
  /** Number of the run, which is over once the shared counter differs. */
  readonly run: number
  /** Scheduled times, ascending, ms from `startMs`. */
  readonly atMs: Float64Array
  /** By the monotonic clock. */
  readonly startMs: number
}

/** Shared with the pacer: [number of the current run, 1 while a wake-up is pending]. */
const control = workerData as Int32Array
const port = parentPort!

const readMonotonicMs = () => {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1000 + nanoseconds / 1e6
}

port.on('message', ({ run, atMs, startMs }: Pace) => {
  for (let next = 0; next < atMs.length && Atomics.load(control, 0) === run; ) {
    const leftMs = startMs + atMs[next]! - readMonotonicMs()
    if (leftMs > 0) {
      Atomics.wait(control, 0, run, leftMs)
      continue
    }
    const now = readMonotonicMs() - startMs
    while (next < atMs.length && atMs[next]! <= now) next++
    // One message suffices: a sender that was woken but has not run yet will find all due requests.
    if (Atomics.exchange(control, 1, 1) === 0) port.postMessage(undefined)
  }
})
// The thread is ready.
port.postMessage(undefined)
