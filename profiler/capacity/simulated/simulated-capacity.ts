/**
 * Capacity of a server in virtual time. Simulated time costs little, so long windows and plain
 * bisection replace the search for real servers.
 */

import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import type { Load, Phase } from '../../model/load.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { Capacity, Measurement } from '../../model/measurement.ts'
import {
  judgeSloByInterval,
  meetsSlo,
  type Slo,
  sloLimit,
  sloName,
  sloValue,
} from '../../model/slo.ts'
import type { Target } from '../../model/target.ts'
import type { CapacityPrediction } from '../../model/virtual-server.ts'
import { noCapacity } from '../capacity-bounds.ts'
import { boundSimulated } from '../interval.ts'
import {
  type CountedSearch,
  maxRateShare,
  minRateShare,
  searchCountedCapacity,
} from './counted-search.ts'

export interface SimulatedCapacityOptions {
  readonly target: Extract<Target, { kind: 'virtual' }>
  readonly slo: Slo
  readonly seed: number
  readonly signal: AbortSignal
  readonly arrivals?: Extract<Load, { kind: 'open' }>['arrivals']
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
}

// The following are assumed: virtual time is cheap, but not free.

/** Rates of the load curve, as shares of the capacity. */
const curveShares = [0.3, 0.6, 0.85] as const
/** Factor on the capacity to a rate just above it, where the saturation is no higher. */
const minBeyondFactor = 1.03
/** Requests of a point of the load curve, and of that at the capacity. */
const curveRequests = 1000
const capacityRequests = 4000
/** Requests of the unloaded latency, and of that of streamed answers. */
const unloadedRequests = 200
const unloadedAnswers = 64
/** Longest measurement of the unloaded latency, in seconds and in SLO limits. */
const minUnloadedLimitS = 0.5
const unloadedLimits = 50
/** Requests and connections of the saturation, and its longest time, in seconds and SLO limits. */
const saturationRequests = 1500
const saturatingConnections = 256
const minSaturationLimitS = 1
const saturationLimits = 4
/** Shortest saturation, in times of the slowest answer. */
const minSaturationAnswers = 4
/** Requests of a window, and of a long window, in the bisection. */
const bisectionRequests = 1000
const longWindowRequests = 3000
/**
 * Factor by which the rate falls until a long window meets the SLO, and the number of such steps.
 */
const longStepFactor = 0.985
const maxLongSteps = 8
/** Final ratio of the bracket of a streaming server. */
const maxBracketRatio = 1.01
/** First rates to try, as shares of the saturation: most servers meet their SLO close to it. */
const firstShares = [0.8, 0.4, 0.1] as const

/**
 * Finds the highest rate that meets the SLO in virtual time. `seconds` of the result are virtual.
 */
export function measureSimulatedCapacity(options: SimulatedCapacityOptions): Promise<Measurement> {
  return new SimulatedMeasurement(options).run()
}

class SimulatedMeasurement {
  private readonly generator = new VirtualLoadGenerator()
  private readonly points: LoadPoint[] = []
  /** Prediction of the server's own model, if it has one. */
  private readonly prediction: CapacityPrediction | undefined
  private readonly arrivals: NonNullable<SimulatedCapacityOptions['arrivals']>

  constructor(private readonly options: SimulatedCapacityOptions) {
    const { target, slo, arrivals } = options
    this.prediction = target.server.predictCapacity?.(slo)
    // A trace has a fixed rate.
    this.arrivals =
      arrivals === undefined || arrivals.kind === 'trace' ? { kind: 'poisson' } : arrivals
  }

  async run(): Promise<Measurement> {
    const { slo, target } = this.options
    const unloaded = await this.measureUnloaded()
    const buildMeasurement = (
      saturationRps: number,
      outcome: Measurement['outcome'],
      capacity: Capacity,
      detail?: string,
    ): Measurement => ({
      outcome,
      ...capacity,
      slo,
      unloaded,
      saturationRps,
      points: this.points,
      requests: this.points.reduce((sum, p) => sum + p.requests, 0),
      seconds: this.points.reduce((sum, p) => sum + p.seconds, 0),
      detail,
      caveats: [],
    })
    if (!meetsSlo(unloaded, slo)) {
      const detail = `one request at a time takes ${sloValue(slo, unloaded.sloMs)} at ${sloName(slo)}, over ${sloLimit(slo)}`
      return buildMeasurement(unloaded.achievedRps, 'slo-unattainable', noCapacity, detail)
    }
    // A closed loop may end before a large batch on a slow device, and the unloaded rate is a lower
    // bound.
    const saturationRps = Math.max(
      unloaded.achievedRps,
      (await this.measureSaturation(unloaded)).achievedRps,
    )
    const { server } = target
    const { predictCapacity, countViolations } = server
    const capacity =
      predictCapacity && countViolations
        ? await this.searchCounted(
            {
              predictCapacity: predictCapacity.bind(server),
              countViolations: countViolations.bind(server),
            },
            saturationRps,
          )
        : await this.bisect(unloaded, saturationRps)
    return buildMeasurement(saturationRps, 'converged', capacity)
  }

