/**
 * What windows of open load at one rate have shown so far, looked at after each: whether that is
 * enough to say that the SLO holds there, or does not.
 */
import {
  apart,
  countWithin,
  failsTooOften,
  keeps,
  longestLimitMs,
  saysNothing,
  type Slo,
} from '../../model/slo.ts'
import { type OverShare, overShare } from '../../statistics/dependence.ts'
import { leftOut, loadPointOf } from '../../load/load-point.ts'
import { evidenceOn, sureness } from '../../statistics/sequential.ts'
import { type Pause, pausesOf } from '../outage-spans.ts'
import type { Played } from '../session.ts'
import type { Agreement } from './agreement.ts'
import { inARow } from './concatenate-runs.ts'

/** An e-value that ends it at once as missed, for good: 99 %. */
const enough = 100
/**
 * One that makes a miss the likelier: where a lower rate may be proven it is given up, before its
 * time to meet pauses is over.
 */
const likelier = 2
/**
 * What counts as proven, at whatever look it is reached first: 95 % (Ville's inequality: an
 * e-process exceeds 20 with at most that chance, ever).
 */
const sufficient = 20
/**
 * Part of the time that a proof takes at least: a stall that comes more seldom than that has not
 * been looked for.
 */
const leastShare = 1 / 3
/** Times the time that is gone on for where it could bring a proof. */
const longest = 2
/** Times the time that windows are spread over where measurements disagree: a minute of 30 s. */
const minSpread = 2
/** Wall clock that windows at one rate take at least where measurements disagree, seconds. */
export const spreadConfirmationS = (seconds: number): number => minSpread * seconds
/**
 * Of a rate that is to be confirmed, the share of its time that a server is busy, roughly; the less
 * it is, the sooner its queue forgets: neighbours are alike by 1 / (1 - that)².
 */
const usuallyBusy = 0.85
/**
 * Where the percentile of a lower rate is aimed at, as a part of what waiting the limit leaves: one
 * just below it is seldom proven.
 */
const aim = 0.8
/**
 * The lowest rate that is aimed at, as a part of the one that was too high: what heaps up where a
 * server falls behind says little of one that keeps up.
 */
const furthestDown = 0.85
/** Of its requests so many say as much as one, at the least. */
const usualDispersion = 3
/**
 * Where nothing will be proven, one window lasts so many of the longest limit: a server that is
 * asked for 5 % more than it does keeps its limit for twenty times as long.
 */
const limitsToFill = 20
/**
 * How alike neighbours are is seen by twice as many of the slowest as may be over the limit, a
 * tenth at most; of so many at least.
 */
const slowestTenth = 0.1
const leastSlow = 20
/**
 * Windows that the generator or the machine may spoil, in a row and in all, before the rate is
 * given up: bursts of other work pass.
 */
const mostSpoiltInARow = 2
const mostSpoilt = 5

interface RateQuestion {
  readonly rateRps: number
  readonly slo: Slo
  /** Time after which it is decided by what was seen, proven or not. */
  readonly seconds: number
  /**
   * Without proof it holds where a window of this length did: each begins with an empty server,
   * whose queue takes its time to grow. Default 0.
   */
  readonly fillsS?: number
  /**
   * Lowest rate that is worth more, were it proven: where the time would do for that and not for
   * this one, this one is given up. Absent: none.
   */
  readonly leastProvenRps?: number
  /**
   * Of a higher rate that held without proof. A server is no slower when it is asked less, so what
   * speaks for that rate speaks for this one.
   */
  readonly higher?: RateEvidence
  /**
   * Of all measurements of the configuration: while they disagree there is no early end, and the
   * windows are spread over twice the time. Absent: they agree.
   */
  readonly agreement?: Agreement
}

/** Whether all the time will most likely not prove a rate, whose requests it has too few of. */
export const tooFewToProve = ({
  rateRps,
  seconds,
  slo,
}: Pick<RateQuestion, 'rateRps' | 'seconds' | 'slo'>): boolean =>
  evidenceOn((rateRps * longest * seconds) / usualDispersion, 0, 1 - slo.percentile).kept <
  sufficient

/**
 * The length of a window in which the queue of a server that is asked for a little more than it
 * does reaches its limit, as far as the time goes, seconds.
 */
export const fillingS = (slo: Slo, seconds: number): number =>
  Math.min(longest * seconds, (limitsToFill * longestLimitMs(slo)) / 1000)

export class RateEvidence {
  private countedS = 0
  private spoilt = 0
  private spoiltInARow = 0
  private lastSpoilt: Played | undefined
  /**
   * A window that missed for one pause longer than the limit, set aside until there is a second.
   */
  private paused: { readonly played: Played; readonly pause: Pause } | undefined
  private pauseCameBack = false
  /** All windows that count, and what is over in them, of each class. */
  private state: { readonly played: Played; readonly shares: readonly OverShare[] } | undefined
  /** Of the longest window that counts. */
  private longestS = 0
  /** Wall clock since the first window began. */
  private ownSpanS = 0

