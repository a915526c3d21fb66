/**
 * Detects pauses of the generator's own process by late timers. Latencies measured during a pause
 * are due to the host, not to the server.
 */
export class PauseDetector {
  private lastMs = 0
  private readonly spans: number[] = []

  constructor(private readonly periodMs: number) {}

  /** Called every period with the time since the start of the run. */
  tick(nowMs: number): void {
    const lateMs = nowMs - this.lastMs - this.periodMs
    // The first tick has no tick before it.
    if (lateMs > minPauseMs && this.lastMs > 0) this.spans.push(nowMs - lateMs, nowMs)
    this.lastMs = nowMs
  }

  /** Lists the start and end of each pause, one after the other, ms. */
  listSpansMs(): Float64Array {
    return Float64Array.from(this.spans)
  }
}

/** Minimum delay of a tick that counts as a pause, ms: shorter ones are normal. Assumed. */
const minPauseMs = 5
