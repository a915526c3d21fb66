/**
 * Capacity of a server in virtual time. Its time costs nothing, so that long windows and plain
 * bisection replace the search made for real servers.
 */
import { keeps, keepsSurely, type Slo, sloLimit, sloName, sloValue } from '../../model/slo.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { Load, Phase } from '../../model/load.ts'
import type { Capacity, Measurement } from '../../model/measurement.ts'
import type { Target } from '../../model/target.ts'
import type { VirtualExpectation } from '../../model/virtual-server.ts'
import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import { type CountedSearch, countedCapacity } from './counted-search.ts'
import { between, noCapacity } from '../capacity-bounds.ts'

export interface SimulatedCapacityOptions {
  readonly target: Extract<Target, { kind: 'virtual' }>
  readonly slo: Slo
  readonly seed: number
  readonly signal: AbortSignal
  readonly arrivals?: Extract<Load, { kind: 'open' }>['arrivals']
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
}

/** Of the capacity: rates of the load curve around it. */
const curveParts = [0.3, 0.6, 0.85] as const
const curveRequests = 1000
const capacityRequests = 4000
const idleRequests = 200
const saturationRequests = 1500
/** Of streamed answers, each of hundreds of steps: requests of a window and of a long one. */
const streamWindows = [1000, 3000] as const
const idleAnswers = 64
/** The rate is lowered by these steps until a long window keeps the SLO. */
const longStep = 0.985
const longSteps = 8
/** The ends of the bracket of a streaming server are then this far apart. */
const precision = 1.01
/**
 * Most servers keep their SLO up to somewhere near saturation: the first rates to try, as parts of
 * it.
 */
const firstRates = [0.8, 0.4, 0.1] as const
const saturatingConnections = 256

/**
 * The highest rate whose SLO percentile keeps the SLO, in virtual time. `seconds` of the result are
 * virtual.
 */
export function measureSimulatedCapacity(options: SimulatedCapacityOptions): Promise<Measurement> {
  return new SimulatedMeasurement(options).run()
}

class SimulatedMeasurement {
  private readonly generator = new VirtualLoadGenerator()
  private readonly points: LoadPoint[] = []
  /** Of the server by its own account, where it has one. */
  private readonly expected: VirtualExpectation | undefined
  private readonly arrivals: NonNullable<SimulatedCapacityOptions['arrivals']>

  constructor(private readonly options: SimulatedCapacityOptions) {
    const { target, slo, arrivals } = options
    this.expected = target.server.expects?.(slo)
    // A trace has a rate of its own.
    this.arrivals =
      arrivals === undefined || arrivals.kind === 'trace' ? { kind: 'poisson' } : arrivals
  }

  async run(): Promise<Measurement> {
    const { slo, target } = this.options
    const idle = await this.idle()
    const result = (
      saturationRps: number,
      outcome: Measurement['outcome'],
      capacity: Capacity,
      detail?: string,
    ): Measurement => ({
      outcome,
      ...capacity,
      slo,
      idle,
      saturationRps,
      points: this.points,
      requests: this.points.reduce((sum, p) => sum + p.requests, 0),
      seconds: this.points.reduce((sum, p) => sum + p.seconds, 0),
      detail,
      caveats: [],
    })
    if (!keeps(idle, slo)) {
      const detail = `one request at a time takes ${sloValue(slo, idle.sloMs)} at ${sloName(slo)}, over ${sloLimit(slo)}`
      return result(idle.achievedRps, 'slo-unattainable', noCapacity, detail)
    }
    // A closed loop may end before a large batch on a slow device does, and one at a time is
    // answered as fast as it is.
    const saturationRps = Math.max(idle.achievedRps, (await this.saturated(idle)).achievedRps)
    const { server } = target
    const { expects, countOver } = server
    const capacity =
      expects && countOver
        ? await this.counted(
            { expects: expects.bind(server), countOver: countOver.bind(server) },
            saturationRps,
          )
        : await this.bisected(idle, saturationRps)
    return result(saturationRps, 'converged', capacity)
  }

  private async play(load: Load, phase: Phase): Promise<LoadPoint> {
    const { target, slo, signal, onStep } = this.options
    const point = await this.generator.run(target, load, slo, signal)
    this.points.push(point)
    onStep?.(point, phase)
    return point
  }

