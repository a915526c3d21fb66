import { schedule } from '../load/arrivals.ts'
import type { Load } from '../model/load.ts'
import type { VirtualRun, VirtualServer } from '../model/virtual-server.ts'
import { createUniform, type Uniform } from '../seeded-random.ts'

interface SharingServerOptions {
  readonly seed: number
  /** Cores shared equally; a request uses at most one. */
  readonly cores: number
  /** Work of a request, ms of one core. */
  readonly workMs: (uniform: Uniform) => number
}

/**
 * A processor-sharing server in virtual time: all requests are served at once, each at its share of
 * the cores.
 */
export class SharingServer implements VirtualServer {
  private readonly uniform: Uniform

  constructor(private readonly options: SharingServerOptions) {
    this.uniform = createUniform(options.seed)
  }

  play(load: Load): VirtualRun {
    const { cores, workMs } = this.options
    const sent: number[] =
      load.kind === 'open' ? [...schedule(load)] : new Array(load.connections).fill(0)
    const latency: number[] = []
    let next = 0
    let now = 0
    const jobs: { request: number; leftMs: number }[] = []
    while (next < sent.length || jobs.length > 0) {
      const speed = Math.min(1, cores / jobs.length)
      let least = Number.POSITIVE_INFINITY
      for (const job of jobs) least = Math.min(least, job.leftMs)
      const arrival = next < sent.length ? sent[next]! : Number.POSITIVE_INFINITY
      const until = Math.min(arrival, now + least / speed)
      for (const job of jobs) job.leftMs -= (until - now) * speed
      now = until
      for (let i = jobs.length - 1; i >= 0; i--) {
        if (jobs[i]!.leftMs > 1e-9) continue
        const [done] = jobs.splice(i, 1)
        latency[done!.request] = now - sent[done!.request]!
        if (load.kind === 'closed' && now < load.durationS * 1000) sent.push(now)
      }
      while (next < sent.length && sent[next]! <= now)
        jobs.push({ request: next++, leftMs: workMs(this.uniform) })
    }
    return {
      sentMs: Float64Array.from(sent),
      latencyMs: Float64Array.from(latency),
      failure: 'status 500',
    }
  }
}
