/** What windows of open load at one rate have shown so far, looked at after each: whether that is enough to say that the SLO holds there, or does not. */
import { apart, countWithin, failsTooOften, keeps } from '../../slo.ts'
import { overShare } from '../../statistics/dependence.ts'
import { leftOut, loadPointOf } from '../../statistics/load-point.ts'
import { evidenceOn, sureness } from '../../statistics/sequential.ts'
import type { LoadPoint, Slo } from '../../types.ts'
import { type Pause, pausesOf } from '../pauses.ts'
import type { Played } from '../session.ts'
import { inARow } from './joined-runs.ts'

/** An e-value that ends it at once as missed, for good: 99 %. */
const enough = 100
/** What counts as proven, at whatever look it is reached first: 95 % (Ville's inequality: an e-process exceeds 20 with at most that chance, ever). */
const sufficient = 20
/** Part of the time that a proof takes at least: a stall that comes more seldom than that has not been looked for. */
const leastShare = 1 / 3
/** Times the time that is gone on for where it could bring a proof. */
const longest = 2
/** How alike neighbours are is seen by twice as many of the slowest as may be over the limit, a tenth at most; of so many at least. */
const slowestTenth = 0.1
const leastSlow = 20
/** Windows that the generator or the machine may spoil, in a row and in all, before the rate is given up: bursts of other work pass. */
const mostSpoiltInARow = 2
const mostSpoilt = 5

export class RateEvidence {
  private countedS = 0
  private spoilt = 0
  private spoiltInARow = 0
  private lastSpoilt: Played | undefined
  /** A window that missed for one pause longer than the limit, set aside until there is a second. */
  private paused: { readonly played: Played; readonly pause: Pause } | undefined
  private pauseCameBack = false
  private state:
    | {
        readonly played: Played
        readonly nEff: number
        readonly kept: number
        readonly missed: number
        /** `kept` after so many times as much of the same. */
        readonly keptAfter: (times: number) => number
      }
    | undefined

  constructor(
    private readonly rateRps: number,
    private readonly slo: Slo,
    /** Time after which it is decided by what was seen, proven or not. */
    private readonly seconds: number,
    /** Whether a lower rate that is proven would do as well: then no time goes into one that its windows so far would not prove. */
    private readonly lowerWouldDo = false,
    /** Of a higher rate that held without proof. A server is no slower when it is asked less, so what speaks for that rate speaks for this one. */
    private readonly higher?: RateEvidence,
  ) {}

  /** Requests over the limit beyond those seen that make a miss certain, whatever the rest of the time brings. */
  get overForMiss(): number {
    const { slo, rateRps, seconds, state } = this
    const over = state === undefined ? 0 : state.played.run.latencyMs.length - countWithin(state.played.run.latencyMs, slo.limitMs)
    return Math.max(5, Math.ceil(1.5 * rateRps * seconds * (1 - slo.percentile)) + 5 - over)
  }

  add(played: Played): void {
    const { slo } = this
    if (!this.keptBy(played)) {
      if (played.point.generatorSaturated || played.point.disturbed || leftOut(played.run)) {
        this.spoilt++
        this.spoiltInARow++
        this.lastSpoilt = played
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

  /** Undefined: another window is wanted. 'spoilt': the generator or the machine let none count. 'unproven': as it goes on, the time will not prove it. */
  get decision(): 'holds' | 'missed' | 'spoilt' | 'unproven' | undefined {
    const { state, seconds, countedS, slo } = this
    if (this.spoiltInARow > mostSpoiltInARow || this.spoilt > mostSpoilt) return 'spoilt'
    if (state === undefined) return undefined
    const { point, run } = state.played
    if (run.cutMs !== undefined || failsTooOften(point, slo) || state.missed >= enough) return 'missed'
    const almost = 1e-6 * seconds
    const holds = this.keptBy(state.played)
    // A pause may come back: there is no early end.
    if (!this.mayEnd) return undefined
    if (holds && this.proven && !this.hasPaused) return 'holds'
    const over = countedS >= seconds - almost
    if (over && !holds) return 'missed'
    if (over && this.proven) return 'holds'
    const mayBeProven =
      countedS < longest * seconds - almost && this.headStart * state.keptAfter((longest * seconds) / countedS) >= sufficient
    if (this.lowerWouldDo && !mayBeProven) return 'unproven'
    return over && !mayBeProven ? 'holds' : undefined
  }

  /** Whether enough time was looked at to meet pauses, without which nothing is proven. */
  get mayEnd(): boolean {
    return this.lookedForS >= (leastShare - 1e-6) * this.seconds
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
    return (this.state?.nEff ?? 0) + (this.higher?.nEff ?? 0)
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
    return this.state === undefined ? 0 : this.headStart * this.state.kept
  }

  /**
   * Capital to begin with: half of it was bet on the higher rate, half kept, which leaves an e-value; those of windows that follow one another are
   * multiplied (Vovk and Wang, Annals of Statistics 49 (2021), section 4).
   */
  private get headStart(): number {
    return this.higher === undefined ? 1 : (1 + this.higher.kept) / 2
  }

  /** Time in which stalls would have been met, at this rate and the higher ones. */
  private get lookedForS(): number {
    return this.countedS + (this.higher?.lookedForS ?? 0)
  }

  caveats(): string[] {
    if (this.paused === undefined) return []
    const { pause } = this.paused
    const ms = Math.round(pause.untilMs - pause.fromMs)
    return [
      `nothing was answered for ${ms} ms of one window at ${this.rateRps.toFixed(1)} requests per second; it did not come back in ${Math.round(this.countedS)} s, and is left out`,
    ]
  }

  /** Late sends count against the server, so one that keeps the SLO in spite of them does; sends that were left out do not. */
  private keptBy({ run, point }: Played): boolean {
    return run.cutMs === undefined && keeps(point, this.slo) && !leftOut(run)
  }

  private count({ run }: Played): void {
    const { slo } = this
    this.spoiltInARow = 0
    this.countedS += run.cutMs === undefined ? run.load.durationS : run.seconds
    const joined = this.state === undefined ? run : inARow(this.state.played.run, run)
    const point: LoadPoint = loadPointOf(joined, slo)
    const allowed = 1 - slo.percentile
    // It holds where it does for each class, and is missed where it is for one.
    const shares = apart(joined, slo).map(({ latencyMs }) =>
      overShare(latencyMs, slo.limitMs, Math.min(slowestTenth, Math.max(2 * allowed, leastSlow / latencyMs.length))),
    )
    const evidence = (times: number) =>
      shares.map(({ n, over, dispersion }) => evidenceOn((times * n) / dispersion, (times * over) / dispersion, allowed))
    const now = evidence(1)
    this.state = {
      played: { run: joined, point },
      nEff: Math.min(...shares.map(({ nEff }) => nEff)),
      kept: Math.min(...now.map(({ kept }) => kept)),
      missed: Math.max(...now.map(({ missed }) => missed)),
      keptAfter: (times) => Math.min(...evidence(times).map(({ kept }) => kept)),
    }
  }
}
