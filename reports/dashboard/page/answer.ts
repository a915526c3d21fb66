/** Data that the page shows: the ranked answer to the what-if question, and the page state. */
import type { Annotations } from '../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import type { Candidate, Recommendation } from '../../recommendation/types.ts'
import type { Theme } from '../charts/theme.ts'
import type { DashboardExperiment, ExperimentEntry } from '../data/page-data.ts'
import type { Ranker, WhatIf } from '../data/ranking.ts'

/** The state of the page at one moment, ranked. Every section is a function of it. */
export interface Answer extends PageState {
  readonly experiment: DashboardExperiment
  readonly trials: readonly FinishedTrial[]
  readonly whatIf: WhatIf
  readonly planning: Planning
  /** Whether the question is that of the experiment, unchanged. */
  readonly original: boolean
  readonly recommendation: Recommendation
  readonly candidates: readonly Candidate[]
  readonly byTrial: ReadonlyMap<number, Candidate>
  readonly ranker: Ranker
  /** Devices in the order of the space. */
  readonly devices: readonly string[]
}

/** State of the page that does not affect the ranking. */
export interface PageState {
  readonly annotations: Annotations
  /** Every experiment of the store; none in a saved page. */
  readonly experiments: readonly ExperimentEntry[]
  /** Ids of the experiments that this one is compared with. */
  readonly compared: readonly string[]
  /** Numbers of the trials that are compared with each other. */
  readonly sideBySide: ReadonlySet<number>
  /** The page may write notes and tags, and archive and delete experiments. */
  readonly writable: boolean
  /** Trials are still arriving in bulk. */
  readonly loading: boolean
  /**
   * Between the browser's `beforeprint` and `afterprint`: charts are light, tables whole, and
   * nothing is computed later.
   */
  readonly printing: boolean
  readonly theme: Theme
}

/**
 * Demand to plan for, and the share of the capacity kept free. `assumed`: nobody has given a
 * demand.
 */
export interface Planning {
  readonly demandRps: number
  readonly headroom: number
  readonly assumed?: boolean
}
