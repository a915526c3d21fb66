/**
 * An idle connection may be closed while a request is on its way (RFC 9112, section 9.5). Such a
 * request was not processed and may be sent again (RFC 9110, section 9.2.2; RFC 9113, section 8.7).
 */

/** A close under way is reported within this many round trips after the request was sent. */
const raceRoundTrips = 2
/** Added to the round trips, because timers and the event loop are no more precise. */
const raceMarginMs = 1
/** After this idle time a server may close the connection by an idle timer ... */
const longIdleMs = 500
/** ... and such timers may fire this much late. */
const idleTimerRaceMs = 50

/** Iterations of the event loop so far that polled the sockets. Counted only after a send. */
let turns = 0
/** Counting continues until this iteration. */
let countUntil = 0
let counting = false

/** Iteration at whose end a close that is pending at this send has been reported. */
function nextTurn(): number {
  // Sockets are polled before immediates are called, and perhaps not again in this turn.
  countUntil = turns + 1
  if (!counting) {
    counting = true
    setImmediate(countTurn)
  }
  return countUntil
}

function countTurn(): void {
  turns++
  counting = turns <= countUntil
  if (counting) setImmediate(countTurn)
}

/** Records when a request was sent, to decide later whether it crossed a close. */
export class SendTime {
  private readonly atMs = performance.now()
  private readonly reportTurn = nextTurn()

  /** @param idleMs time since the connection was last used */
  constructor(private readonly idleMs: number) {}

  /**
   * Whether the close that was just reported was already under way when the request was sent. It
   * was if it arrived within the round trips above. It also was if it waited in the socket at the
   * send: then the next iteration of the event loop reports it, however late that is.
   */
  crossedClose(roundTripMs: number): boolean {
    const raceMs =
      this.idleMs >= longIdleMs ? idleTimerRaceMs : raceMarginMs + raceRoundTrips * roundTripMs
    return turns <= this.reportTurn || performance.now() - this.atMs <= raceMs
  }
}