  private closed(connections: number, durationS: number, phase: Phase): Promise<LoadPoint> {
    return this.play({ kind: 'closed', connections, durationS }, phase)
  }

  private offer(rateRps: number, requests: number): Promise<LoadPoint> {
    const { arrivals } = this
    const durationS = requests / rateRps
    return this.play(
      { kind: 'open', rateRps, arrivals, durationS, seed: this.options.seed },
      'search',
    )
  }

  private async idle(): Promise<LoadPoint> {
    const seconds = Math.max(0.5, (50 * this.options.slo.limitMs) / 1000)
    const first = await this.closed(
      1,
      atMost(idleRequests, this.expected && 1000 / this.expected.idleMs, seconds),
      'idle',
    )
    // A streamed answer takes long whatever the SLO is about.
    return first.stream
      ? this.closed(1, (idleAnswers * first.stream.e2e.meanMs) / 1000, 'idle')
      : first
  }

  /**
   * Long enough for several of the largest batches: one that is cut off with its first was served
   * next to nothing.
   */
  private async saturated(idle: LoadPoint): Promise<LoadPoint> {
    const { slo } = this.options
    const seconds = idle.stream
      ? (2 * idle.stream.e2e.maxMs) / 1000
      : atMost(
          saturationRequests,
          this.expected?.saturationRps,
          Math.max(1, (4 * slo.limitMs) / 1000),
        )
    const filled = await this.closed(saturatingConnections, seconds, 'saturation')
    const slowest = filled.stream?.e2e ?? idle.stream?.e2e ?? filled
    const enoughS = (4 * slowest.maxMs) / 1000
    return seconds < enoughS ? this.closed(saturatingConnections, enoughS, 'saturation') : filled
  }

  /** Of a server that counts its slow requests by itself; the load curve is played beside it. */
  private async counted(server: CountedSearch['server'], saturationRps: number): Promise<Capacity> {
    const { slo, seed } = this.options
    const capacity = countedCapacity({ server, slo, seed, arrivals: this.arrivals, saturationRps })
    const { capacityRps } = capacity
    for (const part of curveParts) await this.offer(part * capacityRps, curveRequests)
    // What a looser SLO would allow.
    await this.offer(
      Math.max(1.03 * capacityRps, Math.sqrt(capacityRps * saturationRps)),
      curveRequests,
    )
    await this.offer(capacityRps, capacityRequests)
    return capacity
  }

  /** By bisection over the rate, then down until a long window keeps the SLO. */
  private async bisected(idle: LoadPoint, saturationRps: number): Promise<Capacity> {
    const { slo } = this.options
    let low = 0.005 * saturationRps
    // Times per token do not show that answers wait: beyond saturation ever more do.
    let high = (idle.stream ? 1 : 1.05) * saturationRps
    let certainlyKept = 0
    let certainlyMissed = high
    while (high / low > precision) {
      const first = firstRates
        .map((part) => part * saturationRps)
        .find((rate) => rate > low && rate < high && low < 0.8 * saturationRps)
      const rateRps = first ?? Math.sqrt(low * high)
      const point = await this.offer(rateRps, streamWindows[0])
      if (keeps(point, slo)) low = rateRps
      else high = rateRps
      if (keepsSurely(point, slo) === true) certainlyKept = Math.max(certainlyKept, rateRps)
      if (keepsSurely(point, slo) === false) certainlyMissed = Math.min(certainlyMissed, rateRps)
    }
    // A short window near saturation ends before its queue has grown: the rate must also keep the
    // SLO over a long one.
    let capacityRps = low
    for (
      let step = 0;
      step < longSteps && !keeps(await this.offer(capacityRps, streamWindows[1]), slo);
      step++
    )
      capacityRps *= longStep
    const boundRps = Math.max(Math.min(certainlyMissed, 1.05 * saturationRps), capacityRps)
    return between(Math.min(certainlyKept || low, capacityRps), boundRps, capacityRps)
  }
}

/** Seconds that so many requests take at a rate, where it is known, and `seconds` at most. */
const atMost = (requests: number, rateRps: number | undefined, seconds: number): number =>
  rateRps === undefined ? seconds : Math.min(seconds, requests / rateRps)
