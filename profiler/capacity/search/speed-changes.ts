/** Detects between windows whether the server changed its speed. */
import { compareSpeeds, detectSlowdown } from '../changes/speed-change.ts'
import type { ServiceLog } from '../service-log/service-log.ts'

/**
 * A slower server counts as restored from this share of its speed in the first window: within half
 * of the smallest slowdown that `detectSlowdown` reports, 10 %.
 */
const minRestoredSpeed = 0.95

export class SpeedChanges {
  /** Speed of the last window relative to the windows before it; 1 where it was not faster. */
  lastGain = 1
  /** Current speed relative to the first window, for a server that slowed down. */
  relativeSpeed = 1
  /** The end of the last window was slower; another window has to confirm it. */
  maySlowDown = false
  hasSlowedDown = false

  constructor(private readonly slowdownDetector = detectSlowdown) {}

  /** Whether a window was significantly faster than those before it. */
  detectSpeedUp(before: readonly ServiceLog[], log: ServiceLog): boolean {
    this.lastGain = before.length > 0 ? Math.max(1, compareSpeeds(before, log).ratio) : 1
    if (this.lastGain === 1) return false
    this.maySlowDown = false
    const speed = this.relativeSpeed * this.lastGain
    this.relativeSpeed = speed > minRestoredSpeed ? 1 : speed
    return true
  }

  /**
   * Finds the index of the first window that was served at a lower speed. Undefined without a
   * slowdown, and while it still has to be confirmed.
   * @param logs comparable service logs of the windows, in time order
   * @param windows number of windows
   */
  detectSlowdown(logs: readonly ServiceLog[], windows: number): number | undefined {
    const slowdown = this.slowdownDetector(logs)
    this.maySlowDown = slowdown !== undefined && slowdown.from === windows
    if (slowdown === undefined || this.maySlowDown) return undefined
    this.relativeSpeed *= slowdown.speed
    this.hasSlowedDown = true
    return slowdown.from
  }
}
