/**
 * Any connection may be closed while it is idle, and a request may be on its way to meet that (RFC
 * 9112, section 9.5). Such a request was not taken, and may be sent again (RFC 9110, section 9.2.2;
 * RFC 9113, section 8.7).
 */

/** How long after its send a request may meet a close that was under way. */
const roundTrips = 2
const leastMs = 1
/** A connection idle for as long is one that servers close, some late with their timers. */
const longIdleMs = 500
const lateMs = 50

/** Turns of the event loop in which its sockets were asked, counted while requests wait to know. */
let turns = 0
let until = 0
let counting = false

/** The turn at whose end a request that is sent now has met what was there. */
function nextTurn(): number {
  // Sockets are asked before immediates are called, and perhaps no more in this turn.
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

/** The moment of a send. */
export class Sent {
  private readonly atMs = performance.now()
  private readonly turn = nextTurn()

  /** @param idleMs how long nothing was asked on the connection */
  constructor(private readonly idleMs: number) {}

  /**
   * Whether a close that is told of now was under way when the request was sent: it came within the
   * time of a round trip, or was there already, of which the next turn of the event loop tells,
   * however late that is.
   */
  metClose(roundTripMs: number): boolean {
    const raceMs = this.idleMs >= longIdleMs ? lateMs : leastMs + roundTrips * roundTripMs
    return turns <= this.turn || performance.now() - this.atMs <= raceMs
  }
}
