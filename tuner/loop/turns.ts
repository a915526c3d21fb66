/**
 * Whose turn it is: so many trials run at a time. One that waits for the cluster to add a node lets
 * others run meanwhile, and has its turn again once it serves.
 */

export class Turns {
  readonly #most: number
  /** Trials by their numbers. */
  readonly #running = new Set<number>()
  readonly #away = new Set<number>()
  /** Those that serve by now, in order. */
  readonly #back: { readonly number: number; readonly admit: () => void }[] = []
  #told: () => void = () => undefined
  #freed = this.#nextFreed()

  /** @param most that run at a time */
  constructor(most: number) {
    this.#most = most
  }

  /** Whether another trial may start. */
  get free(): boolean {
    return this.#back.length === 0 && this.#running.size < this.#most
  }

  start(number: number): void {
    this.#running.add(number)
  }

  /**
   * The trial waits, and another may start. So many wait at a time at most that the nodes that are
   * added for them are not a fleet: any further one waits in its turn.
   * @returns whether it gave its turn up
   */
  giveUp(number: number): boolean {
    if (!this.#running.has(number) || this.#away.size >= Math.max(mostAway, this.#most))
      return false
    this.#running.delete(number)
    this.#away.add(number)
    this.#told()
    this.#freed = this.#nextFreed()
    return true
  }

  /** Resolves when a trial gives its turn up from now on. */
  get freed(): Promise<void> {
    return this.#freed
  }

  /**
   * Resolves once it is the trial's turn: at once if it never gave it up. @throws the signal's
   * reason
   */
  async take(number: number, signal: AbortSignal): Promise<void> {
    if (!this.#away.has(number)) return
    await new Promise<void>((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const aborted = () => reject(signal.reason)
      signal.addEventListener('abort', aborted, { once: true })
      this.#back.push({
        number,
        admit: () => {
          signal.removeEventListener('abort', aborted)
          resolve()
        },
      })
      this.#admit()
    })
  }

  /** Whatever became of it. */
  end(number: number): void {
    this.#running.delete(number)
    this.#away.delete(number)
    const at = this.#back.findIndex((one) => one.number === number)
    if (at >= 0) this.#back.splice(at, 1)
    this.#admit()
  }

  #admit(): void {
    while (this.#back.length > 0 && this.#running.size < this.#most) {
      const { number, admit } = this.#back.shift()!
      this.#away.delete(number)
      this.#running.add(number)
      admit()
    }
  }

  #nextFreed(): Promise<void> {
    return new Promise((resolve) => {
      this.#told = resolve
    })
  }
}

/** Where fewer run at a time. */
const mostAway = 2
