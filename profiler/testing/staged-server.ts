import { schedule } from '../load/arrivals.ts'
import type { Load } from '../model/load.ts'
import type { VirtualRun, VirtualServer } from '../model/virtual-server.ts'
import { createUniform, type Uniform } from '../seeded-random.ts'
import { EventQueue } from './event-queue.ts'

export interface StagedServerOptions {
  readonly seed: number
  /** That decode and write: 1 unless said. */
  readonly cores?: number
  readonly maxBatch: number
  /** How long a batch that is not full waits for more, ms. */
  readonly maxDelayMs: number
  /** CPU time before a request may join a batch, ms. */
  readonly decodeMs: (uniform: Uniform) => number
  /** Time of a batch on the accelerator, ms. */
  readonly batchMs: (batch: number, uniform: Uniform) => number
  /** CPU time to write one answer, ms. */
  readonly writeMs: (uniform: Uniform) => number
}

type Event =
  | { readonly request: number }
  | { readonly batch: readonly number[] }
  | { readonly done: Task }
  | 'batch-delay-over'
interface Task {
  readonly request: number
  readonly writes: boolean
}

/**
 * CPU cores that decode requests and write answers, taken in their order, and an accelerator that
 * serves batches meanwhile: a predictor in virtual time.
 */
export class StagedServer implements VirtualServer {
  private readonly uniform: Uniform

  constructor(private readonly options: StagedServerOptions) {
    this.uniform = createUniform(options.seed)
  }

  play(load: Load): VirtualRun {
    const { cores = 1, maxBatch, maxDelayMs, decodeMs, batchMs, writeMs } = this.options
    const sent: number[] = []
    const latency: number[] = []
    const events = new EventQueue<Event>()
    const tasks: Task[] = []
    let nextTask = 0
    let computing = 0
    const decoded: { request: number; atMs: number }[] = []
    let nextDecoded = 0
    let serving = false
    let now = 0
    const send = (at: number) => {
      latency.push(Number.NaN)
      events.push(at, { request: sent.push(at) - 1 })
    }
    const compute = () => {
      for (; computing < cores && nextTask < tasks.length; computing++) {
        const done = tasks[nextTask++]!
        events.push(now + (done.writes ? writeMs : decodeMs)(this.uniform), { done })
      }
    }
    const serve = () => {
      const ready = decoded.length - nextDecoded
      if (serving || ready === 0) return
      const untilMs = decoded[nextDecoded]!.atMs + maxDelayMs
      if (ready < maxBatch && now < untilMs - 1e-9)
        return void events.push(untilMs, 'batch-delay-over')
      serving = true
      const batch = decoded.slice(nextDecoded, nextDecoded + maxBatch).map(({ request }) => request)
      nextDecoded += batch.length
      events.push(now + batchMs(batch.length, this.uniform), { batch })
    }
    if (load.kind === 'open') for (const at of schedule(load)) send(at)
    else for (let i = 0; i < load.connections; i++) send(0)
    for (let next = events.pop(); next !== undefined; next = events.pop()) {
      const { event } = next
      now = next.at
      if (event === 'batch-delay-over') serve()
      else if ('request' in event) tasks.push({ request: event.request, writes: false })
      else if ('batch' in event) {
        serving = false
        for (const request of event.batch) tasks.push({ request, writes: true })
        serve()
      } else {
        computing--
        const { request, writes } = event.done
        if (!writes) decoded.push({ request, atMs: now })
        else {
          latency[request] = now - sent[request]!
          if (load.kind === 'closed' && now < load.durationS * 1000) send(now)
        }
        serve()
      }
      compute()
    }
    return {
      sentMs: Float64Array.from(sent),
      latencyMs: Float64Array.from(latency),
      failure: 'status 500',
    }
  }
}
