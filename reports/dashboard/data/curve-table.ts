/**
 * Load curves of many configurations in flat arrays, because a drag of the SLO queries them 60
 * times per second. Pure.
 */
import type { CurveKnot } from '../../../profiler/capacity/capacity-bounds.ts'

export class CurveTable {
  /** Rates of all knots, curve after curve. */
  readonly #ratesRps: number[] = []
  readonly #latenciesMs: number[] = []
  /** For each curve, the index behind its last knot, and its owner. */
  readonly #ends: number[] = []
  readonly #owners: number[] = []

  /** @param owner index of its configuration; it may have several curves */
  add(owner: number, curve: readonly CurveKnot[]): void {
    for (const { rateRps, latencyMs } of curve) {
      this.#ratesRps.push(rateRps)
      this.#latenciesMs.push(latencyMs)
    }
    this.#ends.push(this.#ratesRps.length)
    this.#owners.push(owner)
  }

  clear(): void {
    for (const column of [this.#ratesRps, this.#latenciesMs, this.#ends, this.#owners])
      column.length = 0
  }

  /**
   * Lists the highest rate of each owner at which one of its curves meets a limit, req/s; 0 without
   * a curve.
   */
  listRatesWithin(limitMs: number, owners: number): Float64Array {
    const within = new Float64Array(owners)
    for (let curve = 0, from = 0; curve < this.#ends.length; curve++) {
      const end = this.#ends[curve]!
      const owner = this.#owners[curve]!
      within[owner] = Math.max(within[owner]!, this.#rateWithin(limitMs, from, end))
      from = end
    }
    return within
  }

  /** Gets the unloaded latency of the fastest curve of each owner, ms; Infinity without a curve. */
  getUnloadedMs(owners: number): Float64Array {
    const idle = new Float64Array(owners).fill(Number.POSITIVE_INFINITY)
    for (let curve = 0, from = 0; curve < this.#ends.length; curve++) {
      const end = this.#ends[curve]!
      const owner = this.#owners[curve]!
      if (end > from) idle[owner] = Math.min(idle[owner]!, this.#latenciesMs[from]!)
      from = end
    }
    return idle
  }

  #rateWithin(limitMs: number, from: number, end: number): number {
    const [rates, latencies] = [this.#ratesRps, this.#latenciesMs]
    let beyond = from
    while (beyond < end && !(latencies[beyond]! > limitMs)) beyond++
    if (beyond === end) return end > from ? rates[end - 1]! : 0
    if (beyond === from) return 0
    const [a, b] = [rates[beyond - 1]!, rates[beyond]!]
    if (!Number.isFinite(latencies[beyond]!)) return a
    const before = Math.log(latencies[beyond - 1]!)
    return a + ((Math.log(limitMs) - before) / (Math.log(latencies[beyond]!) - before)) * (b - a)
  }
}
