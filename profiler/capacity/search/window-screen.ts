/** Screens the open windows of a search: which are invalid by host interference or an outage. */
import { rate } from '../../format.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { findInterference, sumSpansMs, type TimeSpans } from '../host-interference.ts'
import { OutageScreen } from '../outage-screen.ts'
import type { CountedWindow } from './rate-bounds.ts'

/**
 * An invalid window is repeated up to this many times in a row, and all windows together up to
 * `maxTotalRepeats`. Assumed.
 */
const maxRepeats = 3
const maxTotalRepeats = 6
/**
 * Shortest pause of the generator that counts as interference: 10 ms, or a tenth of the limit if
 * longer. Assumed.
 */
const minPauseMs = 10
const minPauseLimitShare = 0.1
/**
 * Share of a window from which host interference makes it invalid: less than half is left. Assumed.
 */
const maxDisturbedShare = 0.5
/** Share of the time under open load from which host interference is reported. Assumed. */
const minReportedShare = 0.02

export class WindowScreen {
  readonly outages = new OutageScreen<CountedWindow>()
  private invalidInARow = 0
  private invalidWindows = 0
  private validWindows = 0
  private playedMs = 0
  private disturbedMs = 0

  constructor(private readonly limitMs: number) {}

  /** Whether the windows were invalid so often that repeating them is useless. */
  get isDisturbed(): boolean {
    return (
      this.invalidInARow > 0 &&
      (this.invalidInARow > maxRepeats || this.invalidWindows > maxTotalRepeats)
    )
  }

  /** Whether most windows were invalid: the valid ones were probably disturbed as well. */
  get isMostlyInvalid(): boolean {
    return this.invalidWindows > this.validWindows
  }

  /** Finds the host interference of a run. */
  findInterference(run: LoadRun): TimeSpans {
    return findInterference(run, Math.max(minPauseMs, minPauseLimitShare * this.limitMs))
  }

  /** Finds the host interference of an open window, and adds it to the total. */
  countInterference(run: LoadRun): TimeSpans {
    const spans = this.findInterference(run)
    this.playedMs += 1000 * run.elapsedS
    this.disturbedMs += sumSpansMs(spans)
    return spans
  }

  /** Whether host interference took so much of a window that it says little about the server. */
  isInvalid({ window: { run, disturbed }, point }: CountedWindow): boolean {
    const disturbedShare = sumSpansMs(disturbed) / (1000 * run.elapsedS)
    return disturbedShare > maxDisturbedShare || point.invalid === true
  }

  countInvalid(): void {
    this.invalidInARow++
    this.invalidWindows++
  }

  countValid(): void {
    this.invalidInARow = 0
    this.validWindows++
  }

  listCaveats(): string[] {
    const { playedMs, disturbedMs, outages } = this
    const caveats: string[] = []
    if (disturbedMs > 0 && disturbedMs >= minReportedShare * playedMs) {
      const share = ((100 * disturbedMs) / playedMs).toFixed(0)
      const repeats = Math.min(this.invalidWindows, maxTotalRepeats)
      const repeatNote =
        repeats > 0
          ? `, and ${repeats} ${repeats === 1 ? 'window was' : 'windows were'} repeated`
          : ''
      caveats.push(
        `other work on this machine paused the load generator for ${share} % of the time, which is left out${repeatNote}`,
      )
    }
    if (outages.setAside !== undefined) {
      const { outage, window } = outages.setAside
      const cause =
        window.window.disturbed.length > 0
          ? 'other work on this machine paused the load generator meanwhile'
          : 'the load generator kept running: the server had an outage, or waited'
      caveats.push(
        `the server answered nothing for ${Math.round(outage.untilMs - outage.fromMs)} ms of a window at ${rate(window.point.offeredRps)} (${cause}); this outage did not recur in later windows and is left out`,
      )
    }
    return caveats
  }
}
