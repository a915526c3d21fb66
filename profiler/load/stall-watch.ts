/**
 * Sees when a process that should have run did not: a timer that fires late. What is measured
 * meanwhile is the machine's doing, not the server's.
 */
export class StallWatch {
  private lastMs = 0
  private readonly spans: number[] = []

  constructor(private readonly periodMs: number) {}

  /** To be called every period, with the time since the run's start. */
  tick(nowMs: number): void {
    const lateMs = nowMs - this.lastMs - this.periodMs
    if (lateMs > shortestStallMs && this.lastMs > 0) this.spans.push(nowMs - lateMs, nowMs)
    this.lastMs = nowMs
  }

  /** Start and end of each stall, one after the other, ms. */
  stallsMs(): Float64Array {
    return Float64Array.from(this.spans)
  }
}

const shortestStallMs = 5
