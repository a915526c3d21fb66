/**
 * Runs long work in time slices of a few milliseconds, so that the page keeps scrolling and
 * responding meanwhile.
 */

/** About half of a frame of 16.7 ms; the other half is left to the page. */
const sliceMs = 8

export class TimeSlicer {
  #timer?: ReturnType<typeof setTimeout>

  /**
   * Starts after a pause, and cancels the work in progress.
   * @param steps creates a generator that yields wherever the work may be interrupted
   * @param done receives the generator's return value
   */
  start<T>(pauseMs: number, steps: () => Generator<unknown, T>, done: (result: T) => void): void {
    this.stop()
    this.#timer = setTimeout(() => this.#runSlice(steps(), done), pauseMs)
  }

  #runSlice<T>(steps: Generator<unknown, T>, done: (result: T) => void): void {
    const until = performance.now() + sliceMs
    do {
      const step = steps.next()
      if (step.done) {
        this.#timer = undefined
        done(step.value)
        return
      }
    } while (performance.now() < until)
    this.#timer = setTimeout(() => this.#runSlice(steps, done))
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  get isRunning(): boolean {
    return this.#timer !== undefined
  }
}
