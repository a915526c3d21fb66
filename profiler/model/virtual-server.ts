import type { StreamRun } from './load-run.ts'
import type { Load } from './load.ts'
import type { Slo } from './slo.ts'

/** A server in virtual time. State (queues, warm-up) lasts from one call to the next. */
export interface VirtualServer {
  /** Plays a load from the server's current virtual time on, to its last answer. */
  play(load: Load): VirtualRun
  /**
   * What the server's own model expects, where it has one: where a search for the capacity may
   * begin.
   */
  expects?(slo: Pick<Slo, 'percentile' | 'limitMs'>): VirtualExpectation
  /**
   * Plays a load for nothing but the number of requests that fail or take longer than the limit; it
   * may end once they are more than `most`.
   */
  countOver?(load: Load, limitMs: number, most: number): OverCount
}

export interface VirtualExpectation {
  readonly capacityRps: number
  /** Rate at which the busiest stage is busy all the time. */
  readonly saturationRps: number
  /** The SLO percentile of requests that come one at a time, ms. */
  readonly idleMs: number
}

/** Requests played, those that failed or took longer, and the failed of them. */
export interface OverCount {
  readonly requests: number
  readonly over: number
  readonly failed: number
}

export interface VirtualRun {
  /** Intended send times from the run's start, ms, ascending. Length n. */
  readonly sentMs: Float64Array
  /** Latency of each request, ms; NaN = failed. Length n. */
  readonly latencyMs: Float64Array
  /** Failure class of the failed ones. */
  readonly failure: string
  /** Of streamed answers. */
  readonly stream?: StreamRun
}
