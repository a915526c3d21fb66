import type { Load } from './load.ts'
import type { StreamRun } from './load-run.ts'
import type { Slo } from './slo.ts'

/** A server in virtual time. Its state (queues, warm-up) lasts from one call to the next. */
export interface VirtualServer {
  /** Plays a load from the current virtual time to its last answer. */
  play(load: Load): VirtualRun
  /**
   * Capacity predicted by the server's own model, if it has one, at which a search may start.
   */
  predictCapacity?(slo: Pick<Slo, 'percentile' | 'limitMs'>): CapacityPrediction
  /**
   * Plays a load and only counts the requests that fail or exceed the limit, which is faster. It
   * may stop after more than `maxViolations` of them.
   */
  countViolations?(load: Load, limitMs: number, maxViolations: number): ViolationCounts
}

export interface CapacityPrediction {
  readonly capacityRps: number
  /** Rate at which the bottleneck stage is always busy. */
  readonly saturationRps: number
  /** Unloaded SLO percentile, ms. */
  readonly unloadedMs: number
}

/** Requests played, those that failed or exceeded the limit, and those that failed. */
export interface ViolationCounts {
  readonly requests: number
  readonly violations: number
  readonly failed: number
}

export interface VirtualRun {
  /** Intended send times from the start of the run, ms, ascending. Length n. */
  readonly sentMs: Float64Array
  /** Latency of each request, ms; NaN for a failure. Length n. */
  readonly latencyMs: Float64Array
  /** Error class of failed requests. */
  readonly failure: string
  /** Present for streamed answers. */
  readonly stream?: StreamRun
}
