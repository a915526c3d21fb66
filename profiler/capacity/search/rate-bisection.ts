import { max } from 'simple-statistics'
import { rate } from '../../format.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import {
  exceedsErrorRate,
  isViolatedByLateSends,
  judgeSloByInterval,
  maxLimitMs,
  meetsSlo,
  splitByClass,
} from '../../model/slo.ts'
import { boundedAbove, boundedBetween, type SearchResult } from '../capacity-bounds.ts'
import type { Effort } from '../effort.ts'
import { allWindowsDisturbed } from '../host-interference.ts'
import { boundByWindows } from '../interval.ts'
import { describeErrors, type Session } from '../session.ts'
import {
  estimateJointCapacity,
  estimateOverloadThroughput,
  type JointCapacity,
  type ObservedWindow,
  observeWindow,
} from './short-windows.ts'

/** Minimum length of a window, in p90 answer times. Shorter ones end before the server is busy. */
const answersPerWindow = 4
/**
 * Length of a window in SLO limits: at a rate a quarter beyond the capacity, the queue takes four
 * limits to reach the limit.
 */
const limitsPerWindow = 4
/** For that purpose a window may be this long, or as long as the whole budget if that is longer. */
const maxLimitsWindowS = 10
/**
 * Target for the requests of a window, as far as the time allows. Where each request class has to
 * meet the SLO, it applies to the rarest class.
 */
const requestsPerWindow = 60
/** Ratio of the lowest violated to the highest met rate that ends the search. */
const maxConvergedRatio = 1.08
/** Invalid windows in a row that end the search. */
const maxInvalidInARow = 3
/**
 * Windows that the search may use, beyond its time budget, to bracket the capacity within
 * `maxRoughRatio`: a single answer may take longer than the budget.
 */
const maxWindowsUntilRough = 8
const maxRoughRatio = 1.3
/** Factor from one rate to the next while all windows meet the SLO, or none does. */
const stride = 2
/** First such factor from an expected capacity. It is squared after each further window. */
const strideNearExpected = 1.25
/** Largest such factor. */
const maxStride = 4
/**
 * A window whose percentile is below this share of the limit is followed by `maxStride` times its
 * rate, where no capacity is expected.
 */
const ampleLatencyShare = 0.5
/** First rate as a share of the rate that closed loops reached. */
const busyStartShare = 0.75
/**
 * Largest first rate as a factor on the expected capacity, where the search starts at the rate to
 * beat.
 */
const expectedProbeFactor = 1.5

interface BisectionAim {
  readonly seed: number
  /** As in `CapacityOptions`. */
  readonly expectedRps?: number
  readonly capacityToBeatRps?: number
  /**
   * Throughput of closed loops that kept the server busy. It counts as a violated rate, because
   * open load at that rate would queue without end.
   */
  readonly busy?: ObservedWindow
}

/** Good answers per second of the window, or of the time until the last answer. */
function answeredRps({ sentMs, latencyMs, stream, seconds }: LoadRun): number {
  const endsMs = (stream?.latenciesMs.e2e ?? latencyMs)
    .map((ms, i) => sentMs[i]! + ms)
    .filter((atMs) => !Number.isNaN(atMs))
  return (1000 * endsMs.length) / max([1000 * seconds, ...endsMs])
}

/**
 * Searches for the capacity where answers take seconds, as streamed ones do. Open windows, several
 * answers long, start at the expected rate, else at two requests in progress or below the rate of
 * closed loops. They go up or down until the SLO was both met and violated, then bisect the rate.
 * The search ends when the time is up, or when all windows together determine the capacity to the
 * precision of the effort (short-windows.ts). Where none met or none violated the SLO, the interval
 * is open on that side.
 */
export async function bisectRate(
  session: Session,
  effort: Effort,
  unloaded: LoadPoint,
  aim: BisectionAim,
): Promise<SearchResult> {
  return new RateBisection(session, effort, unloaded, aim).run()
}

