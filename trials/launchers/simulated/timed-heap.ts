/** A binary heap of numbers by time; equal times come out in the order they went in. */
export class TimedHeap {
  #atMs = new Float64Array(64)
  #order = new Float64Array(64)
  #value = new Int32Array(64)
  #size = 0
  #pushed = 0

  /** Time of the first; Infinity when empty. */
  get nextMs(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : this.#atMs[0]!
  }

  clear(): void {
    this.#size = 0
    this.#pushed = 0
  }

  push(atMs: number, value: number): void {
    if (this.#size === this.#atMs.length) this.#grow()
    const order = this.#pushed++
    let i = this.#size++
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!this.#isBefore(atMs, order, parent)) break
      this.#copy(parent, i)
      i = parent
    }
    this.#set(i, atMs, order, value)
  }

  /** Removes the first. The heap must not be empty. */
  pop(): number {
    const first = this.#value[0]!
    const last = --this.#size
    const [atMs, order, value] = [this.#atMs[last]!, this.#order[last]!, this.#value[last]!]
    let i = 0
    for (let child = 1; child < last; child = 2 * i + 1) {
      const right = child + 1
      if (right < last && this.#isBefore(this.#atMs[right]!, this.#order[right]!, child))
        child = right
      if (this.#isBefore(atMs, order, child)) break
      this.#copy(child, i)
      i = child
    }
    this.#set(i, atMs, order, value)
    return first
  }

  #isBefore(atMs: number, order: number, i: number): boolean {
    return atMs < this.#atMs[i]! || (atMs === this.#atMs[i]! && order < this.#order[i]!)
  }

  #copy(from: number, to: number): void {
    this.#set(to, this.#atMs[from]!, this.#order[from]!, this.#value[from]!)
  }

  #set(i: number, atMs: number, order: number, value: number): void {
    this.#atMs[i] = atMs
    this.#order[i] = order
    this.#value[i] = value
  }

  #grow(): void {
    const [atMs, order, value] = [this.#atMs, this.#order, this.#value]
    this.#atMs = new Float64Array(2 * atMs.length)
    this.#order = new Float64Array(2 * atMs.length)
    this.#value = new Int32Array(2 * atMs.length)
    this.#atMs.set(atMs)
    this.#order.set(order)
    this.#value.set(value)
  }
}
