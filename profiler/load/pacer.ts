/**
 * Wakes this thread at the times of a schedule. Timers of the event loop are late by up to a
 * millisecond, for it waits in whole ones; so another thread waits (Atomics.wait, to about 0.05 ms)
 * and wakes this one, which meanwhile reads answers. Neither ever spins.
 */
import { Worker } from 'node:worker_threads'
import { threadEntry } from '../module-entry.ts'
import type { Pace } from './pacer-thread.ts'

export class Pacer {
  private readonly control = new Int32Array(new SharedArrayBuffer(8))
  private readonly worker = new Worker(threadEntry('./pacer-thread', import.meta.url), {
    workerData: this.control,
    execArgv: [],
  })
  private readonly clockAheadMs = monotonicAheadMs()
  private due: (() => void) | undefined
  readonly ready: Promise<void>

  constructor() {
    this.ready = new Promise((resolve, reject) => {
      this.worker.once('message', () => {
        resolve()
        this.worker.on('message', () => {
          Atomics.store(this.control, 1, 0)
          this.due?.()
        })
      })
      this.worker.once('error', reject)
    })
    this.worker.unref()
  }

  /**
   * @param atMs times, ascending, ms from the start
   * @param startMs by performance.now()
   * @param due called once one or more of the times have come
   */
  start(atMs: Float64Array, startMs: number, due: () => void): { stop(): void } {
    const run = Atomics.add(this.control, 0, 1) + 1
    Atomics.store(this.control, 1, 0)
    this.due = due
    this.worker.postMessage({ run, atMs, startMs: startMs + this.clockAheadMs } satisfies Pace)
    return {
      stop: () => {
        this.due = undefined
        Atomics.add(this.control, 0, 1)
        Atomics.notify(this.control, 0)
      },
    }
  }
}

/**
 * How far the clock that threads share is ahead of this thread's performance.now(): the least of
 * several, as the thread may be kept waiting between two readings.
 */
function monotonicAheadMs(): number {
  const once = () => {
    const before = performance.now()
    const [seconds, nanoseconds] = process.hrtime()
    return seconds * 1000 + nanoseconds / 1e6 - before
  }
  return Math.min(...Array.from({ length: 20 }, once))
}