  constructor(private readonly question: RateQuestion) {}

  /**
   * Requests over the limit beyond those seen that make a miss certain, whatever the rest of the
   * time brings.
   */
  get overForMiss(): number {
    const { state } = this
    const { slo, rateRps, seconds } = this.question
    const over =
      state === undefined
        ? 0
        : state.played.run.latencyMs.length - countWithin(state.played.run.latencyMs, slo.limitMs)
    return Math.max(5, Math.ceil(1.5 * rateRps * seconds * (1 - slo.percentile)) + 5 - over)
  }

  /** @param restedS how long the server was left alone before */
  add(played: Played, restedS = 0): void {
    const { slo, agreement } = this.question
    this.ownSpanS += restedS + played.run.elapsedS
    if (!this.keptBy(played)) {
      if (saysNothing(played.point, slo) || leftOut(played.run)) {
        this.spoilt++
        this.spoiltInARow++
        this.lastSpoilt = played
        if (played.point.disturbed) agreement?.addDisturbed()
        return
      }
      const pauses = pausesOf(played.run, slo.limitMs)
      if (pauses.length === 1 && this.paused === undefined && !this.pauseCameBack) {
        this.paused = { played, pause: pauses[0]! }
        return
      }
      if (pauses.length > 0 && this.paused !== undefined) {
        // It came back: the server pauses now and then.
        this.count(this.paused.played)
        this.paused = undefined
        this.pauseCameBack = true
      }
    }
    this.count(played)
  }

  /**
   * Undefined: another window is wanted. 'spoilt': the generator or the machine let none count.
   * 'unproven': as it goes on, the time will not prove it.
   */
  get decision(): 'holds' | 'missed' | 'spoilt' | 'unproven' | undefined {
    const { state, countedS } = this
    const { slo, seconds } = this.question
    if (this.spoiltInARow > mostSpoiltInARow || this.spoilt > mostSpoilt) return 'spoilt'
    if (state === undefined) return undefined
    const { point, run } = state.played
    const { missed } = this.evidence()
    if (run.cutMs !== undefined || failsTooOften(point, slo) || missed >= enough) return 'missed'
    const holds = this.keptBy(state.played)
    const over = countedS >= (1 - 1e-6) * seconds
    if (!holds && !over && missed >= likelier && this.lowerMayBeProven) return 'unproven'
    // A pause may come back: there is no early end.
    if (!this.mayEnd) return undefined
    if (holds && this.proven && !this.hasPaused) return 'holds'
    if (over && !holds) return 'missed'
    if (over && this.proven) return 'holds'
    if (this.mayBeProven) return undefined
    if (this.lowerMayBeProven) return 'unproven'
    return over && this.sawItFill ? 'holds' : undefined
  }

  /**
   * Whether the next window is to show a queue that grows: the time will not prove this rate, nor a
   * lower one that is worth it.
   */
  get wantsItFilled(): boolean {
    if (this.sawItFill) return false
    return this.state === undefined
      ? tooFewToProve(this.question)
      : this.mayEnd && !this.mayBeProven && !this.lowerMayBeProven
  }

  private get sawItFill(): boolean {
    return this.longestS >= (1 - 1e-6) * (this.question.fillsS ?? 0)
  }

  /** Whether this rate is proven once all the time is up, as it goes. */
  private get mayBeProven(): boolean {
    const times = (longest * this.question.seconds) / this.countedS
    return times > 1 + 1e-6 && this.headStart * this.evidence(times).kept >= sufficient
  }

  /**
   * Whether all the time there is would prove the lowest rate that is worth it, were nothing over
   * the limit there.
   */
  private get lowerMayBeProven(): boolean {
    const { countedS } = this
    const { leastProvenRps, rateRps, seconds, slo } = this.question
    if (leastProvenRps === undefined) return false
    const part = leastProvenRps / rateRps
    const forgets = ((1 - usuallyBusy) / (1 - usuallyBusy * part)) ** 2
    const times = (part * longest * seconds) / countedS
    const kept = this.state!.shares.map(
      ({ n, dispersion }) =>
        evidenceOn((times * n) / (1 + (dispersion - 1) * forgets), 0, 1 - slo.percentile).kept,
    )
    return this.leftToLower * Math.min(...kept) >= sufficient
  }

  /**
   * Whether enough time was looked at to meet pauses, without which nothing is proven; where
   * measurements disagree, all of the time, spread out.
   */
  get mayEnd(): boolean {
    const { seconds, agreement } = this.question
    return agreement === undefined || agreement.agrees
      ? this.lookedForS >= (leastShare - 1e-6) * seconds
      : this.lookedForS >= (1 - 1e-6) * seconds &&
          this.spanS >= (1 - 1e-6) * spreadConfirmationS(seconds)
  }

  /** How long to leave the server alone before the next window, once one counts, seconds. */
  restS(windowS: number): number {
    const { seconds, agreement } = this.question
    if (agreement === undefined || agreement.agrees || this.state === undefined) return 0
    const windows = Math.max(1, Math.ceil((seconds - this.lookedForS) / windowS - 1e-6))
    return Math.max(0, (spreadConfirmationS(seconds) - this.spanS) / windows - windowS)
  }