  private async play(load: Load, phase: Phase): Promise<LoadPoint> {
    const { target, slo, signal, onStep } = this.options
    const point = await this.generator.run(target, load, slo, signal)
    this.points.push(point)
    onStep?.(point, phase)
    return point
  }

  private playClosed(connections: number, durationS: number, phase: Phase): Promise<LoadPoint> {
    return this.play({ kind: 'closed', connections, durationS }, phase)
  }

  private playOpen(rateRps: number, requests: number): Promise<LoadPoint> {
    const { arrivals } = this
    const durationS = requests / rateRps
    return this.play(
      { kind: 'open', rateRps, arrivals, durationS, seed: this.options.seed },
      'search',
    )
  }

  private async measureUnloaded(): Promise<LoadPoint> {
    const seconds = Math.max(minUnloadedLimitS, (unloadedLimits * this.options.slo.limitMs) / 1000)
    const first = await this.playClosed(
      1,
      boundSeconds(unloadedRequests, this.prediction && 1000 / this.prediction.unloadedMs, seconds),
      'unloaded',
    )
    // A streamed answer takes long, whichever latency the SLO constrains.
    return first.stream
      ? this.playClosed(1, (unloadedAnswers * first.stream.e2e.meanMs) / 1000, 'unloaded')
      : first
  }

  /**
   * Measures the saturation with windows of several large batches: a window cut within its first
   * batch shows almost no throughput.
   */
  private async measureSaturation(unloaded: LoadPoint): Promise<LoadPoint> {
    const { slo } = this.options
    const seconds = unloaded.stream
      ? (2 * unloaded.stream.e2e.maxMs) / 1000
      : boundSeconds(
          saturationRequests,
          this.prediction?.saturationRps,
          Math.max(minSaturationLimitS, (saturationLimits * slo.limitMs) / 1000),
        )
    const saturated = await this.playClosed(saturatingConnections, seconds, 'saturation')
    const answers = saturated.stream?.e2e ?? unloaded.stream?.e2e ?? saturated
    const minS = (minSaturationAnswers * answers.maxMs) / 1000
    return seconds < minS ? this.playClosed(saturatingConnections, minS, 'saturation') : saturated
  }

  /** Searches by the server's own count of violations, then plays the load curve. */
  private async searchCounted(
    server: CountedSearch['server'],
    saturationRps: number,
  ): Promise<Capacity> {
    const { slo, seed } = this.options
    const capacity = searchCountedCapacity({
      server,
      slo,
      seed,
      arrivals: this.arrivals,
      saturationRps,
    })
    const { capacityRps } = capacity
    for (const share of curveShares) await this.playOpen(share * capacityRps, curveRequests)
    // A point beyond the capacity, for looser SLOs.
    await this.playOpen(
      Math.max(minBeyondFactor * capacityRps, Math.sqrt(capacityRps * saturationRps)),
      curveRequests,
    )
    await this.playOpen(capacityRps, capacityRequests)
    return capacity
  }

  /** Bisects the rate, then lowers it until a long window meets the SLO. */
  private async bisect(unloaded: LoadPoint, saturationRps: number): Promise<Capacity> {
    const { slo } = this.options
    let low = minRateShare * saturationRps
    // A time per token does not include waiting, so it may meet the SLO even beyond the saturation.
    let high = (unloaded.stream ? 1 : maxRateShare) * saturationRps
    let ciMetRps = 0
    let ciViolatedRps = high
    while (high / low > maxBracketRatio) {
      const first = firstShares
        .map((share) => share * saturationRps)
        .find((rate) => rate > low && rate < high && low < firstShares[0] * saturationRps)
      const rateRps = first ?? Math.sqrt(low * high)
      const point = await this.playOpen(rateRps, bisectionRequests)
      if (meetsSlo(point, slo)) low = rateRps
      else high = rateRps
      if (judgeSloByInterval(point, slo) === true) ciMetRps = Math.max(ciMetRps, rateRps)
      if (judgeSloByInterval(point, slo) === false) ciViolatedRps = Math.min(ciViolatedRps, rateRps)
    }
    // A short window near saturation ends before its queue has grown, so the rate must meet the SLO
    // over a long one.
    let capacityRps = low
    for (
      let step = 0;
      step < maxLongSteps && !meetsSlo(await this.playOpen(capacityRps, longWindowRequests), slo);
      step++
    )
      capacityRps *= longStepFactor
    const violatedRps = Math.min(ciViolatedRps, maxRateShare * saturationRps)
    return boundSimulated(capacityRps, ciMetRps || low, violatedRps)
  }
}

/** Computes the seconds for a number of requests at a rate, if it is known; at most `seconds`. */
const boundSeconds = (requests: number, rateRps: number | undefined, seconds: number): number =>
  rateRps === undefined ? seconds : Math.min(seconds, requests / rateRps)
