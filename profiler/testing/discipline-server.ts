import { schedule } from '../generator/arrivals.ts'
import { seeded, type Uniform } from '../seeded-random.ts'
import type { Load, VirtualRun, VirtualServer } from '../types.ts'
import { EventQueue } from './event-queue.ts'

interface WaitingRequest {
  readonly request: number
  readonly workMs: number
}

interface DisciplineServerOptions {
  readonly seed: number
  readonly servers: number
  readonly workMs: (uniform: Uniform) => number
  /** Which of those that wait, oldest first, is served next: its index. */
  readonly takes: (waiting: readonly WaitingRequest[]) => number
  /** Whether a request that comes at this time since the server's start is let in; else it is refused at once. */
  readonly admits?: (atMs: number) => boolean
}

/** A refused client of a closed loop comes back after this. */
const refusalMs = 1

type Event = { readonly arrives: number } | { readonly leaves: number }

/** Workers that serve one request each in an order of their own (last come first served, priorities), and may refuse some: in virtual time. */
export class DisciplineServer implements VirtualServer {
  private readonly uniform: Uniform
  private clockMs = 0

  constructor(private readonly options: DisciplineServerOptions) {
    this.uniform = seeded(options.seed)
  }

  play(load: Load): VirtualRun {
    const { servers, workMs, takes, admits = () => true } = this.options
    const sent: number[] = []
    const latency: number[] = []
    const events = new EventQueue<Event>()
    const waiting: WaitingRequest[] = []
    let busy = 0
    let now = 0
    const send = (at: number) => {
      latency.push(Number.NaN)
      events.push(at, { arrives: sent.push(at) - 1 })
    }
    const again = (at: number) => {
      if (load.kind === 'closed' && at < load.durationS * 1000) send(at)
    }
    if (load.kind === 'open') for (const at of schedule(load)) send(at)
    else for (let i = 0; i < load.connections; i++) send(0)
    for (let next = events.pop(); next !== undefined; next = events.pop()) {
      const { event } = next
      now = next.at
      if ('leaves' in event) {
        busy--
        latency[event.leaves] = now - sent[event.leaves]!
        again(now)
      } else if (admits(this.clockMs + now)) waiting.push({ request: event.arrives, workMs: workMs(this.uniform) })
      else again(now + refusalMs)
      for (; busy < servers && waiting.length > 0; busy++) {
        const [taken] = waiting.splice(takes(waiting), 1)
        events.push(now + taken!.workMs, { leaves: taken!.request })
      }
    }
    this.clockMs += now
    return { sentMs: Float64Array.from(sent), latencyMs: Float64Array.from(latency), failure: 'status 429' }
  }
}
