/**
 * An idle connection may be closed while a request is on its way (RFC 9112, section 9.5). Such a
 * request was not processed and may be sent again (RFC 9110, section 9.2.2; RFC 9113, section 8.7).
 */

/** A pending close is reported within this many round trips after the request was sent. */
const maxRaceRoundTrips = 2
/** Added to the round trips, because timers and the event loop are no more precise. */
const raceMarginMs = 1
/** After this idle time, an idle timer of the server may close the connection. */
const longIdleMs = 500
/** Idle timers may fire this much late. */
const idleTimerRaceMs = 50

/** Iterations of the event loop so far that polled the sockets. Counted only after a send. */
let loopTurns = 0
/** Counting continues until this iteration. */
let lastCountedTurn = 0
let isCounting = false

/** Iteration at whose end a close that is pending at this send has been reported. */
function countNextTurn(): number {
  // Sockets are polled before immediates are called, and perhaps not again in this turn.
  lastCountedTurn = loopTurns + 1
  if (!isCounting) {
    isCounting = true
    setImmediate(countTurn)
  }
  return lastCountedTurn
}

function countTurn(): void {
  loopTurns++
  isCounting = loopTurns <= lastCountedTurn
  if (isCounting) setImmediate(countTurn)
}

/** Records when a request was sent, to decide later whether it crossed a close. */
export class SendTime {
  private readonly sentMs = performance.now()
  private readonly reportTurn = countNextTurn()

  /** @param idleMs time since the connection was last used */
  constructor(private readonly idleMs: number) {}

  /**
   * Whether the close that was just reported was already under way when the request was sent. It
   * was if it arrived within the round trips above. It also was if it waited in the socket at the
   * send: then the next iteration of the event loop reports it, however late that is.
   */
  hasCrossedClose(roundTripMs: number): boolean {
    const raceMs =
      this.idleMs >= longIdleMs ? idleTimerRaceMs : raceMarginMs + maxRaceRoundTrips * roundTripMs
    return loopTurns <= this.reportTurn || performance.now() - this.sentMs <= raceMs
  }
}
