/** What comes one by one, sent together: all that came while the batch before was on its way. */
export class Batches<Item> {
  readonly #send: (batch: readonly Item[]) => Promise<unknown>
  #waiting: Item[] = []
  #sending: Promise<void> | undefined

  /** @param send never rejects */
  constructor(send: (batch: readonly Item[]) => Promise<unknown>) {
    this.#send = send
  }

  add(...items: readonly Item[]): void {
    this.#waiting.push(...items)
    // In a later turn: what comes at once goes together.
    this.#sending ??= Promise.resolve().then(() => this.#drain())
  }

  /** Resolves once nothing waits. */
  async sent(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) await this.#send(this.#waiting.splice(0, mostItems))
    this.#sending = undefined
  }
}

/** Of one message; receivers bound their size. */
const mostItems = 2_000
