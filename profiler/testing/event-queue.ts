/** A binary heap of timed events; events of the same time come out in the order they went in. */
export class EventQueue<T> {
  private readonly heap: { at: number; order: number; event: T }[] = []
  private pushed = 0

  get size(): number {
    return this.heap.length
  }

  push(at: number, event: T): void {
    const { heap } = this
    const entry = { at, order: this.pushed++, event }
    let i = heap.push(entry) - 1
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!before(entry, heap[parent]!)) break
      heap[i] = heap[parent]!
      i = parent
    }
    heap[i] = entry
  }

  pop(): { at: number; event: T } | undefined {
    const { heap } = this
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++
      if (!before(heap[child]!, last)) break
      heap[i] = heap[child]!
      i = child
    }
    heap[i] = last
    return first
  }
}

const before = (a: { at: number; order: number }, b: { at: number; order: number }): boolean =>
  a.at < b.at || (a.at === b.at && a.order < b.order)
