/** Where windows of production come from. */
import type { ProductionWindow } from '../../../reports/watch/production-window.ts'

export interface Reading {
  /** Whole windows, in order of time. */
  readonly windows: readonly ProductionWindow[]
  /** From where the next look goes on: plain data, kept with the watch. */
  readonly place?: unknown
  /** What could not be read, a sentence each. */
  readonly notes: readonly string[]
  /** Windows are over of which nobody knows whether there were requests. */
  readonly silent?: boolean
}

export interface Source {
  /**
   * What happened since the last look.
   * @param sinceS windows before it are known; absent: this is the first look
   * @param place what the last look left
   * @throws UserError where nothing can be read
   */
  read(
    nowS: number,
    sinceS: number | undefined,
    place: unknown,
    signal: AbortSignal,
  ): Promise<Reading>
}
