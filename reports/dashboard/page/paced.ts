/**
 * Long work in steps, a few milliseconds at a time: the page goes on scrolling and answering
 * meanwhile.
 */

/** Of a frame of 16.7 ms this much is left to the page. */
const sliceMs = 8

export class Paced {
  #timer?: ReturnType<typeof setTimeout>

  /**
   * Begins after a pause; what was under way is given up. @param done with what the last step
   * returned
   */
  begin<T>(pauseMs: number, steps: () => Generator<unknown, T>, done: (result: T) => void): void {
    this.stop()
    this.#timer = setTimeout(() => this.#goOn(steps(), done), pauseMs)
  }

  #goOn<T>(steps: Generator<unknown, T>, done: (result: T) => void): void {
    const until = performance.now() + sliceMs
    do {
      const step = steps.next()
      if (step.done) {
        this.#timer = undefined
        done(step.value)
        return
      }
    } while (performance.now() < until)
    this.#timer = setTimeout(() => this.#goOn(steps, done))
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  get isUnderWay(): boolean {
    return this.#timer !== undefined
  }
}
