/** A predictor in virtual time: arrivals, CPU stage, dynamic batcher, engine instances and devices, as a discrete-event simulation. */
import type { Load, VirtualRun, VirtualServer } from '../../profiler/types.ts'
import type { CpuStage } from './cpu-stage.ts'

export interface SimulatedServerOptions {
  readonly cpu: CpuStage
  /** May be a fraction: a container's limit. */
  readonly cpuCores: number
  readonly maxBatchSize: number
  readonly maxDelayMs: number
  /** Requests that may wait, on the CPU or for a batch; one more is refused. */
  readonly queueLimit: number
  /** Batches under way at once, on each device. */
  readonly instances: number
  readonly devices: number
  /** Device time of a batch, ms. */
  readonly batchMs: (batch: number) => number
  /** Standard deviation of ln(device time). */
  readonly deviceJitter: number
  /** Intended send times of an open load, ms, ascending. */
  readonly schedule: (load: Extract<Load, { kind: 'open' }>) => Float64Array
  /** Uniform in (0, 1). */
  readonly uniform: () => number
}

/** What the server did over all its plays. */
export interface SimulatedUsage {
  readonly elapsedMs: number
  readonly cpuBusyMs: number
  readonly deviceBusyMs: number
  readonly batches: number
  readonly batched: number
}

export class SimulatedServer implements VirtualServer {
  readonly #options: SimulatedServerOptions
  #usage: SimulatedUsage = { elapsedMs: 0, cpuBusyMs: 0, deviceBusyMs: 0, batches: 0, batched: 0 }

  readonly #factors: Factors

  constructor(options: SimulatedServerOptions) {
    this.#options = options
    this.#factors = {
      cpu: lognormalFactors(options.cpu.jitter, options.uniform),
      device: lognormalFactors(options.deviceJitter, options.uniform),
    }
  }

  get usage(): SimulatedUsage {
    return this.#usage
  }

  /** Plays a load on the idle server, to its last answer. */
  play(load: Load): VirtualRun {
    const run = new Run(this.#options, load, this.#factors)
    const played = run.toTheEnd()
    const before = this.#usage
    this.#usage = {
      elapsedMs: before.elapsedMs + run.elapsedMs,
      cpuBusyMs: before.cpuBusyMs + run.cpuBusyMs,
      deviceBusyMs: before.deviceBusyMs + run.deviceBusyMs,
      batches: before.batches + run.batches,
      batched: before.batched + run.batched,
    }
    return played
  }
}

interface Factors {
  readonly cpu: Float64Array
  readonly device: Float64Array
}

const failure = 'status 429'

/**
 * One play. Only two kinds of events decide anything, the next arrival and the next dispatch of a batch; both are known ahead,
 * so the earlier of the two is done and no event queue is needed.
 */
class Run {
  readonly #o: SimulatedServerOptions
  readonly #factors: Factors
  readonly #sent: number[] = []
  readonly #latency: number[] = []
  /** Requests to come, by time; a closed loop adds to it as answers return. */
  #arrivals: number[]
  #nextArrival = 0
  readonly #endMs: number
  readonly #closed: boolean
  /** When each core is free, and the event loop. */
  readonly #coreFree: number[]
  #acceptFree = 0
  /** Ready for a batch, by time: request numbers and times. */
  readonly #ready: number[] = []
  readonly #readyAt: number[] = []
  #head = 0
  readonly #deviceFree: number[]
  /** When each instance is free; instance i belongs to device i mod devices. */
  readonly #instanceFree: number[]
  elapsedMs = 0
  cpuBusyMs = 0
  deviceBusyMs = 0
  batches = 0
  batched = 0

  constructor(options: SimulatedServerOptions, load: Load, factors: Factors) {
    this.#o = options
    this.#factors = factors
    this.#closed = load.kind === 'closed'
    this.#endMs = load.durationS * 1000
    this.#arrivals = load.kind === 'closed' ? new Array<number>(load.connections).fill(0) : Array.from(options.schedule(load))
    this.#coreFree = new Array<number>(Math.ceil(options.cpuCores)).fill(0)
    this.#deviceFree = new Array<number>(options.devices).fill(0)
    this.#instanceFree = new Array<number>(options.devices * options.instances).fill(0)
  }

