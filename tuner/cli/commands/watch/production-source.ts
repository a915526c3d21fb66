/** Interface of sources of production windows. */
import type { ProductionWindow } from '../../../../reports/watch/production-window.ts'

export interface ProductionReading {
  /** Complete windows in order of time. */
  readonly windows: readonly ProductionWindow[]
  /** Position at which the next read continues, as JSON for the store. */
  readonly place?: unknown
  /** Notices about data that could not be read. */
  readonly notes: readonly string[]
  /** Complete windows have no data at all, so it is unknown whether there were requests. */
  readonly silent?: boolean
}

export interface ProductionSource {
  /**
   * Reads the windows since the last read.
   * @param sinceS end of the last known window; absent: first read
   * @param place position of the last read
   * @throws UserError if nothing can be read
   */
  read(
    nowS: number,
    sinceS: number | undefined,
    place: unknown,
    signal: AbortSignal,
  ): Promise<ProductionReading>
}
