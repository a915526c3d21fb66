/**
 * The request rate as an autoscaler reads it: a one-minute mean, as in the queries of the specs,
 * delayed by the age of the metrics.
 */
import type { Flow } from './queues.ts'

/** Time over which the specs average the rate of requests. */
const windowSeconds = 60

export class ObservedRate {
  readonly #ageSeconds: number
  readonly #countedRequests: 'answered' | 'arrived'
  /** Cumulative requests by time, seconds. */
  #sums: { at: number; sum: number }[] = [{ at: 0, sum: 0 }]

  /** @param countedRequests `answered`: by the replicas; `arrived`: by a gateway in front of them */
  constructor(ageSeconds: number, countedRequests: 'answered' | 'arrived') {
    this.#ageSeconds = ageSeconds
    this.#countedRequests = countedRequests
  }

  /** Age of the oldest requests that still count, seconds. */
  get lookBackSeconds(): number {
    return this.#ageSeconds + windowSeconds
  }

  addFlow(until: number, flow: Flow): void {
    this.#sums.push({ at: until, sum: this.#sums.at(-1)!.sum + flow[this.#countedRequests] })
  }

  /** Requests per second as read at a time; NaN before the first metrics. */
  computeRps(at: number): number {
    const [from, to] = [at - this.lookBackSeconds, at - this.#ageSeconds]
    let first = 0
    while (first + 1 < this.#sums.length && this.#sums[first + 1]!.at <= from) first++
    if (first > 0) this.#sums = this.#sums.slice(first)
    const start = Math.max(from, this.#sums[0]!.at)
    return to > start ? (this.#countUntil(to) - this.#countUntil(start)) / (to - start) : Number.NaN
  }

  #countUntil(at: number): number {
    const after = this.#sums.findIndex((s) => s.at >= at)
    if (after <= 0) return after === 0 ? this.#sums[0]!.sum : this.#sums.at(-1)!.sum
    const [a, b] = [this.#sums[after - 1]!, this.#sums[after]!]
    return a.sum + ((b.sum - a.sum) * (at - a.at)) / (b.at - a.at)
  }
}
