/**
 * Wakes this thread at scheduled times. Timers of the event loop have millisecond resolution, so a
 * second thread waits instead (Atomics.wait, precise to about 0.05 ms) and sends this one a
 * message. Meanwhile this thread reads answers. Neither thread spins.
 */
import { Worker } from 'node:worker_threads'
import { resolveThreadEntry } from '../module-entry.ts'
import type { Pace } from './pacer-thread.ts'

export class Pacer {
  /** Shared with the thread: [number of the current run, 1 while a wake-up is pending]. */
  private readonly control = new Int32Array(new SharedArrayBuffer(8))
  private readonly worker = new Worker(resolveThreadEntry('./pacer-thread', import.meta.url), {
    workerData: this.control,
    execArgv: [],
  })
  private readonly clockAheadMs = measureClockAheadMs()
  private onDue: (() => void) | undefined
  readonly ready: Promise<void>

  constructor() {
    this.ready = new Promise((resolve, reject) => {
      this.worker.once('message', () => {
        resolve()
        this.worker.on('message', () => {
          Atomics.store(this.control, 1, 0)
          this.onDue?.()
        })
      })
      this.worker.once('error', reject)
    })
    this.worker.unref()
  }

  /**
   * Starts a run, and ends the one before.
   * @param atMs times, ascending, ms from the start
   * @param startMs start by performance.now()
   * @param onDue called once one or more times have passed
   */
  start(atMs: Float64Array, startMs: number, onDue: () => void): { stop(): void } {
    const run = Atomics.add(this.control, 0, 1) + 1
    Atomics.store(this.control, 1, 0)
    this.onDue = onDue
    this.worker.postMessage({ run, atMs, startMs: startMs + this.clockAheadMs } satisfies Pace)
    return {
      stop: () => {
        this.onDue = undefined
        Atomics.add(this.control, 0, 1)
        Atomics.notify(this.control, 0)
      },
    }
  }
}

/** Readings of the clocks. Assumed. */
const clockReadings = 20

/**
 * Measures by how much the clock shared by threads is ahead of this thread's performance.now(): the
 * smallest of several readings, as the thread may be delayed between the two clocks.
 */
function measureClockAheadMs(): number {
  const readOffsetMs = () => {
    const before = performance.now()
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1000 + nanoseconds / 1e6 - before
  }
  return Math.min(...Array.from({ length: clockReadings }, readOffsetMs))
}
