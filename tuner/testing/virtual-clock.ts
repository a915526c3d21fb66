/**
 * A clock that stands still while anything computes, and goes on to the next that sleeps once all
 * do.
 */
export class VirtualClock {
  /** ms */
  now = 0
  private readonly sleeping: { readonly untilMs: number; readonly wake: () => void }[] = []

  sleep(seconds: number): Promise<void> {
    return new Promise((wake) => this.sleeping.push({ untilMs: this.now + 1000 * seconds, wake }))
  }

  /** Lets the time pass until `work` is done, which awaits nothing but this clock. */
  async pass<T>(work: Promise<T>): Promise<T> {
    let done = false
    const settle = () => {
      done = true
    }
    work.then(settle, settle)
    while (!done) {
      // Whatever could go on without the clock has gone on when this comes back.
      await new Promise((resolve) => setImmediate(resolve))
      const next = this.sleeping.reduce(
        (first, one, i) => (one.untilMs < (this.sleeping[first]?.untilMs ?? Infinity) ? i : first),
        0,
      )
      const [woken] = this.sleeping.splice(next, 1)
      if (woken === undefined) continue
      this.now = woken.untilMs
      woken.wake()
    }
    return work
  }
}
