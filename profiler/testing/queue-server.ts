import { schedule } from '../load/arrivals.ts'
import type { Load } from '../model/load.ts'
import type { VirtualRun, VirtualServer } from '../model/virtual-server.ts'
import { createUniform, type Uniform } from '../seeded-random.ts'
import { EventQueue } from './event-queue.ts'

export interface QueueServerOptions {
  readonly seed: number
  /** Batches served at once. */
  readonly servers: number
  readonly maxBatch: number
  /** How long a batch that is not full waits for more, ms. */
  readonly maxDelayMs?: number
  /**
   * From when it waits: since its oldest request came (the default), or since a server was free to
   * gather it.
   */
  readonly waitsSince?: 'arrival' | 'free'
  /**
   * Service time of a batch, ms, at a time since the server's start, so many requests waiting for
   * the next one.
   */
  readonly serviceMs: (batch: number, uniform: Uniform, atMs: number, waiting: number) => number
  /** What each request takes before it waits for a server, ms: its way there and back. */
  readonly overheadMs?: number
  /** Share of requests that fail once served. */
  readonly errorShare?: number
  /** Waiting requests beyond which further ones are refused. */
  readonly queueLimit?: number
}

/** A refused client of a closed loop comes back after this. */
const refusalMs = 1

type Event =
  | { readonly request: number }
  | { readonly batch: readonly number[] }
  | 'batch-delay-over'

/**
 * A first-come-first-served queue in virtual time: any number of servers, batches, any service
 * time.
 */
export class QueueServer implements VirtualServer {
  private readonly uniform: Uniform
  private clockMs = 0

  constructor(readonly options: QueueServerOptions) {
    this.uniform = createUniform(options.seed)
  }

  play(load: Load): VirtualRun {
    const {
      servers,
      maxBatch,
      maxDelayMs = 0,
      waitsSince = 'arrival',
      overheadMs = 0,
      serviceMs,
      errorShare = 0,
      queueLimit = Number.POSITIVE_INFINITY,
    } = this.options
    const sent: number[] = []
    const latency: number[] = []
    const events = new EventQueue<Event>()
    const waiting: number[] = []
    let head = 0
    let busy = 0
    const send = (at: number) => {
      latency.push(Number.NaN)
      events.push(at + overheadMs, { request: sent.push(at) - 1 })
    }
    if (load.kind === 'open') for (const at of schedule(load)) send(at)
    else for (let i = 0; i < load.connections; i++) send(0)

    let now = 0
    let gatheredSince: number | undefined
    const serve = () => {
      while (busy < servers && head < waiting.length) {
        const ready = waiting.length - head
        gatheredSince ??= waitsSince === 'free' ? now : sent[waiting[head]!]! + overheadMs
        const until = gatheredSince + maxDelayMs
        if (ready < maxBatch && now < until - 1e-9) {
          events.push(until, 'batch-delay-over')
          return
        }
        gatheredSince = undefined
        const batch = waiting.slice(head, head + maxBatch)
        head += batch.length
        busy++
        events.push(
          now + serviceMs(batch.length, this.uniform, this.clockMs + now, waiting.length - head),
          { batch },
        )
      }
    }
    for (let next = events.pop(); next !== undefined; next = events.pop()) {
      now = next.at
      if (next.event === 'batch-delay-over') serve()
      else if ('request' in next.event && waiting.length - head >= queueLimit) {
        if (load.kind === 'closed' && now + refusalMs < load.durationS * 1000) send(now + refusalMs)
      } else if ('request' in next.event) {
        waiting.push(next.event.request)
        serve()
      } else {
        busy--
        for (const i of next.event.batch) {
          if (errorShare === 0 || this.uniform() >= errorShare) latency[i] = now - sent[i]!
          if (load.kind === 'closed' && now < load.durationS * 1000) send(now)
        }
        serve()
      }
    }
    this.clockMs += now
    return {
      sentMs: Float64Array.from(sent),
      latencyMs: Float64Array.from(latency),
      failure: 'status 500',
    }
  }
}
