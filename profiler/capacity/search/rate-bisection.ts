import { max } from 'simple-statistics'
import { rate } from '../../format.ts'
import {
  apart,
  failsTooOften,
  keeps,
  keepsSurely,
  longestLimitMs,
  missedByLateSends,
} from '../../model/slo.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { withEvidence } from './reported-interval.ts'
import { disturbedThroughout } from '../host-interference.ts'
import type { Effort } from '../effort.ts'
import { atMost, between, type Searched } from '../capacity-bounds.ts'
import { failuresOf, type Session } from '../session.ts'
import {
  type CapacityBehind,
  capacityBehind,
  servedOf,
  type WindowSeen,
  windowSeen,
} from './short-windows.ts'

/** A window lasts this many answers: shorter ones end before the server has filled. */
const answersPerWindow = 4
/**
 * And this many of the longest limit: a server that is asked for a quarter more than it does keeps
 * the limit for four times as long, while its queue grows.
 */
const limitsPerWindow = 4
/** As far as that takes no longer than this, or than the time for all windows. */
const mostForLimitsS = 10
/**
 * Requests of a window, of the class with the fewest where each class must keep the SLO, where the
 * time allows it.
 */
const requestsPerWindow = 60
/** Ratio of the first missed to the last held rate that is narrow enough. */
const narrow = 1.08
/** Windows in a row that the generator or the machine spoiled until that is what is told. */
const mostSpoilt = 3
/**
 * Windows that the search may have, whatever their time, to find a rate that holds and one that
 * does not, roughly: answers may take longer than the time that was meant for all.
 */
const mostUntilRough = 8
const rough = 1.3
/**
 * From one rate to the next while all hold, or none does; beside what was expected by less, the
 * further the more.
 */
const stride = 2
const strideBesideExpected = 1.25
/**
 * Where the latency of a window that holds is below this share of the limit, and none was expected,
 * the next rate may be as many times as high.
 */
const ample = 0.5
const longestStride = 4
/** Of the rate that closed loops got, to begin with. */
const ofBusy = 0.75
/** Beyond what is expected of a server, for a rate that it would have to hold to be of use. */
const beyondExpected = 1.5

interface Aim {
  readonly seed: number
  /** As `CapacityOptions` have them. */
  readonly expectedRps?: number
  readonly capacityToBeatRps?: number
  /**
   * What closed loops showed of a server that they kept busy: it cannot hold the rate that they
   * got.
   */
  readonly busy?: WindowSeen
}

/** Answers over the window, or over the time until the last of them. */
function answeredRps({ sentMs, latencyMs, stream, seconds }: LoadRun): number {
  const endsMs = (stream?.latenciesMs.e2e ?? latencyMs)
    .map((ms, i) => sentMs[i]! + ms)
    .filter((atMs) => !Number.isNaN(atMs))
  return (1000 * endsMs.length) / max([1000 * seconds, ...endsMs])
}

/**
 * Capacity for answers that take seconds, streamed ones: open windows several answers long, from
 * what is expected (else two under way, or what closed loops tell) upward or downward until the SLO
 * is both held and missed, then bisected while there is time, or until all windows together tell
 * the capacity as closely as the effort asks (short-windows.ts). Where none held, or none missed,
 * the interval ends there.
 */
export async function rateBisection(
  session: Session,
  effort: Effort,
  idle: LoadPoint,
  aim: Aim,
): Promise<Searched> {
  return new RateBisection(session, effort, idle, aim).run()
}

class RateBisection {
  private readonly answerS: number
  private readonly idleMs: number
  private readonly longestLimitS: number
  private readonly seen: (WindowSeen & { readonly held: boolean; readonly surely: boolean })[] = []
  private held = 0
  /** With room to spare. */
  private surelyHeld = 0
  private missed: number
  /** What all windows together tell, once a rate was held and one missed. */
  private together: CapacityBehind | undefined
  private spoilt = 0
  private windows = 0
  private strides = 0
  /** While every window that missed did so by failed requests. */
  private refused: LoadPoint | undefined
  private slow = false
  private saturationRps: number
  /** Of all requests, in the last window. */
  private rarestShare = 1

  constructor(
    private readonly session: Session,
    private readonly effort: Effort,
    idle: LoadPoint,
    private readonly aim: Aim,
  ) {
    this.answerS = (idle.stream?.e2e.p90Ms ?? idle.p90Ms) / 1000
    this.idleMs = idle.p50Ms
    this.missed = aim.busy?.rateRps ?? Number.POSITIVE_INFINITY
    this.saturationRps = aim.busy?.rateRps ?? idle.achievedRps
    this.longestLimitS = longestLimitMs(session.slo) / 1000
  }

  async run(): Promise<Searched> {
    const { session, aim } = this
    for (let rateRps = this.firstRps(); this.missed / this.held > narrow; this.windows++) {
      const seconds = this.windowS(rateRps)
      if (this.timeIsUp(seconds)) return this.ended('budget', this.whenTimeWasUp())
      const { point, run } = await session.open(rateRps, seconds, aim.seed + this.windows, 'search')
      this.saturationRps = Math.max(this.saturationRps, answeredRps(run))
      this.rarestShare = Math.min(
        ...apart(run, session.slo).map(({ latencyMs }) => latencyMs.length / run.latencyMs.length),
      )
      if (await session.died(point)) return this.finish('server-died', session.causeOfDeath(point))
      const why = this.spoiler(point)
      if (why !== undefined) {
        if (++this.spoilt < mostSpoilt) continue
        return this.finish(why, spoiltBy[why])
      }
      this.spoilt = 0
      this.learn(point, windowSeen(run, session.slo, this.answerS))
      const beaten = this.beaten()
      if (beaten !== undefined) return beaten
      if (this.isPrecise()) break
      rateRps = this.nextRps(point)
    }
    return this.ended('converged')
  }

