/**
 * An idle connection may be closed while a request is on its way (RFC 9112, section 9.5). Such a
 * request was not processed and may be sent again (RFC 9110, section 9.2.2; RFC 9113, section 8.7).
 */

/** Round trips after its send within which a request may meet a close in progress. */
const roundTrips = 2
const minMs = 1
/** Servers close connections that are idle for this long, some late by their timers. */
const longIdleMs = 500
const lateMs = 50

/** Turns of the event loop that polled the sockets, counted while requests wait for the outcome. */
let turns = 0
let until = 0
let counting = false

/** Turn at whose end a request sent now has met any pending close. */
function nextTurn(): number {
  // Sockets are polled before immediates are called, and perhaps not again in this turn.
  until = turns + 1
  if (!counting) {
    counting = true
    setImmediate(countTurn)
  }
  return until
}

function countTurn(): void {
  turns++
  counting = turns <= until
  if (counting) setImmediate(countTurn)
}

/** Time of a send. */
export class Sent {
  private readonly atMs = performance.now()
  private readonly turn = nextTurn()

  /** @param idleMs time since the connection was last used */
  constructor(private readonly idleMs: number) {}

  /**
   * Whether a reported close was in progress when the request was sent: it came within a round
   * trip, or was already pending, which the next turn of the event loop reports, however late.
   */
  metClose(roundTripMs: number): boolean {
    const raceMs = this.idleMs >= longIdleMs ? lateMs : minMs + roundTrips * roundTripMs
    return turns <= this.turn || performance.now() - this.atMs <= raceMs
  }
}