class RateBisection {
  /** 90th percentile of an unloaded answer, to its last byte. */
  private readonly answerS: number
  private readonly unloadedMs: number
  private readonly longestLimitS: number
  private readonly observed: (ObservedWindow & {
    readonly met: boolean
    readonly ciMet: boolean
  })[] = []
  private metRps = 0
  /** Highest rate whose 95 % interval met the SLO. */
  private ciMetRps = 0
  private violatedRps: number
  /** Estimate from all windows together, once a rate met and another violated the SLO. */
  private joint: JointCapacity | undefined
  private invalidInARow = 0
  private windows = 0
  private strides = 0
  /** Last window with too many errors, while every violation was due to errors. */
  private refusedPoint: LoadPoint | undefined
  private hasSlowWindow = false
  private saturationRps: number
  /** Share of the rarest class among the requests of the last window. */
  private rarestShare = 1

  constructor(
    private readonly session: Session,
    private readonly effort: Effort,
    unloaded: LoadPoint,
    private readonly aim: BisectionAim,
  ) {
    this.answerS = (unloaded.stream?.e2e.p90Ms ?? unloaded.p90Ms) / 1000
    this.unloadedMs = unloaded.p50Ms
    this.violatedRps = aim.busy?.rateRps ?? Number.POSITIVE_INFINITY
    this.saturationRps = aim.busy?.rateRps ?? unloaded.achievedRps
    this.longestLimitS = maxLimitMs(session.slo) / 1000
  }

  async run(): Promise<SearchResult> {
    const { session, aim } = this
    for (
      let rateRps = this.firstRps();
      this.violatedRps / this.metRps > maxConvergedRatio;
      this.windows++
    ) {
      const seconds = this.chooseWindowS(rateRps)
      if (this.isTimeUp(seconds)) return this.finishSearch('budget', this.describeBounds())
      const { point, run } = await session.open(rateRps, seconds, aim.seed + this.windows, 'search')
      this.saturationRps = Math.max(this.saturationRps, answeredRps(run))
      this.rarestShare = Math.min(
        ...splitByClass(run, session.slo).map(
          ({ latencyMs }) => latencyMs.length / run.latencyMs.length,
        ),
      )
      if (await session.died(point)) return this.finish('server-died', session.causeOfDeath(point))
      const why = this.findInvalidity(point)
      if (why !== undefined) {
        if (++this.invalidInARow < maxInvalidInARow) continue
        return this.finish(why, invalidityDetails[why])
      }
      this.invalidInARow = 0
      this.absorb(point, observeWindow(run, session.slo, this.answerS))
      const pruned = this.pruneIfHopeless()
      if (pruned !== undefined) return pruned
      if (this.isPrecise()) break
      rateRps = this.nextRps(point)
    }
    return this.finishSearch('converged')
  }

  /**
   * First rate: the expected capacity. Where that would not win, a rate that would: one violation
   * there ends the search.
   */
  private firstRps(): number {
    const { expectedRps, capacityToBeatRps: toBeatRps = 0, busy } = this.aim
    if (expectedRps === undefined || !(expectedRps > 0))
      return busy === undefined ? 2 / this.answerS : busyStartShare * busy.rateRps
    return expectedRps < toBeatRps
      ? Math.min(toBeatRps, expectedProbeFactor * expectedRps)
      : expectedRps
  }

  private nextRps({ sloMs }: LoadPoint): number {
    const { metRps, violatedRps, aim, session } = this
    if (metRps > 0 && violatedRps < Number.POSITIVE_INFINITY) return Math.sqrt(metRps * violatedRps)
    const strideNear = Math.min(maxStride, strideNearExpected ** (2 ** this.strides++))
    if (aim.expectedRps !== undefined)
      return metRps > 0 ? metRps * strideNear : violatedRps / strideNear
    if (metRps === 0) return violatedRps / stride
    return metRps * (sloMs < ampleLatencyShare * session.slo.limitMs ? maxStride : stride)
  }

  private absorb(point: LoadPoint, window: ObservedWindow): void {
    const met = meetsSlo(point, this.session.slo)
    this.observed.push({
      ...window,
      met,
      ciMet: judgeSloByInterval(point, this.session.slo) === true,
    })
    const { busy } = this.aim
    const known = busy === undefined ? this.observed : [...this.observed, busy]
    // Beyond the throughput of the overloaded server, the SLO was met only because the window ended
    // before the queue had grown.
    const servedRps = estimateOverloadThroughput(known)?.rps ?? Number.POSITIVE_INFINITY
    const metWindows = this.observed.filter((one) => one.met && one.rateRps <= servedRps)
    this.metRps = Math.max(0, ...metWindows.map((one) => one.rateRps))
    this.ciMetRps = Math.max(
      0,
      ...metWindows.filter(({ ciMet }) => ciMet).map((one) => one.rateRps),
    )
    this.violatedRps = Math.min(
      ...known
        .filter((one) => !metWindows.some((other) => other === one))
        .map((one) => one.rateRps),
    )
    const isBracketed = this.metRps > 0 && this.violatedRps < Number.POSITIVE_INFINITY
    this.joint = isBracketed
      ? estimateJointCapacity(known, this.session.slo, this.unloadedMs)
      : undefined
    if (met) return
    if (exceedsErrorRate(point, this.session.slo)) this.refusedPoint = point
    else this.hasSlowWindow = true
  }