  /** A rate that would be needed, where less is expected: one miss there tells enough. */
  private firstRps(): number {
    const { expectedRps, capacityToBeatRps: toBeatRps = 0, busy } = this.aim
    if (expectedRps === undefined || !(expectedRps > 0))
      return busy === undefined ? 2 / this.answerS : ofBusy * busy.rateRps
    return expectedRps < toBeatRps ? Math.min(toBeatRps, beyondExpected * expectedRps) : expectedRps
  }

  private nextRps({ sloMs }: LoadPoint): number {
    const { held, missed, aim, session } = this
    if (held > 0 && missed < Number.POSITIVE_INFINITY) return Math.sqrt(held * missed)
    const besideExpected = Math.min(longestStride, strideBesideExpected ** (2 ** this.strides++))
    if (aim.expectedRps !== undefined)
      return held > 0 ? held * besideExpected : missed / besideExpected
    if (held === 0) return missed / stride
    return held * (sloMs < ample * session.slo.limitMs ? longestStride : stride)
  }

  private learn(point: LoadPoint, window: WindowSeen): void {
    const held = keeps(point, this.session.slo)
    this.seen.push({ ...window, held, surely: keepsSurely(point, this.session.slo) === true })
    const { busy } = this.aim
    const known = busy === undefined ? this.seen : [...this.seen, busy]
    // What is beyond what a server serves was held by no more than that the window ended.
    const served = servedOf(known)?.rps ?? Number.POSITIVE_INFINITY
    const holds = this.seen.filter((one) => one.held && one.rateRps <= served)
    this.held = Math.max(0, ...holds.map((one) => one.rateRps))
    this.surelyHeld = Math.max(0, ...holds.filter(({ surely }) => surely).map((one) => one.rateRps))
    this.missed = Math.min(
      ...known.filter((one) => !holds.some((other) => other === one)).map((one) => one.rateRps),
    )
    const bracketed = this.held > 0 && this.missed < Number.POSITIVE_INFINITY
    this.together = bracketed ? capacityBehind(known, this.session.slo, this.idleMs) : undefined
    if (held) return
    if (failsTooOften(point, this.session.slo)) this.refused = point
    else this.slow = true
  }

  /**
   * What kept a window from holding that was not the server; late sends count as latency: what
   * holds holds all the same.
   */
  private spoiler(point: LoadPoint): keyof typeof spoiltBy | undefined {
    if (keeps(point, this.session.slo)) return undefined
    if (missedByLateSends(point, this.session.slo)) return 'generator-limit'
    return point.disturbed ? 'disturbed' : undefined
  }

  /** It takes two windows that missed a rate of use, or one where that was expected. */
  private beaten(): Searched | undefined {
    const { missed, seen, aim } = this
    const misses = seen.filter(({ held }) => !held).length
    const { expectedRps, capacityToBeatRps: toBeatRps = 0 } = aim
    const asExpected = expectedRps !== undefined && expectedRps < toBeatRps
    if (missed > toBeatRps || misses < (asExpected ? 1 : 2)) return undefined
    const detail = `stopped early: violates the SLO at ${rate(missed)}, below the ${rate(toBeatRps)} needed to win`
    return { ...this.finish('beaten', detail), ...atMost(missed) }
  }

  private windowS(rateRps: number): number {
    const { effort, answerS } = this
    const forLimits = Math.min(
      limitsPerWindow * this.longestLimitS,
      Math.max(mostForLimitsS, effort.budgetS),
    )
    const wanted = Math.max(
      effort.windowS,
      answersPerWindow * answerS,
      forLimits,
      Math.min(requestsPerWindow / (this.rarestShare * rateRps), effort.budgetS / 6),
    )
    return this.roughlyKnown() ? Math.min(wanted, Math.max(effort.windowS, effort.budgetS)) : wanted
  }

  /** Known well enough by what the windows say together. */
  private isPrecise(): boolean {
    if (this.together === undefined) return false
    const { median, ci90 } = this.together
    return ci90[1] - ci90[0] <= 2 * this.effort.precision * median
  }

  private timeIsUp(nextS: number): boolean {
    if (this.windows === 0 || this.session.spentS + nextS <= this.effort.budgetS) return false
    return this.roughlyKnown() || this.windows >= mostUntilRough
  }

  private roughlyKnown(): boolean {
    return this.missed / this.held <= rough
  }

  private whenTimeWasUp(): string {
    const { held, missed } = this
    return `the SLO was met at ${rate(held)}${missed < Number.POSITIVE_INFINITY ? ` and violated at ${rate(missed)}` : ''} when the time was up`
  }

  private ended(outcome: 'converged' | 'budget', detail?: string): Searched {
    return this.held === 0 && this.refused !== undefined && !this.slow
      ? this.finish('errors', failuresOf(this.refused))
      : this.finish(outcome, detail)
  }

  private finish(outcome: Searched['outcome'], detail?: string): Searched {
    const { held, missed, together, saturationRps } = this
    if (together === undefined) return { outcome, ...between(held, missed), saturationRps, detail }
    const seen = { heldRps: held, surelyHeldRps: this.surelyHeld }
    return {
      outcome,
      ...withEvidence({ capacityRps: together.median, capacityCi90Rps: together.ci90 }, seen),
      saturationRps,
      detail,
    }
  }
}

/** Outcomes of a search whose windows were spoilt, and what is said of them. */
const spoiltBy = {
  'generator-limit': 'the load generator could not hold the rate: the server may do more',
  disturbed: disturbedThroughout,
} as const
