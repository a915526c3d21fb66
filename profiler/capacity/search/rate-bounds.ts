/** Rates that open windows met, violated or failed at: bounds of the capacity. */
import type { LoadPoint } from '../../model/load-point.ts'
import {
  exceedsErrorRate,
  excludeTimeouts,
  findMaxLimitMs,
  judgeSloByInterval,
  meetsSlo,
  type Slo,
} from '../../model/slo.ts'
import type { WindowRates } from '../interval.ts'
import type { ObservedRun } from '../service-log/service-log.ts'

/** A valid window that counts as evidence, and its load point. */
export interface CountedWindow {
  readonly window: ObservedRun
  readonly point: LoadPoint
  /** The window has one rate; false for a sweep. */
  readonly steady: boolean
}

/**
 * With this many requests, a window at a quarter beyond the capacity (`minContradictionFactor`)
 * violates the SLO: far more than the allowed share exceed the limit. Assumed.
 */
const minRequestsToRejectNearRate = 100
/**
 * With this many requests, a window at twice the capacity violates the SLO: at least one in five
 * exceeds the limit.
 */
const minRequestsToRejectDoubleRate = 20
/** The same for the length of the window, in SLO limits. */
const minLimitsToRejectDoubleRate = 4

/** Bounds of the capacity by windows at one rate, requests per second. Sweeps bound no rate. */
export class RateBounds {
  /** Highest throughput. */
  servedRps = 0
  /** Highest rate that met the SLO, and the highest one whose 95 % interval met it. */
  metRps = 0
  ciMetRps = 0
  /** Lowest rate that violated the SLO. */
  violatedRps = Number.POSITIVE_INFINITY
  /** Lowest rate with an error rate beyond the SLO, and the highest one without. */
  failingRps = Number.POSITIVE_INFINITY
  errorFreeRps = 0

  constructor(private readonly slo: Slo) {}

  record({ window: { run }, point, steady }: CountedWindow): void {
    const { slo } = this
    if (!steady) return
    this.servedRps = Math.max(this.servedRps, point.achievedRps)
    if (exceedsErrorRate(excludeTimeouts(point), slo))
      this.failingRps = Math.min(this.failingRps, point.offeredRps)
    else if (run.cutMs === undefined)
      this.errorFreeRps = Math.max(this.errorFreeRps, point.offeredRps)
    if (meetsSlo(point, slo) && run.cutMs === undefined) {
      this.metRps = Math.max(this.metRps, point.offeredRps)
      if (judgeSloByInterval(point, slo) === true)
        this.ciMetRps = Math.max(this.ciMetRps, point.offeredRps)
    } else this.violatedRps = Math.min(this.violatedRps, point.offeredRps)
  }

  /** Drops the violations of a server that has become faster. */
  forgetViolations(): void {
    this.violatedRps = Number.POSITIVE_INFINITY
  }

  /** Bounds of the interval, from these bounds and the valid windows. */
  collectWindowRates(counted: readonly CountedWindow[]): WindowRates {
    const { slo, metRps, ciMetRps, violatedRps } = this
    return {
      metRps,
      ciMetRps,
      ciViolatedRps: findCiViolatedRate(counted, slo),
      longWindowMetRps: findMetRate(
        counted,
        slo,
        violatedRps,
        Math.max(minRequestsToRejectNearRate, 1 / (1 - slo.percentile)),
      ),
      shortWindowMetRps: findMetRate(
        counted,
        slo,
        violatedRps,
        minRequestsToRejectDoubleRate,
        (minLimitsToRejectDoubleRate * findMaxLimitMs(slo)) / 1000,
      ),
    }
  }
}

/**
 * Finds the highest steady rate below `belowRps` whose window met the SLO with at least this many
 * requests and seconds; 0 without one.
 */
export function findMetRate(
  counted: readonly CountedWindow[],
  slo: Slo,
  belowRps: number,
  minRequests = 0,
  minS = 0,
): number {
  const met = counted.filter(
    ({ window, point, steady }) =>
      steady &&
      window.run.cutMs === undefined &&
      point.requests >= minRequests &&
      point.seconds >= minS &&
      point.offeredRps < belowRps &&
      meetsSlo(point, slo),
  )
  return Math.max(0, ...met.map(({ point }) => point.offeredRps))
}

/**
 * Finds the lowest steady rate from which every window violated the SLO, if there are two: an upper
 * bound of the capacity. Else Infinity.
 */
function findCiViolatedRate(counted: readonly CountedWindow[], slo: Slo): number {
  const steady = counted
    .filter((window) => window.steady)
    .sort((a, b) => b.point.offeredRps - a.point.offeredRps)
  // An error rate beyond the SLO bounds another capacity than latency does.
  const firstNotViolated = steady.findIndex(
    ({ point }) =>
      judgeSloByInterval(point, slo) !== false || exceedsErrorRate(excludeTimeouts(point), slo),
  )
  const violated = firstNotViolated < 0 ? steady : steady.slice(0, firstNotViolated)
  return violated.length > 1 ? violated.at(-1)!.point.offeredRps : Number.POSITIVE_INFINITY
}
