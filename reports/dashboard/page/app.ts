/** The page's state: one experiment, its trials, the question asked of them, and the answer. Sections are told whenever it changes. */

import { demandOf } from '../../../search/objective.ts'
import type { Annotation, Annotations } from '../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { candidatesOf } from '../../recommendation/candidates.ts'
import type { Candidate, Recommendation } from '../../recommendation/types.ts'
import { darkTheme, lightTheme, type Theme } from '../charts/theme.ts'
import type { DashboardExperiment, ExperimentEntry } from '../data.ts'
import { asMeasured, deviceOf, isAsMeasured, Ranker, type WhatIf } from '../ranking.ts'

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

/** Demand to plan for, and the share of the capacity kept free. `assumed`: nobody has given a demand. */
interface Planning {
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

/** From so many trials on the contenders are ranked first, and everything when the reader pauses. */
const manyTrials = 5_000

/** An answer that takes longer waits for a pause of the drag. */
const frameMs = 60
const pauseMs = 160
/** Ranking all of very many holds the page up for seconds. */
const manyPauseMs = 600

export class App {
  shown?: Shown
  experiments: readonly ExperimentEntry[] = []
  /** Numbers of the trials that are compared with each other. */
  readonly sideBySide = new Set<number>()
  /** Notes and tags may be written, experiments put away and deleted. */
  writable = false
  readonly #sections: Section[] = []
  readonly #trials: FinishedTrial[] = []
  #annotations: Annotations = new Map()
  #experiment?: DashboardExperiment
  #ranker?: Ranker
  #whatIf?: WhatIf
  #planning?: Planning
  #refreshMs = 0
  #timer?: ReturnType<typeof setTimeout>
  #frame = 0
  #quickMs = 0
  /** A quick answer is about to be given. */
  #soon?: ReturnType<typeof setTimeout>
  /** Trials are still arriving in bulk: rank seldom. */
  loading = true

  constructor(readonly actions: { openTrial(number: number): void; readonly online: boolean }) {}

  add(...sections: Section[]): HTMLElement[] {
    this.#sections.push(...sections)
    return sections.map((s) => s.element)
  }

  setExperiment(experiment: DashboardExperiment): void {
    const untouched = !this.#experiment || !this.#whatIf || isAsMeasured(this.#experiment, this.#whatIf)
    this.#experiment = experiment
    this.#ranker = new Ranker(experiment)
    if (untouched) this.#whatIf = asMeasured(experiment)
    this.schedule()
  }

  addTrials(trials: readonly FinishedTrial[]): void {
    for (const trial of trials) this.#trials.push(trial)
    this.schedule()
  }

  setAnnotations(annotations: Iterable<readonly [trial: number, Annotation]>): void {
    this.#annotations = new Map(annotations)
    this.showAgain()
  }

  get whatIf(): WhatIf | undefined {
    return this.#whatIf
  }

  /** Asks another question of the same trials. `dragging`: more will follow at once. */
  ask(change: Partial<WhatIf>, dragging = false): void {
    if (!this.#whatIf) return
    this.#whatIf = { ...this.#whatIf, ...change }
    this.schedule(dragging)
  }

  plan(planning: Planning): void {
    this.#planning = planning
  }

  reset(): void {
    if (this.#experiment) this.ask(asMeasured(this.#experiment))
  }

  schedule(dragging = false): void {
    // While trials pour in, what stands is shown now and then; it never takes most of the time.
    if (this.loading) this.#timer ??= setTimeout(() => this.refresh(), this.shown ? Math.max(300, 4 * this.#refreshMs) : 0)
    else if (this.#trials.length >= manyTrials && this.shown) {
      // The mouse has three quarters of the time.
      this.#soon ??= setTimeout(() => this.#answerQuickly(), 3 * this.#quickMs)
    } else if (dragging && this.#refreshMs > frameMs) {
      // What would hold up the mouse waits for its pause; what would only skip frames is shown every now and then.
      if (this.#refreshMs > pauseMs * 2) clearTimeout(this.#timer)
      else if (this.#timer !== undefined) return
      this.#timer = setTimeout(() => this.refresh(), pauseMs)
    } else if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.refresh())
  }

  #shownFor(recommendation: Recommendation, experiment: DashboardExperiment, ranker: Ranker, whatIf: WhatIf): Shown {
    const candidates = candidatesOf(recommendation)
    const gpus = experiment.parameters.find((p) => p.name === 'gpu')
    const listed = gpus?.kind === 'categorical' ? gpus.values.map((gpu) => deviceOf({ gpu })) : []
    return {
      experiment,
      trials: this.#trials.slice(),
      annotations: this.#annotations,
      whatIf,
      planning: demandOf(whatIf.objective) ?? this.#planning ?? assumed(recommendation, experiment),
      original: isAsMeasured(experiment, whatIf),
      recommendation,
      candidates,
      byTrial: new Map(candidates.map((c) => [c.trial, c])),
      ranker,
      devices: [...new Set([...listed, ...candidates.map((c) => deviceOf(c.configuration))])],
      theme: currentTheme(),
    }
  }

  /** What the contenders say, for the sections that tell it at once; then everything. */
  #answerQuickly(): void {
    this.#soon = undefined
    const [experiment, ranker, whatIf] = [this.#experiment, this.#ranker, this.#whatIf]
    if (!experiment || !ranker || !whatIf) return
    performance.mark('quick')
    const shown = this.#shownFor(ranker.recommendQuickly(this.#trials, whatIf), experiment, ranker, whatIf)
    for (const section of this.#sections) if (section.atOnce) section.update(shown)
    this.#quickMs = performance.measure('quick', 'quick').duration
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.refresh(), manyPauseMs)
  }

  /** Shows the same answer, with the notes and tags of now and the trials that are picked now: none of them changes a rank. */
  showAgain(): void {
    // What is about to be ranked anew shows them then; the answer that stands is of an earlier question.
    if (!this.shown || this.#timer !== undefined || this.#soon !== undefined || this.#frame !== 0) return
    this.shown = { ...this.shown, annotations: this.#annotations }
    for (const section of this.#sections) section.update(this.shown)
  }

  /** Ranks and shows. */
  refresh(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    cancelAnimationFrame(this.#frame)
    this.#frame = 0
    clearTimeout(this.#soon)
    this.#soon = undefined
    const [experiment, ranker, whatIf] = [this.#experiment, this.#ranker, this.#whatIf]
    if (!experiment || !ranker || !whatIf) return
    performance.mark('rank')
    const recommendation = ranker.recommend(this.#trials, whatIf)
    performance.measure('rank', 'rank')
    this.shown = this.#shownFor(recommendation, experiment, ranker, whatIf)
    performance.mark('show')
    this.showAgain()
    performance.measure('show', 'show')
    this.#refreshMs = performance.measure('refresh', 'rank').duration
  }
}

/** Without a demand, one that takes a few replicas: three and a half times the capacity, rounded. */
function assumed({ best }: Recommendation, { headroom }: DashboardExperiment): Planning {
  return { demandRps: Number(((best?.capacityRps ?? 100) * 3.5).toPrecision(1)), headroom, assumed: true }
}

/** The theme that the reader chose, else the system's; paper is light. */
function currentTheme(): Theme {
  const chosen = document.documentElement.dataset.theme
  if (chosen === 'light' || document.documentElement.dataset.printing !== undefined) return lightTheme
  if (chosen === 'dark') return darkTheme
  return matchMedia('(prefers-color-scheme: dark)').matches ? darkTheme : lightTheme
}
