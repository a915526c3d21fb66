/** Data that the page shows: its state, and the ranking under the current what-if settings. */
import type { Annotations } from '../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import type { Candidate, Recommendation } from '../../recommendation/types.ts'
import type { Theme } from '../charts/theme.ts'
import type { DashboardExperiment, ExperimentEntry } from '../data/page-data.ts'
import type { Ranker, WhatIf } from '../data/ranking.ts'

/** The state of the page at one moment, ranked. Every section renders from it alone. */
export interface Answer extends PageState {
  readonly experiment: DashboardExperiment
  readonly trials: readonly FinishedTrial[]
  readonly whatIf: WhatIf
  readonly planning: Planning
  /** Whether the what-if settings equal those of the experiment. */
  readonly isUnchanged: boolean
  readonly recommendation: Recommendation
  readonly candidates: readonly Candidate[]
  readonly byTrial: ReadonlyMap<number, Candidate>
  readonly ranker: Ranker
  /** Devices in the order of the search space. */
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
  /** Whether the page may write notes and tags, and archive or delete experiments. */
  readonly isWritable: boolean
  /** Whether trials still arrive in bulk. */
  readonly isLoading: boolean
  /**
   * Between the browser's `beforeprint` and `afterprint`: charts use the light theme, tables are
   * not limited to the rows in view, and rendering is synchronous.
   */
  readonly isPrinting: boolean
  readonly theme: Theme
}

/** Demand to plan for, and the share of the capacity kept free (0-1). */
export interface Planning {
  readonly demandRps: number
  readonly headroom: number
  /** true: the user gave no demand. */
  readonly isAssumed?: boolean
}