  toTheEnd(): VirtualRun {
    for (;;) {
      const arrival = this.#nextArrival < this.#arrivals.length ? this.#arrivals[this.#nextArrival]! : Number.POSITIVE_INFINITY
      const dispatch = this.#dispatchAt()
      if (arrival === Number.POSITIVE_INFINITY && dispatch === Number.POSITIVE_INFINITY) break
      if (arrival <= dispatch) this.#arrive(arrival)
      else this.#dispatch(dispatch)
    }
    return { sentMs: Float64Array.from(this.#sent), latencyMs: Float64Array.from(this.#latency), failure }
  }

  #arrive(at: number): void {
    const { cpu, cpuCores, queueLimit } = this.#o
    this.#nextArrival++
    const request = this.#sent.push(at) - 1
    if (this.#ready.length - this.#head >= queueLimit) {
      this.#latency.push(Number.NaN)
      this.#answered(at + cpu.overheadMs)
      return
    }
    this.#latency.push(0)
    const core = earliest(this.#coreFree)
    const start = Math.max(at, this.#coreFree[core]!, this.#acceptFree)
    // A limit of 1.5 cores slows two cores by a quarter.
    const slowdown = this.#coreFree.length / cpuCores
    const service = slowdown * (cpu.acceptMs + cpu.prepareMs * this.#jitter(this.#factors.cpu))
    this.#acceptFree = start + slowdown * cpu.acceptMs
    this.#coreFree[core] = start + service
    this.cpuBusyMs += service / slowdown
    const ready = start + service
    // Nearly in order: cores overtake one another by a few places at most.
    let place = this.#ready.push(request) - 1
    this.#readyAt.push(ready)
    for (; place > this.#head && this.#readyAt[place - 1]! > ready; place--) {
      this.#ready[place] = this.#ready[place - 1]!
      this.#readyAt[place] = this.#readyAt[place - 1]!
    }
    this.#ready[place] = request
    this.#readyAt[place] = ready
  }

  /** When the next batch leaves, as far as the requests that have arrived by then can tell. */
  #dispatchAt(): number {
    const waiting = this.#ready.length - this.#head
    if (waiting === 0) return Number.POSITIVE_INFINITY
    const { maxBatchSize, maxDelayMs } = this.#o
    const oldest = this.#readyAt[this.#head]!
    const full = waiting >= maxBatchSize ? this.#readyAt[this.#head + maxBatchSize - 1]! : Number.POSITIVE_INFINITY
    return Math.max(this.#instanceFree[earliest(this.#instanceFree)]!, Math.min(full, oldest + maxDelayMs))
  }

  #dispatch(at: number): void {
    const { maxBatchSize, batchMs, devices, cpu } = this.#o
    let size = 1
    while (size < maxBatchSize && this.#head + size < this.#ready.length && this.#readyAt[this.#head + size]! <= at) size++
    const instance = earliest(this.#instanceFree)
    const device = instance % devices
    const busy = batchMs(size) * this.#jitter(this.#factors.device)
    const end = Math.max(at, this.#deviceFree[device]!) + busy
    this.#deviceFree[device] = end
    this.#instanceFree[instance] = end
    this.deviceBusyMs += busy
    this.batches++
    this.batched += size
    for (let i = this.#head; i < this.#head + size; i++) {
      const request = this.#ready[i]!
      this.#latency[request] = end + cpu.overheadMs - this.#sent[request]!
      this.#answered(end + cpu.overheadMs)
    }
    this.#head += size
  }

  #answered(at: number): void {
    this.elapsedMs = Math.max(this.elapsedMs, at)
    if (!this.#closed || at >= this.#endMs) return
    let place = this.#arrivals.push(at) - 1
    for (; place > this.#nextArrival && this.#arrivals[place - 1]! > at; place--) this.#arrivals[place] = this.#arrivals[place - 1]!
    this.#arrivals[place] = at
  }

  /** One of the factors, at random. */
  #jitter(factors: Float64Array): number {
    return factors.length === 1 ? factors[0]! : factors[Math.floor(this.#o.uniform() * factors.length)]!
  }
}

/** Lognormal factors of mean 1 to draw from; drawing is cheaper than computing one for each request. */
function lognormalFactors(sd: number, uniform: () => number): Float64Array {
  if (sd === 0) return Float64Array.of(1)
  const factors = Float64Array.from({ length: 1024 }, () =>
    Math.exp(sd * Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())),
  )
  const mean = factors.reduce((sum, f) => sum + f, 0) / factors.length
  return factors.map((f) => f / mean)
}

function earliest(times: readonly number[]): number {
  let best = 0
  for (let i = 1; i < times.length; i++) if (times[i]! < times[best]!) best = i
  return best
}