  /** Wall clock from the first window to the end of the last, those of higher rates with it. */
  get spanS(): number {
    return this.ownSpanS + (this.question.higher?.spanS ?? 0)
  }

  /**
   * The rate at which the percentile would be well within the limit, were the server as busy here
   * as one usually is: waits go with u / (1 - u) of the time u that it is busy (Kingman,
   * Mathematical Proceedings of the Cambridge Philosophical Society 57 (1961)). Infinite where it
   * is so here, and where failures decide, which tell no wait.
   * @param unloadedMs the latency without waiting
   */
  easierRps(unloadedMs: number): number {
    const { rateRps, slo } = this.question
    const waitMs = this.state === undefined ? 0 : this.state.played.point.sloMs - unloadedMs
    const aimMs = aim * Math.max(0, slo.limitMs - unloadedMs)
    if (waitMs <= aimMs || !Number.isFinite(waitMs)) return Number.POSITIVE_INFINITY
    const busy = ((usuallyBusy / (1 - usuallyBusy)) * aimMs) / waitMs
    return rateRps * Math.max(furthestDown, busy / (1 + busy) / usuallyBusy)
  }

  /** Of the windows so far, whatever they prove. */
  get holds(): boolean {
    return this.state !== undefined && this.keptBy(this.state.played)
  }

  /** Whether a window is set aside for its pause, which may come back. */
  get hasPaused(): boolean {
    return this.paused !== undefined
  }

  /** All windows that count as one; where none does, the one that was spoilt or set aside last. */
  get played(): Played | undefined {
    return this.state?.played ?? this.lastSpoilt ?? this.paused?.played
  }

  /** Independent requests that say as much; of several classes, of that with the fewest. */
  get nEff(): number {
    const own =
      this.state === undefined ? 0 : Math.min(...this.state.shares.map(({ nEff }) => nEff))
    return own + (this.question.higher?.nEff ?? 0)
  }

  /** With which certainty the windows prove that the SLO holds, 0 to 1. */
  get sure(): number {
    return sureness(this.kept)
  }

  get proven(): boolean {
    return this.kept >= sufficient
  }

  /** E-value that the SLO is kept; 0 before any window counts. */
  private get kept(): number {
    return this.state === undefined ? 0 : this.headStart * this.evidence().kept
  }

  /**
   * E-values of all windows, after so many times as much of the same: it holds where it does for
   * each class, and is missed where it is for one.
   */
  private evidence(times = 1): { readonly kept: number; readonly missed: number } {
    const each = this.state!.shares.map(({ n, over, dispersion }) =>
      evidenceOn(
        (times * n) / dispersion,
        (times * over) / dispersion,
        1 - this.question.slo.percentile,
      ),
    )
    return {
      kept: Math.min(...each.map(({ kept }) => kept)),
      missed: Math.max(...each.map(({ missed }) => missed)),
    }
  }

  private get headStart(): number {
    return this.question.higher?.leftToLower ?? 1
  }

  /**
   * Capital that a lower rate begins with: half of it was bet on this one, half kept, which leaves
   * an e-value; those of windows that follow one another are multiplied (Vovk and Wang, Annals of
   * Statistics 49 (2021), section 4).
   */
  private get leftToLower(): number {
    return (1 + this.kept) / 2
  }

  /** Time in which stalls would have been met, at this rate and the higher ones. */
  private get lookedForS(): number {
    return this.countedS + (this.question.higher?.lookedForS ?? 0)
  }

  caveats(): string[] {
    if (this.paused === undefined) return []
    const { pause } = this.paused
    const ms = Math.round(pause.untilMs - pause.fromMs)
    return [
      `nothing was answered for ${ms} ms of one window at ${this.question.rateRps.toFixed(1)} requests per second; it did not come back in ${Math.round(this.countedS)} s, and is left out`,
    ]
  }

  /**
   * Late sends count against the server, so one that keeps the SLO in spite of them does; sends
   * that were left out do not.
   */
  private keptBy({ run, point }: Played): boolean {
    return run.cutMs === undefined && keeps(point, this.question.slo) && !leftOut(run)
  }

  private count(played: Played): void {
    const { run } = played
    const { slo } = this.question
    this.question.agreement?.add(played)
    this.spoiltInARow = 0
    const countedS = run.cutMs === undefined ? run.load.durationS : run.seconds
    this.countedS += countedS
    this.longestS = Math.max(this.longestS, countedS)
    const joined = this.state === undefined ? run : inARow(this.state.played.run, run)
    const slowest = (n: number) =>
      Math.min(slowestTenth, Math.max(2 * (1 - slo.percentile), leastSlow / n))
    this.state = {
      played: { run: joined, point: loadPointOf(joined, slo) },
      shares: apart(joined, slo).map(({ latencyMs }) =>
        overShare(latencyMs, slo.limitMs, slowest(latencyMs.length)),
      ),
    }
  }
}
