/**
 * Context that all states of a search share. A state is one step of the machine in
 * capacity-search.ts.
 */
import type { LatencySummary } from '../../model/load-point.ts'
import type { detectSlowdown } from '../changes/speed-change.ts'
import type { Effort } from '../effort.ts'
import type { chooseDiscipline } from '../queue-model/choose-discipline.ts'
import type { estimatePosterior } from '../queue-model/posterior.ts'
import type { CapacitySearchOptions } from '../search-options.ts'
import type { PlayedLoad, Session } from '../session.ts'
import type { RequestWarmUp, WarmUp } from '../warm-up.ts'

/** Statistics that tests replace by scripted ones. */
interface Estimators {
  readonly estimatePosterior: typeof estimatePosterior
  readonly chooseDiscipline: typeof chooseDiscipline
  readonly detectSlowdown: typeof detectSlowdown
}

/** Dependencies of the search, the same in all of its states. */
export interface SearchContext {
  readonly session: Session
  readonly effort: Effort
  readonly options: CapacitySearchOptions
  /** Seed of the arrivals. */
  readonly seed: number
  readonly estimators: Estimators
  readonly report: SideReport
}

/** What a measurement reports in addition to the capacity. The states fill it in. */
export interface SideReport {
  unloaded: LatencySummary
  warmUp: WarmUp | undefined
  readonly caveats: string[]
}

/** Observations of the server before the search. */
export interface ObservedServer {
  /** Unloaded latency. */
  readonly unloaded: PlayedLoad
  /** Rate beyond which the server refuses requests. Where set, no closed loop is applied. */
  readonly refusesBeyondRps?: number
  /** Warm-up by closed loops; absent for a server that refuses them. */
  readonly warmUp?: RequestWarmUp
}

/**
 * How often passes of the search were repeated, by reason; each reason has a limit. A pass leads
 * from the saturation to a conclusion.
 */
export interface PassHistory {
  readonly furtherWarmUps: number
  /**
   * The closed loops were repeated once, after host interference. If they are disturbed again,
   * windows continue until one violates the SLO or the time is up.
   */
  readonly hasRepeatedSaturation: boolean
  /** Load points from before the first pass, which every pass keeps. */
  readonly earlierPoints: number
}