  /**
   * Finds the cause outside the server that made a window invalid. A window that met the SLO is
   * valid even with late sends, as lateness counts as latency.
   */
  private findInvalidity(point: LoadPoint): keyof typeof invalidityDetails | undefined {
    if (meetsSlo(point, this.session.slo)) return undefined
    if (isViolatedByLateSends(point, this.session.slo)) return 'generator-limit'
    return point.invalid ? 'host-interference' : undefined
  }

  /**
   * Prunes the trial after two windows that violated the SLO below the rate to beat; after one
   * where that was expected.
   */
  private pruneIfHopeless(): SearchResult | undefined {
    const { violatedRps, observed, aim } = this
    const violations = observed.filter(({ met }) => !met).length
    const { expectedRps, capacityToBeatRps: toBeatRps = 0 } = aim
    const isExpectedToLose = expectedRps !== undefined && expectedRps < toBeatRps
    if (violatedRps > toBeatRps || violations < (isExpectedToLose ? 1 : 2)) return undefined
    const detail = `stopped early: violates the SLO at ${rate(violatedRps)}, and ${rate(toBeatRps)} is needed to win`
    return { ...this.finish('pruned', detail), ...boundedAbove(violatedRps) }
  }

  private chooseWindowS(rateRps: number): number {
    const { effort, answerS } = this
    const forLimits = Math.min(
      limitsPerWindow * this.longestLimitS,
      Math.max(maxLimitsWindowS, effort.budgetS),
    )
    const wanted = Math.max(
      effort.windowS,
      answersPerWindow * answerS,
      forLimits,
      Math.min(requestsPerWindow / (this.rarestShare * rateRps), effort.budgetS / 6),
    )
    return this.isRoughlyKnown()
      ? Math.min(wanted, Math.max(effort.windowS, effort.budgetS))
      : wanted
  }

  /** Whether the joint estimate of all windows is as precise as required. */
  private isPrecise(): boolean {
    if (this.joint === undefined) return false
    const { median, ci90 } = this.joint
    return ci90[1] - ci90[0] <= 2 * this.effort.precision * median
  }

  private isTimeUp(nextS: number): boolean {
    if (this.windows === 0 || this.session.spentS + nextS <= this.effort.budgetS) return false
    return this.isRoughlyKnown() || this.windows >= maxWindowsUntilRough
  }

  private isRoughlyKnown(): boolean {
    return this.violatedRps / this.metRps <= maxRoughRatio
  }

  private describeBounds(): string {
    const { metRps, violatedRps } = this
    return `the SLO was met at ${rate(metRps)}${violatedRps < Number.POSITIVE_INFINITY ? ` and violated at ${rate(violatedRps)}` : ''} when the time was up`
  }

  private finishSearch(outcome: 'converged' | 'budget', detail?: string): SearchResult {
    return this.metRps === 0 && this.refusedPoint !== undefined && !this.hasSlowWindow
      ? this.finish('errors', describeErrors(this.refusedPoint))
      : this.finish(outcome, detail)
  }

  private finish(outcome: SearchResult['outcome'], detail?: string): SearchResult {
    const { metRps, violatedRps, ciMetRps, joint, saturationRps } = this
    if (joint === undefined)
      return { outcome, ...boundedBetween(metRps, violatedRps), saturationRps, detail }
    return {
      outcome,
      ...boundByWindows(
        { capacityRps: joint.median, capacityCi90Rps: joint.ci90 },
        { metRps, ciMetRps },
      ),
      saturationRps,
      detail,
    }
  }
}

/** Details of outcomes whose windows were invalid. */
const invalidityDetails = {
  'generator-limit': 'the load generator could not sustain the rate: the server may serve more',
  'host-interference': allWindowsDisturbed,
} as const
