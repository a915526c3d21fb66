import type { LatencyMetric, StreamLatency } from './latency-metrics.ts'
import type { Load } from './load.ts'

/** What one load did: the row of a load curve. */
export interface LoadPoint extends LatencySummary {
  readonly load: Load
  /** Intended rate. For a closed loop the rate it settled at. */
  readonly offeredRps: number
  /** Good answers per second. */
  readonly achievedRps: number
  /** Good answers within the SLO per second. */
  readonly goodputRps: number
  readonly errors: number
  /** Error class ('timeout', 'status 503', 'reset', 'bad answer', ...) → count. */
  readonly errorKinds: Readonly<Record<string, number>>
  /**
   * The SLO percentile over all requests (under an SLO with classes: over those of the worst
   * class), failed ones counted as infinitely slow (Infinity when too many failed), and its
   * distribution-free 95 % interval.
   */
  readonly sloMs: number
  readonly sloCi95Ms: readonly [number, number]
  /** The generator could not hold the intended load: says nothing of the server's limit. */
  readonly generatorSaturated: boolean
  /** How late sends were against their intended time, p99 in ms; 0 for a closed loop. */
  readonly latenessP99Ms: number
  readonly seconds: number
  /**
   * The window was ended early because it had already missed the SLO: its percentiles are lower
   * bounds.
   */
  readonly cut?: boolean
  /** Of streamed answers: all their latencies, whichever the SLO is about. */
  readonly stream?: StreamSummary
  /** Under a joint SLO: which share of all requests was good, and which kept each of its limits. */
  readonly joint?: JointSummary
  /**
   * All latencies in brief, for another SLO to be judged by (capacity/kept-under.ts). Absent in old
   * stores.
   */
  readonly latencies?: RecordedLatencies
  /**
   * The machine kept the server or the generator waiting for a core: says nothing of the server.
   */
  readonly disturbed?: boolean
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
  /** Bin, count, bin, count, ...; the others are of streamed answers. */
  readonly e2e: readonly number[]
  /**
   * Requests that say as much as one independent one, at most: the largest dispersion of the share
   * over any limit.
   */
  readonly dispersion: number
}

/** Streamed answers of a window: their latencies and their tokens. */
export interface StreamSummary extends Readonly<Record<StreamLatency, LatencySummary>> {
  /** Of an open window that keeps the SLO at the rate of its load; else until its last answer. */
  readonly outputTokensPerSecond: number
  /**
   * Means of an answered request. Absent in old stores, and where neither server nor prompts tell.
   */
  readonly outputTokens?: number
  readonly inputTokens?: number
  /** Each class of requests, by its name. */
  readonly classes?: Readonly<Record<string, ClassSummary>>
}

/** Latencies of the answers to one class of requests. */
export interface ClassSummary extends Readonly<Record<LatencyMetric, LatencySummary>> {
  /** Share of its requests that kept the SLO's limits, 0-1. */
  readonly good: number
  /** Requests that failed. Absent in old stores, where `good` is of the answers alone. */
  readonly errors?: number
}

/** Shares of all requests, failed ones among them, 0-1. */
export interface JointSummary {
  readonly good: number
  readonly kept: Readonly<Partial<Record<LatencyMetric, number>>>
}
