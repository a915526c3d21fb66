/**
 * Concurrency slots of trials. A trial that waits for a cluster to add a node frees its slot for
 * another one, and takes a slot again once its predictor serves.
 */

/**
 * Lower bound of the limit on suspended trials; the limit is otherwise the number of slots.
 * Assumed.
 */
const minSuspendable = 2

export class ConcurrencySlots {
  readonly #size: number
  /** Numbers of trials that hold a slot. */
  readonly #active = new Set<number>()
  /** Numbers of trials that freed their slot while they wait. */
  readonly #suspended = new Set<number>()
  /** Suspended trials that are ready for a slot, first come first served. */
  readonly #ready: { readonly number: number; readonly admit: () => void }[] = []
  #notifySuspension: () => void = () => undefined
  #suspension = this.#nextSuspension()

  /** @param size maximum number of trials that run at a time */
  constructor(size: number) {
    this.#size = size
  }

  /** Whether a new trial may start. Suspended trials that are ready come first. */
  get hasFree(): boolean {
    return this.#ready.length === 0 && this.#active.size < this.#size
  }

  /** Resolves at the next suspension. */
  get suspension(): Promise<void> {
    return this.#suspension
  }

  occupy(number: number): void {
    this.#active.add(number)
  }

  /**
   * Frees the slot of a trial that waits. The number of suspended trials is limited, because each
   * of them makes the cluster add a node.
   * @returns false where the limit is reached: the trial keeps its slot
   */
  suspend(number: number): boolean {
    const max = Math.max(minSuspendable, this.#size)
    if (!this.#active.has(number) || this.#suspended.size >= max) return false
    this.#active.delete(number)
    this.#suspended.add(number)
    this.#notifySuspension()
    this.#suspension = this.#nextSuspension()
    return true
  }

  /**
   * Resolves once the trial holds a slot, at once if it never freed it.
   * @throws the signal's reason
   */
  async resume(number: number, signal: AbortSignal): Promise<void> {
    if (!this.#suspended.has(number)) return
    await new Promise<void>((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const onAbort = () => reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      const admit = () => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      this.#ready.push({ number, admit })
      this.#admitReady()
    })
  }

  /** The trial has ended, whether it held a slot or waited for one. */
  release(number: number): void {
    this.#active.delete(number)
    this.#suspended.delete(number)
    const position = this.#ready.findIndex((trial) => trial.number === number)
    if (position >= 0) this.#ready.splice(position, 1)
    this.#admitReady()
  }

  #admitReady(): void {
    while (this.#ready.length > 0 && this.#active.size < this.#size) {
      const { number, admit } = this.#ready.shift()!
      this.#suspended.delete(number)
      this.#active.add(number)
      admit()
    }
  }

  #nextSuspension(): Promise<void> {
    return new Promise((resolve) => {
      this.#notifySuspension = resolve
    })
  }
}
