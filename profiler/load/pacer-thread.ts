/**
 * The pacer's own thread: sleeps from one time of the schedule to the next, and wakes the thread
 * that sends.
 */
import { parentPort, workerData } from 'node:worker_threads'

export interface Pace {
  /** Number of the run: once the first of the shared numbers is another, it is over. */
  readonly run: number
  readonly atMs: Float64Array
  /** By the monotonic clock. */
  readonly startMs: number
}

const control = workerData as Int32Array
const port = parentPort!

const monotonicMs = () => {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1000 + nanoseconds / 1e6
}

port.on('message', ({ run, atMs, startMs }: Pace) => {
  for (let next = 0; next < atMs.length && Atomics.load(control, 0) === run; ) {
    const leftMs = startMs + atMs[next]! - monotonicMs()
    if (leftMs > 0) {
      Atomics.wait(control, 0, run, leftMs)
      continue
    }
    const now = monotonicMs() - startMs
    while (next < atMs.length && atMs[next]! <= now) next++
    // One that was woken and has not come yet will find all that is due.
    if (Atomics.exchange(control, 1, 1) === 0) port.postMessage(undefined)
  }
})
port.postMessage(undefined)
