/** Result of a capacity search. */
import type { LatencySummary, LoadPoint } from './load-point.ts'
import type { MetricReading } from './server-metric.ts'
import type { Slo } from './slo.ts'

/** Why a capacity search ended. */
export type CapacityOutcome =
  | 'converged' // the interval is narrow enough
  | 'slo-unattainable' // even one request at a time violates the SLO: capacity 0
  | 'errors' // the error rate exceeds the bound at any load
  | 'budget' // time or requests ran out first; the interval shows the precision reached
  | 'non-stationary' // the server was still speeding up, or slowing down, at the end: see `speedRatio`
  | 'generator-limit' // the generator, not the server, was the limit: capacity is a lower bound
  | 'host-interference' // host interference made the windows and their repetitions invalid: no result
  | 'pruned' // pruned, as it cannot beat the incumbent; capacity is an upper bound
  | 'server-died'
  | 'imported' // read from the results of another tool: there was no search

/** A capacity, and which of its bounds are known. The result of every search. */
export interface Capacity {
  /** Highest offered rate whose SLO percentile meets the SLO; 0 where none was found. */
  readonly capacityRps: number
  /**
   * 90 % interval of the capacity. The upper end is Infinity where no load violated the SLO: only a
   * lower bound is known.
   */
  readonly capacityCi90Rps: readonly [number, number]
  readonly bounds: CapacityBounds
}

/** Rules of `capacity/interval.ts` that change an interval, named after the observation behind them. */
export type IntervalRule =
  | 'observed throughput'
  | 'closed loops'
  | 'system capacity'
  | 'CPU quota'
  | 'model misfit'
  | 'windows'
  | 'failing rate'
  | 'token bucket'
  | 'refusals'
  | 'no window met'
  | 'pruned'
  | 'lower bound only'
  | 'unproven'
  | 'interpolation'
  | 'end of the load curve'

/** Figures of a capacity after a rule. */
export interface IntervalAdjustment {
  readonly rule: IntervalRule
  readonly capacityRps: number
  readonly capacityCi90Rps: readonly [number, number]
}

type CapacityBounds =
  | 'both' // an open window (for imported results, a load) met the SLO at the lower end, and the upper end is bounded; or no rate meets the SLO
  | 'lower' // an open window met the SLO, and there is no upper bound: at least
  | 'upper' // no window met the SLO below the bound (capacity 0), or the trial was pruned (capacity is the bound): at most
  | 'none' // neither bound

/** Measurement of one trial. */
export interface Measurement extends Capacity {
  readonly outcome: CapacityOutcome
  /**
   * Confidence of a confirmation that the SLO is met at the capacity, 0 to 1. It stays valid under
   * repeated looks.
   */
  readonly confidence?: number
  /**
   * Speed at the end relative to the beginning, for a server that changed its speed: 1.12 = 12 %
   * faster.
   */
  readonly speedRatio?: number
  /** The SLO of the search. */
  readonly slo: Slo
  /** The server's own metrics at the capacity, where requested. */
  readonly metrics?: readonly MetricReading[]
  /** Unloaded latency: one request at a time. */
  readonly unloaded: LatencySummary
  /** Rate of a saturated closed loop, whatever its latency. */
  readonly saturationRps: number
  /** All measured load points, in time order: the load curve. */
  readonly points: readonly LoadPoint[]
  readonly requests: number
  readonly seconds: number
  /**
   * Requests of the warm-up, and those after which the throughput grew no more. Absent for streamed
   * answers, confirmations and simulations.
   */
  readonly warmUp?: { readonly requests: number; readonly steadyAfter: number }
  /** Rules that changed the interval, in their order. Absent: none did. */
  readonly adjustments?: readonly IntervalAdjustment[]
  /** Variation of a confirmation whose measurements disagree. Absent: they agree. */
  readonly variation?: Variation
  /** Evidence in one line for outcomes other than 'converged'. */
  readonly detail?: string
  /** Caveats for the reader of the result (the generator shared the cores, ...). */
  readonly caveats: readonly string[]
}

/** Variation of the windows of a confirmation at one rate, where measurements disagree. */
export interface Variation {
  /** Disagreements found, a sentence each. */
  readonly found: readonly string[]
  readonly windows: number
  /** Wall-clock time from the first to the end of the last window, seconds. */
  readonly spanS: number
  /** Lowest and highest SLO percentile of a window, ms. */
  readonly sloMs: readonly [number, number]
  /** Lowest and highest speed of the server in a window, relative to the first window. */
  readonly speed: readonly [number, number]
}
