/**
 * What every section of the page is: an element, and how it shows the answer to the question that
 * is asked.
 */
import type { Annotations } from '../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import type { Candidate, Recommendation } from '../../recommendation/types.ts'
import type { Theme } from '../charts/theme.ts'
import type { DashboardExperiment } from '../data.ts'
import type { Ranker, WhatIf } from '../ranking.ts'

/** What a section is given to show. */
export interface Shown {
  readonly experiment: DashboardExperiment
  readonly trials: readonly FinishedTrial[]
  readonly annotations: Annotations
  readonly whatIf: WhatIf
  readonly planning: Planning
  /** The question is the experiment's own. */
  readonly original: boolean
  readonly recommendation: Recommendation
  readonly candidates: readonly Candidate[]
  readonly byTrial: ReadonlyMap<number, Candidate>
  readonly ranker: Ranker
  /** Devices in the order of the space. */
  readonly devices: readonly string[]
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

export interface Section {
  readonly element: HTMLElement
  /** It is told at once, where ranking everything takes longer: with the contenders alone. */
  readonly atOnce?: true
  update(shown: Shown): void
}
