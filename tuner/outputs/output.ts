/**
 * Where else a run is told of, while it goes on: consumers of the stream of events that send it to
 * other programs.
 */
import type { TuneEvent } from '../loop/events.ts'

export interface Output {
  /** Takes an event; what there is to send of it is sent in the background. */
  handle(event: TuneEvent): void
  /** Sends what is left. Never rejects: what was lost has been told. */
  close(): Promise<void>
}
