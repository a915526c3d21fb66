import type { LatencySummary, LoadPoint } from './load-point.ts'
import type { MetricReading } from './server-metric.ts'
import type { Slo } from './slo.ts'

/** Why a capacity search ended. */
export type CapacityOutcome =
  | 'converged' // the interval is narrow enough
  | 'slo-unattainable' // even one request at a time misses the SLO: capacity 0
  | 'errors' // the server fails requests beyond the bound at any load
  | 'budget' // time or requests ran out first; the interval says how far it got
  | 'unsettled' // the server was still getting faster, or slower, when the time was up: `change` says by how much
  | 'generator-limit' // the generator, not the server, was the limit: capacity is a lower bound
  | 'disturbed' // the machine spoilt the windows, and those played in their place: nothing is known
  | 'beaten' // cut short: certainly worse than the best so far; capacity is an upper bound
  | 'server-died'
  | 'imported' // read from another tool's results: there was no search, only the loads that it tells of

/** A capacity, and how it is known. Every search for one ends with it. */
export interface Capacity {
  /** Highest offered rate whose SLO percentile keeps the SLO; 0 when none was seen to. */
  readonly capacityRps: number
  /**
   * 90 % interval of the capacity; its upper end is Infinity where no load missed the SLO: a lower
   * bound is all that is known.
   */
  readonly capacityCi90Rps: readonly [number, number]
  readonly known: CapacityKnown
}

export type CapacityKnown =
  | 'held' // an open window (of imported results: a load) held the SLO at the interval's lower end, something bounds its upper one; or no rate keeps the SLO
  | 'bound below' // an open window held, and nothing says how much more the server does: at least
  | 'bound above' // no window held below the bound (capacity 0), or the search was cut short (capacity the bound): at most
  | 'nothing' // neither

/** What one trial measured. */
export interface Measurement extends Omit<Capacity, 'known'> {
  readonly outcome: CapacityOutcome
  /** Absent in old stores: see capacityOf. */
  readonly known?: CapacityKnown
  /**
   * Of a confirmation: with which certainty its windows prove that the SLO holds at the capacity, 0
   * to 1; looking after each of them does not lower it.
   */
  readonly sure?: number
  /**
   * Of an unsettled server: its speed at the end over that at the beginning, 1.12 = 12 % faster.
   */
  readonly change?: number
  /** The SLO the search was made for. */
  readonly slo: Slo
  /** The server's own metrics at the capacity, where they are asked for. */
  readonly metrics?: readonly MetricReading[]
  /** One request at a time. */
  readonly idle: LatencySummary
  /** Rate of a saturated closed loop, whatever its latency. */
  readonly saturationRps: number
  /** Every load point measured, in time order: the load curve. */
  readonly points: readonly LoadPoint[]
  readonly requests: number
  readonly seconds: number
  /**
   * Requests of the warm-up, and those after which the server answered no more and more. Absent of
   * streamed answers, confirmations, simulations.
   */
  readonly warmUp?: { readonly requests: number; readonly steadyAfter: number }
  /** Of a confirmation of which measurements disagree: how. Absent: they agree. */
  readonly variation?: Variation
  /** Evidence in one line for outcomes other than 'converged'. */
  readonly detail?: string
  /** Things the reader of the figure must know (generator shared the cores, ...). */
  readonly caveats: readonly string[]
}

/** How the windows of a confirmation at one rate varied, where measurements disagree. */
export interface Variation {
  /** What shows that they disagree, a sentence each. */
  readonly found: readonly string[]
  readonly windows: number
  /** Wall clock from the first of them to the end of the last, seconds. */
  readonly spanS: number
  /** Lowest and highest SLO percentile of a window, ms. */
  readonly sloMs: readonly [number, number]
  /** Lowest and highest speed of the server in a window, over that in the first one. */
  readonly speed: readonly [number, number]
}
