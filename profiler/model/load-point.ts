/** Summary of a load, which is stored, printed and judged. */
import type { LatencyMetric, StreamLatency } from './latency-metrics.ts'
import type { Load } from './load.ts'

/** Summary of one load: a row of the load curve. */
export interface LoadPoint extends LatencySummary {
  readonly load: Load
  /** Intended rate; for a closed loop, the rate at which it settled. */
  readonly offeredRps: number
  /** Good answers per second. */
  readonly achievedRps: number
  /** Good answers within the SLO per second. */
  readonly goodputRps: number
  readonly errors: number
  /** Error class ('timeout', 'status 503', 'reset', 'bad answer', ...) → count. */
  readonly errorKinds: Readonly<Record<string, number>>
  /**
   * SLO percentile over all requests, with classes over those of the worst class, and its
   * distribution-free 95 % interval. Failed requests count as infinitely slow; Infinity when too
   * many failed.
   */
  readonly sloMs: number
  readonly sloCi95Ms: readonly [number, number]
  /**
   * The generator could not sustain the intended load, so the point says nothing about the limit of
   * the server.
   */
  readonly generatorSaturated: boolean
  /** Lateness of sends against their intended time, p99 in ms; 0 for a closed loop. */
  readonly latenessP99Ms: number
  readonly seconds: number
  /**
   * The window ended early because it had already violated the SLO. Its percentiles are then lower
   * bounds.
   */
  readonly cut?: boolean
  /** All latencies of streamed answers, whichever the SLO constrains. */
  readonly stream?: StreamSummary
  /** Shares of good requests under a joint SLO. */
  readonly joint?: JointSummary
  /**
   * Histograms of all latencies, to judge the window under another SLO
   * (capacity/rederive/window-under-slo.ts). Absent for imported results.
   */
  readonly latencies?: RecordedLatencies
  /**
   * Host interference kept the server or the generator waiting for a core, so the window is
   * invalid.
   */
  readonly invalid?: boolean
}

/** Latency percentiles of answered requests, in ms with microsecond resolution. */
export interface LatencySummary {
  readonly requests: number
  readonly meanMs: number
  readonly p50Ms: number
  readonly p90Ms: number
  readonly p95Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/** Histograms of a window's answers (load/latency-record.ts). */
export interface RecordedLatencies
  extends Readonly<Partial<Record<LatencyMetric, readonly number[]>>> {
  /** Bin, count, bin, count, ...; the others exist for streamed answers. */
  readonly e2e: readonly number[]
  /**
   * Dispersion of the share of slow requests (statistics/dependence.ts), the largest over several
   * limits: n correlated requests are worth at least n / dispersion independent ones.
   */
  readonly dispersion: number
}

/** Latencies and tokens of the streamed answers of a window. */
export interface StreamSummary extends Readonly<Record<StreamLatency, LatencySummary>> {
  /**
   * Over the time of the load for an open window that meets the SLO; else until the last answer.
   */
  readonly outputTokensPerSecond: number
  /**
   * Mean per answered request. Absent where neither server nor prompts report it.
   */
  readonly outputTokens?: number
  readonly inputTokens?: number
  /** Summaries of the classes of requests, by name. */
  readonly classes?: Readonly<Record<string, ClassSummary>>
}

/** Latencies of the answers to one class of requests. */
interface ClassSummary extends Readonly<Record<LatencyMetric, LatencySummary>> {
  /** Share of its requests within the limits of the SLO, 0-1. */
  readonly good: number
  /** Failed requests. */
  readonly errors: number
}

/** Shares of good requests under a joint SLO, of all requests, failed ones included, 0-1. */
export interface JointSummary {
  /** Share of requests within all limits (goodput). */
  readonly good: number
  /** Share of requests within the limits of each metric; the lowest one limits `good`. */
  readonly met: Readonly<Partial<Record<LatencyMetric, number>>>
}
