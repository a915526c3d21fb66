/** Evidence of a pass: its valid windows of open load, and the rates and speeds that they show. */
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { exceedsErrorRate, excludeTimeouts, meetsSlo, type Slo } from '../../model/slo.ts'
import { type detectSlowdown, estimateSpeedUpPerS } from '../changes/speed-change.ts'
import type { WindowRates } from '../interval.ts'
import { findOutageSpans } from '../outage-spans.ts'
import {
  emptyServiceLog,
  extractServiceLog,
  type ObservedRun,
  type ServiceLog,
} from '../service-log/service-log.ts'
import type { AgreedDiscipline } from './agreed-discipline.ts'
import { OfferedRates } from './offered-rates.ts'
import { type CountedWindow, findMetRate, RateBounds } from './rate-bounds.ts'
import { SpeedChanges } from './speed-changes.ts'
import { WindowScreen } from './window-screen.ts'

/**
 * Verdict on a window. 'counts': it is evidence. 'repeat': it is invalid or has a first outage, and
 * must be played again. 'faster', 'slower': the server changed its speed, and earlier windows were
 * dropped.
 */
type WindowVerdict = 'counts' | 'repeat' | 'faster' | 'slower'

/** Largest relative difference of rates at which step durations are comparable. Assumed. */
const rateTolerance = 0.05

export class Evidence {
  readonly offered = new OfferedRates()
  readonly screen: WindowScreen
  readonly speed: SpeedChanges
  rates: RateBounds
  private counted: readonly CountedWindow[] = []
  private readonly loopLogs = new Map<LoadRun, ServiceLog>()

  constructor(
    private readonly slo: Slo,
    readonly discipline: AgreedDiscipline,
    slowdownDetector?: typeof detectSlowdown,
  ) {
    this.screen = new WindowScreen(slo.limitMs)
    this.speed = new SpeedChanges(slowdownDetector)
    this.rates = new RateBounds(slo)
  }

  /** Departures within this time of each other, ms, count as one batch. */
  get coalescingMs(): number {
    return this.discipline.coalescingMs
  }

  /**
   * Runs that calibrate the queue model: open load only. A closed loop waits for its own answers,
   * which leaves the stages of a concurrent server idle.
   */
  get windows(): ObservedRun[] {
    return this.counted.map(({ window }) => window)
  }

  /** Bounds of the interval. */
  get windowRates(): WindowRates {
    return this.rates.collectWindowRates(this.counted)
  }

  /** Highest steady rate below the failing ones whose window met the SLO; 0 without one. */
  get metBelowFailingRps(): number {
    return findMetRate(this.counted, this.slo, this.rates.failingRps)
  }

  /**
   * Share of its speed that the server gains per second, over its steady windows. Where step
   * durations depend on the rate, only windows at about the last rate are compared.
   */
  get speedUpPerS(): number {
    const lastRps = this.counted.at(-1)?.point.offeredRps ?? 0
    const logs = this.collectComparableLogs(
      this.counted.map(({ window, point }) =>
        Math.abs(point.offeredRps / lastRps - 1) > rateTolerance ? emptyServiceLog : window.log,
      ),
    )
    return estimateSpeedUpPerS(logs.filter((_, i) => this.counted[i]!.steady))
  }

  /** Extracts the service logs of closed loops, memoised. */
  extractLoopLogs(loops: readonly LoadRun[]): ServiceLog[] {
    return loops.map((loop) => {
      const log =
        this.loopLogs.get(loop) ??
        extractServiceLog(loop, this.coalescingMs, this.screen.findInterference(loop))
      this.loopLogs.set(loop, log)
      return log
    })
  }

  /** Adds an open window. */
  add(run: LoadRun, point: LoadPoint, steady: boolean): WindowVerdict {
    const { screen, slo } = this
    if (!this.offered.record(run)) return 'counts'
    const served = shiftToActualSends(run)
    const disturbed = screen.countInterference(run)
    const log = extractServiceLog(served, this.coalescingMs, disturbed)
    const counted = { window: { run: served, disturbed, log }, point, steady }
    if (screen.isInvalid(counted)) {
      if (steady && run.cutMs === undefined && meetsSlo(point, slo)) {
        // An SLO that is met despite interference counts as met. But the window does not show the
        // server's speed, so it enters no service log.
        this.rates.record(counted)
        return 'counts'
      }
      screen.countInvalid()
      return 'repeat'
    }
    screen.countValid()
    const verdicts = screen.outages
      .screen(counted, findOutageSpans(served, slo.limitMs))
      .map((window) => this.addValid(window))
    return verdicts.at(-1) ?? 'repeat'
  }

  /** Counts a valid window, and checks whether the server changed its speed. */
  private addValid(counted: CountedWindow): WindowVerdict {
    const { log } = counted.window
    const { speed, rates } = this
    rates.record(counted)
    if (log.present.length === 0) return 'counts'
    const before = this.windows.map((window) => window.log)
    if (speed.detectSpeedUp(before, log)) {
      this.counted = [counted]
      rates.forgetViolations()
      return 'faster'
    }
    this.counted = [...this.counted, counted]
    const slowerFrom = speed.detectSlowdown(this.collectComparableLogs(), this.counted.length)
    if (slowerFrom === undefined) return 'counts'
    this.dropBefore(slowerFrom)
    return 'slower'
  }

  /** Drops the windows before a change of speed, and the rate bounds that they set. */
  private dropBefore(first: number): void {
    this.counted = this.counted.slice(first)
    this.rates = new RateBounds(this.slo)
    for (const window of this.counted) this.rates.record(window)
  }

  /**
   * Logs whose step durations are comparable between rates; `fallback` for a server without such
   * logs.
   */
  private collectComparableLogs(fallback: readonly ServiceLog[] = []): readonly ServiceLog[] {
    const logs = this.discipline.extractServices(this.windows) ?? fallback
    // A server that refuses requests serves a selection of the arrivals, so its log is not
    // comparable.
    return logs.map((log, i) =>
      exceedsErrorRate(excludeTimeouts(this.counted[i]!.point), this.slo) ? emptyServiceLog : log,
    )
  }

  listCaveats(): string[] {
    const slowdown = 'the server slowed down during the measurement: earlier windows are left out'
    return [...(this.speed.hasSlowedDown ? [slowdown] : []), ...this.screen.listCaveats()]
  }
}

/**
 * Shifts requests to their actual send times: a send that the generator delayed is a later arrival,
 * and not the server's fault.
 */
function shiftToActualSends(run: LoadRun): LoadRun {
  const { lateMs } = run
  if (lateMs === undefined) return run
  return {
    ...run,
    sentMs: run.sentMs.map((at, i) => at + lateMs[i]!),
    latencyMs: run.latencyMs.map((ms, i) => ms - lateMs[i]!),
  }
}
