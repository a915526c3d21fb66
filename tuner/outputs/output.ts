/** A consumer of the event stream that sends a run to another program while it goes on. */
import type { TuneEvent } from '../loop/events.ts'

export interface Output {
  /** Handles an event; sends in the background. */
  handle(event: TuneEvent): void
  /** Sends what is queued and reports lost messages. Never rejects. */
  close(): Promise<void>
}
