import { schedule } from '../load/arrivals.ts'
import type { Load } from '../model/load.ts'
import type { VirtualRun, VirtualServer } from '../model/virtual-server.ts'
import { createUniform, type Uniform } from '../seeded-random.ts'

interface IterationServerOptions {
  readonly seed: number
  /** Requests that are worked on together at most. */
  readonly places: number
  /** Iterations that a request needs. */
  readonly iterations: (uniform: Uniform) => number
  /** Time of an iteration over so many requests, ms. */
  readonly iterationMs: (together: number) => number
}

/**
 * A server that works on all its requests in iterations, in virtual time: they join between two of
 * them and leave one by one, each after as many as it needs (continuous batching: Orca, OSDI 2022).
 */
export class IterationServer implements VirtualServer {
  private readonly uniform: Uniform

  constructor(private readonly options: IterationServerOptions) {
    this.uniform = createUniform(options.seed)
  }

  play(load: Load): VirtualRun {
    const { places, iterations, iterationMs } = this.options
    const sent: number[] =
      load.kind === 'open' ? [...schedule(load)] : new Array(load.connections).fill(0)
    const latency: number[] = []
    const running: { request: number; left: number }[] = []
    let next = 0
    let now = 0
    while (next < sent.length || running.length > 0) {
      if (running.length === 0) now = Math.max(now, sent[next]!)
      for (; next < sent.length && sent[next]! <= now && running.length < places; next++)
        running.push({ request: next, left: iterations(this.uniform) })
      now += iterationMs(running.length)
      for (let i = running.length - 1; i >= 0; i--) {
        const { request } = running[i]!
        if (--running[i]!.left > 0) continue
        running.splice(i, 1)
        latency[request] = now - sent[request]!
        if (load.kind === 'closed' && now < load.durationS * 1000) sent.push(now)
      }
    }
    return {
      sentMs: Float64Array.from(sent),
      latencyMs: Float64Array.from(latency),
      failure: 'status 500',
    }
  }
}
