/**
 * Detects pauses of this process by late timers. What is measured during a pause is due to the
 * host, not the server.
 */
export class StallWatch {
  private lastMs = 0
  private readonly spans: number[] = []

  constructor(private readonly periodMs: number) {}

  /** Called every period with the time since the start of the run. */
  tick(nowMs: number): void {
    const lateMs = nowMs - this.lastMs - this.periodMs
    if (lateMs > minStallMs && this.lastMs > 0) this.spans.push(nowMs - lateMs, nowMs)
    this.lastMs = nowMs
  }

  /** Start and end of each pause, one after the other, ms. */
  stallsMs(): Float64Array {
    return Float64Array.from(this.spans)
  }
}

const minStallMs = 5
