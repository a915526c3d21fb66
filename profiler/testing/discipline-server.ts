import { schedule } from '../load/arrivals.ts'
import type { Load } from '../model/load.ts'
import type { VirtualRun, VirtualServer } from '../model/virtual-server.ts'
import { createUniform, type Uniform } from '../seeded-random.ts'
import { EventQueue } from './event-queue.ts'

interface WaitingRequest {
  readonly request: number
  readonly workMs: number
  /** By which its kind, or its worker, is told: from 0 up to 1; 0 where none are marked. */
  readonly mark: number
}

interface DisciplineServerOptions {
  readonly seed: number
  readonly servers: number
  readonly workMs: (uniform: Uniform) => number
  /** Each request gets a mark of its own. */
  readonly marked?: boolean
  /**
   * Which of those that wait, oldest first, a worker serves next: its index, or -1 for none of
   * them.
   */
  readonly takes: (waiting: readonly WaitingRequest[], worker: number) => number
  /**
   * Whether a request that comes at this time since the server's start, so many others being there,
   * is let in; else it is refused at once.
   */
  readonly admits?: (atMs: number, there: number) => boolean
  /**
   * A request that is not let in comes again after so long, ms, and is not refused: a client whose
   * connection is not accepted.
   */
  readonly comesAgainMs?: number
  /** A request that has waited so long is refused, ms. */
  readonly patienceMs?: number
  /** Told how long each answer took. */
  readonly answered?: (latencyMs: number) => void
  /** How long a worker is away after each answer, ms. */
  readonly restsMs?: (worker: number, uniform: Uniform) => number
}

/** A refused client of a closed loop comes back after this. */
const refusalMs = 1

type Event =
  | { readonly arrives: number }
  | { readonly leaves: number; readonly worker: number }
  | { readonly back: number }
  | { readonly givesUp: number }

/**
 * Workers that serve one request each in an order of their own (last come first served,
 * priorities), and may refuse some: in virtual time.
 */
export class DisciplineServer implements VirtualServer {
  private readonly uniform: Uniform
  private clockMs = 0

  constructor(private readonly options: DisciplineServerOptions) {
    this.uniform = createUniform(options.seed)
  }

  play(load: Load): VirtualRun {
    const {
      servers,
      workMs,
      marked = false,
      takes,
      admits = () => true,
      comesAgainMs,
      patienceMs,
      answered = () => {},
      restsMs,
    } = this.options
    const sent: number[] = []
    const latency: number[] = []
    const events = new EventQueue<Event>()
    const waiting: WaitingRequest[] = []
    const free = Array.from({ length: servers }, (_, worker) => worker)
    let there = 0
    let now = 0
    const send = (at: number) => {
      latency.push(Number.NaN)
      events.push(at, { arrives: sent.push(at) - 1 })
    }
    const again = (at: number) => {
      if (load.kind === 'closed' && at < load.durationS * 1000) send(at)
    }
    const arrive = (request: number) => {
      if (admits(this.clockMs + now, there)) {
        there++
        waiting.push({ request, workMs: workMs(this.uniform), mark: marked ? this.uniform() : 0 })
        if (patienceMs !== undefined) events.push(now + patienceMs, { givesUp: request })
      } else if (comesAgainMs === undefined) again(now + refusalMs)
      else events.push(now + comesAgainMs, { arrives: request })
    }
    const giveUp = (request: number) => {
      const place = waiting.findIndex((each) => each.request === request)
      if (place < 0) return
      waiting.splice(place, 1)
      there--
      again(now + refusalMs)
    }
    const leave = (request: number, worker: number) => {
      there--
      latency[request] = now - sent[request]!
      answered(latency[request]!)
      const restMs = restsMs?.(worker, this.uniform) ?? 0
      if (restMs > 0) events.push(now + restMs, { back: worker })
      else free.push(worker)
      again(now)
    }
    if (load.kind === 'open') for (const at of schedule(load)) send(at)
    else for (let i = 0; i < load.connections; i++) send(0)
    for (let next = events.pop(); next !== undefined; next = events.pop()) {
      const { event } = next
      now = next.at
      if ('leaves' in event) leave(event.leaves, event.worker)
      else if ('arrives' in event) arrive(event.arrives)
      else if ('back' in event) free.push(event.back)
      else giveUp(event.givesUp)
      for (let i = 0; i < free.length && waiting.length > 0; ) {
        const worker = free[i]!
        const place = takes(waiting, worker)
        if (place < 0) {
          i++
          continue
        }
        free.splice(i, 1)
        const [taken] = waiting.splice(place, 1)
        events.push(now + taken!.workMs, { leaves: taken!.request, worker })
      }
    }
    this.clockMs += now
    return {
      sentMs: Float64Array.from(sent),
      latencyMs: Float64Array.from(latency),
      failure: 'status 429',
    }
  }
}
