/**
 * The dynamic batcher: a queue that determines when a batch is due. Its only dependency is a clock;
 * its caller owns timers and engines. Semantics of Triton's dynamic batcher: units in order of
 * arrival, never split, a batch is due when it is full or its oldest unit has waited long enough.
 */

export interface BatchPolicy {
  /** Items per batch, ≥ 1. */
  readonly maxBatchSize: number
  /** Maximum time that a unit waits for others while an engine is free, ms; 0 sends at once. */
  readonly maxDelayMs: number
  /** Maximum of waiting items; units beyond it are rejected. */
  readonly queueLimit: number
}

export interface QueuedUnit<T> {
  readonly unit: T
  readonly items: number
  readonly arrivedAt: number
}

export class Batcher<T> {
  readonly #policy: BatchPolicy
  readonly #now: () => number
  #queue: QueuedUnit<T>[] = []
  #head = 0
  #items = 0
  #flushing = false

  /**
   * `now` in ms, monotonic.
   * @throws RangeError for a policy that could never send anything
   */
  constructor(policy: BatchPolicy, now: () => number) {
    if (!(policy.maxBatchSize >= 1 && policy.maxDelayMs >= 0 && policy.queueLimit >= 1))
      throw new RangeError(
        `batch policy needs maxBatchSize ≥ 1, maxDelayMs ≥ 0, queueLimit ≥ 1; got ${JSON.stringify(policy)}`,
      )
    this.#policy = policy
    this.#now = now
  }

  /** Items that wait. */
  get items(): number {
    return this.#items
  }

  /** Puts a unit of 1..maxBatchSize items in the queue; false when the queue has no room for it. */
  offer(unit: T, items: number): boolean {
    if (!(items >= 1 && items <= this.#policy.maxBatchSize))
      throw new RangeError(`a unit holds 1 to ${this.#policy.maxBatchSize} items, not ${items}`)
    if (this.#items + items > this.#policy.queueLimit) return false
    this.#queue.push({ unit, items, arrivedAt: this.#now() })
    this.#items += items
    return true
  }

  /**
   * When the next batch falls due if nothing more arrives, on the injected clock; undefined when
   * nothing waits.
   */
  dueAt(): number | undefined {
    const oldest = this.#queue[this.#head]
    if (!oldest) return undefined
    // Enough items: the batch is full, or the next unit would not fit.
    if (this.#flushing || this.#items >= this.#policy.maxBatchSize) return oldest.arrivedAt
    return oldest.arrivedAt + this.#policy.maxDelayMs
  }

  /**
   * Takes the next batch in order of arrival when one is due, else undefined.
   * @param aheadMs a batch that falls due within this time is due: for a driver whose timers are
   * that coarse
   */
  take(aheadMs = 0): QueuedUnit<T>[] | undefined {
    const dueAt = this.dueAt()
    if (dueAt === undefined || dueAt > this.#now() + aheadMs) return undefined
    const batch: QueuedUnit<T>[] = []
    let items = 0
    for (
      let next = this.#queue[this.#head];
      next && items + next.items <= this.#policy.maxBatchSize;
      next = this.#queue[this.#head]
    ) {
      batch.push(next)
      items += next.items
      this.#head += 1
    }
    this.#items -= items
    if (this.#head === this.#queue.length || this.#head > 1024) {
      this.#queue = this.#queue.slice(this.#head)
      this.#head = 0
    }
    return batch
  }

  /** Makes all units due at once, for draining. */
  flush(): void {
    this.#flushing = true
  }
}
