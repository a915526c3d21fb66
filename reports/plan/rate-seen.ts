/**
 * The rate that an autoscaler sees: the mean of a minute, as the queries of the specs ask for it,
 * some time ago.
 */
import type { Flow } from './queues.ts'

const windowSeconds = 60

export class RateSeen {
  readonly #ageSeconds: number
  readonly #of: 'answered' | 'came'
  /** Requests until each time, none before the first. */
  #sums: { at: number; sum: number }[] = [{ at: 0, sum: 0 }]

  /** @param of answered: counted by the replicas; came: counted before them. */
  constructor(ageSeconds: number, of: 'answered' | 'came') {
    this.#ageSeconds = ageSeconds
    this.#of = of
  }

  get memorySeconds(): number {
    return this.#ageSeconds + windowSeconds
  }

  add(until: number, flow: Flow): void {
    this.#sums.push({ at: until, sum: this.#sums.at(-1)!.sum + flow[this.#of] })
  }

  /** NaN before there is anything to see. */
  rps(at: number): number {
    const [from, to] = [at - this.memorySeconds, at - this.#ageSeconds]
    let first = 0
    while (first + 1 < this.#sums.length && this.#sums[first + 1]!.at <= from) first++
    if (first > 0) this.#sums = this.#sums.slice(first)
    const start = Math.max(from, this.#sums[0]!.at)
    return to > start ? (this.#until(to) - this.#until(start)) / (to - start) : Number.NaN
  }

  #until(at: number): number {
    const after = this.#sums.findIndex((s) => s.at >= at)
    if (after <= 0) return after === 0 ? this.#sums[0]!.sum : this.#sums.at(-1)!.sum
    const [a, b] = [this.#sums[after - 1]!, this.#sums[after]!]
    return a.sum + ((b.sum - a.sum) * (at - a.at)) / (b.at - a.at)
  }
}
