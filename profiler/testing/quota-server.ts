import { schedule } from '../load/arrivals.ts'
import type { Load } from '../model/load.ts'
import type { VirtualRun, VirtualServer } from '../model/virtual-server.ts'
import { createUniform, type Uniform } from '../seeded-random.ts'

interface QuotaServerOptions {
  readonly seed: number
  readonly workers: number
  readonly maxBatch: number
  /** Computing time of all workers together in each period, ms. */
  readonly quotaMs: number
  readonly periodMs: number
  /** Computing time of a batch, ms. */
  readonly workMs: (batch: number, uniform: Uniform) => number
}

/** Less than that is nothing, ms. */
const nothingMs = 1e-9

/**
 * Workers of one queue, first come first served, on as many cores, with a quota of computing time
 * as a cgroup's is (Linux, sched-bwc.rst): once they have used it up they all wait for the next
 * period. In virtual time.
 */
export class QuotaServer implements VirtualServer {
  private readonly uniform: Uniform
  private clockMs = 0
  private period = 0
  private leftMs: number

  constructor(private readonly options: QuotaServerOptions) {
    this.uniform = createUniform(options.seed)
    this.leftMs = options.quotaMs
  }

  play(load: Load): VirtualRun {
    const { workers, maxBatch, workMs } = this.options
    const sent =
      load.kind === 'open' ? [...schedule(load)] : new Array<number>(load.connections).fill(0)
    const latency: number[] = new Array(sent.length).fill(Number.NaN)
    let working: { readonly requests: readonly number[]; leftMs: number }[] = []
    let arrived = 0
    let taken = 0
    for (let now = 0; taken < sent.length || working.length > 0; ) {
      while (arrived < sent.length && sent[arrived]! <= now + nothingMs) arrived++
      while (working.length < workers && taken < arrived) {
        const requests = Array.from(
          { length: Math.min(maxBatch, arrived - taken) },
          (_, i) => taken + i,
        )
        taken += requests.length
        working.push({ requests, leftMs: workMs(requests.length, this.uniform) })
      }
      const nextMs = arrived < sent.length ? sent[arrived]! : Number.POSITIVE_INFINITY
      now += this.run(working, nextMs - now)
      const done = working
        .filter(({ leftMs }) => leftMs <= nothingMs)
        .flatMap(({ requests }) => requests)
      working = working.filter(({ leftMs }) => leftMs > nothingMs)
      for (const request of done) {
        latency[request] = now - sent[request]!
        if (load.kind === 'closed' && now < load.durationS * 1000)
          latency[sent.push(now) - 1] = Number.NaN
      }
    }
    return {
      sentMs: Float64Array.from(sent),
      latencyMs: Float64Array.from(latency),
      failure: 'status 500',
    }
  }

  /**
   * Until the first of them is done, the quota is used up, the period ends, or so many ms are over:
   * how many that were.
   */
  private run(working: readonly { leftMs: number }[], maxMs: number): number {
    const { quotaMs, periodMs } = this.options
    const busy = this.leftMs > nothingMs ? working.length : 0
    const endsMs = (this.period + 1) * periodMs - this.clockMs
    const ms = Math.min(
      maxMs,
      endsMs,
      ...(busy > 0 ? [this.leftMs / busy, ...working.map(({ leftMs }) => leftMs)] : []),
    )
    if (busy > 0) for (const work of working) work.leftMs -= ms
    this.leftMs -= busy * ms
    this.clockMs += ms
    if (ms < endsMs) return ms
    this.period++
    this.leftMs = quotaMs
    return ms
  }
}
