/** Sets the first window with an outage aside, until a second outage shows whether it recurs. */
import type { OutageSpan } from './outage-spans.ts'

/** A window that was set aside, and its outage. */
interface SetAsideWindow<W> {
  readonly window: W
  readonly outage: OutageSpan
}

/**
 * Decides which windows with outages count. A single outage may be no property of the server, so
 * its window waits for another. Once a second outage occurs, outages are part of the server's
 * behaviour, and every window counts.
 */
export class OutageScreen<W> {
  /** Window that waits for a second outage. */
  setAside: SetAsideWindow<W> | undefined
  private outagesObserved = 0

  /** Returns the windows that count now, in time order: this one, and one that was set aside. */
  screen(window: W, outages: readonly OutageSpan[]): readonly W[] {
    this.outagesObserved += outages.length
    const [outage] = outages
    if (outage === undefined) return [window]
    if (this.outagesObserved === 1) {
      this.setAside = { window, outage }
      return []
    }
    const { setAside } = this
    this.setAside = undefined
    return setAside === undefined ? [window] : [setAside.window, window]
  }
}
