/**
 * The page's state: one experiment, its trials, the question asked of them, and the answer.
 * Sections are told whenever it changes.
 */

import { getDemand } from '../../../search/objective.ts'
import type { Annotation, Annotations } from '../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { candidatesOf } from '../../recommendation/candidates.ts'
import type { Recommendation } from '../../recommendation/types.ts'
import { darkTheme, lightTheme, type Theme } from '../charts/theme.ts'
import type { DashboardExperiment, ExperimentEntry } from '../data.ts'
import { asMeasured, deviceOf, isAsMeasured, Ranker, type WhatIf } from '../ranking.ts'
import { isPrinting } from './is-printing.ts'
import { Paced } from './paced.ts'
import type { Planning, Section, Shown } from './section.ts'
import { SectionsShown } from './sections-shown.ts'

/**
 * From so many trials on the contenders are ranked at once, and everything little by little when
 * the reader pauses.
 */
const manyTrials = 5_000

/** An answer that takes longer waits for a pause of the drag. */
const frameMs = 60
const pauseMs = 160
const manyPauseMs = 250

export class App {
  shown?: Shown
  experiments: readonly ExperimentEntry[] = []
  /** Numbers of the trials that are compared with each other. */
  readonly sideBySide = new Set<number>()
  /** Notes and tags may be written, experiments archived and deleted. */
  writable = false
  readonly #sections = new SectionsShown()
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
  readonly #paced = new Paced()
  /** Trials, while all before them were being ranked. */
  #moreCame = false
  /** Trials are still arriving in bulk: rank seldom. */
  loading = true
  #whenLoaded?: () => void

  constructor(readonly actions: { openTrial(number: number): void; readonly online: boolean }) {}

  add(...sections: Section[]): HTMLElement[] {
    this.#sections.add(sections)
    return sections.map((s) => s.element)
  }

  setExperiment(experiment: DashboardExperiment): void {
    const untouched =
      !this.#experiment || !this.#whatIf || isAsMeasured(this.#experiment, this.#whatIf)
    this.#experiment = experiment
    this.#ranker = new Ranker(experiment)
    if (untouched) this.#whatIf = asMeasured(experiment)
    this.schedule()
  }

  addTrials(trials: readonly FinishedTrial[]): void {
    for (const trial of trials) this.#trials.push(trial)
    // A ranking of very many that every new trial began anew would never end.
    if (this.#paced.isUnderWay) this.#moreCame = true
    else this.schedule()
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
    // The first trials follow at once: a page that is drawn without them would hold them up.
    if (this.loading && this.#trials.length === 0) return
    // While trials pour in, what stands is shown now and then; it never takes most of the time.
    if (this.loading)
      this.#timer ??= setTimeout(
        () => this.refresh(),
        this.shown ? Math.max(300, 4 * this.#refreshMs) : 0,
      )
    else if (this.#isMany && this.shown) {
      // The mouse has three quarters of the time.
      this.#soon ??= setTimeout(() => this.#answerQuickly(), 3 * this.#quickMs)
    } else if (dragging && this.#refreshMs > frameMs) {
      // What would hold up the mouse waits for its pause; what would only skip frames is shown
      // every now and then.
      if (this.#refreshMs > pauseMs * 2) clearTimeout(this.#timer)
      else if (this.#timer !== undefined) return
      this.#timer = setTimeout(() => this.refresh(), pauseMs)
    } else if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.refresh())
  }

  /** Everything has arrived. @param done once it is ranked and shown */
  loaded(done: () => void): void {
    this.loading = false
    this.#whenLoaded = done
    this.refresh()
  }

  get #isMany(): boolean {
    return this.#trials.length >= manyTrials
  }

  #shownFor(
    recommendation: Recommendation,
    experiment: DashboardExperiment,
    ranker: Ranker,
    whatIf: WhatIf,
  ): Shown {
    const candidates = candidatesOf(recommendation)
    const gpus = experiment.parameters.find((p) => p.name === 'gpu')
    const listed = gpus?.kind === 'categorical' ? gpus.values.map((gpu) => deviceOf({ gpu })) : []
    return {
      experiment,
      trials: this.#trials.slice(),
      annotations: this.#annotations,
      whatIf,
      planning:
        getDemand(whatIf.objective) ?? this.#planning ?? assumed(recommendation, experiment),
      original: isAsMeasured(experiment, whatIf),
      recommendation,
      candidates,
      byTrial: new Map(candidates.map((c) => [c.trial, c])),
      ranker,
      devices: [...new Set([...listed, ...candidates.map((c) => deviceOf(c.configuration))])],
      theme: currentTheme(),
    }
  }

  /**
   * What the contenders say, for the sections that tell it at once; then everything, for those that
   * the reader sees.
   */
  #answerQuickly(): void {
    this.#soon = undefined
    const [experiment, ranker, whatIf] = [this.#experiment, this.#ranker, this.#whatIf]
    if (!experiment || !ranker || !whatIf) return
    performance.mark('quick')
    this.#sections.tellAtOnce(
      this.#shownFor(ranker.recommendQuickly(this.#trials, whatIf), experiment, ranker, whatIf),
    )
    this.#quickMs = performance.measure('quick', 'quick').duration
    if (this.loading) return
    performance.mark('rank')
    this.#paced.begin(
      manyPauseMs,
      () => ranker.recommending(this.#trials, whatIf),
      (recommendation) => this.#show(recommendation, experiment, ranker, whatIf),
    )
  }

  /**
   * Shows the same answer, with the notes and tags of now and the trials that are picked now, in
   * the theme of now: none of them changes a rank.
   */
  showAgain(): void {
    // What is about to be ranked anew shows them then; the answer that stands is of an earlier
    // question.
    const soon =
      this.#timer !== undefined ||
      this.#soon !== undefined ||
      this.#frame !== 0 ||
      this.#paced.isUnderWay
    if (!this.shown || soon) return
    this.#tell({ ...this.shown, annotations: this.#annotations, theme: currentTheme() })
  }

  #tell(shown: Shown, done = () => {}): void {
    this.shown = shown
    if ((this.#isMany || this.loading) && !isPrinting()) {
      this.#sections.tellLittleByLittle(shown, done)
      return
    }
    this.#sections.tell(shown)
    done()
  }

  /**
   * Ranks and shows: what the contenders say of very many, before all of it. Paper waits for
   * nothing.
   */
  refresh(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    cancelAnimationFrame(this.#frame)
    this.#frame = 0
    clearTimeout(this.#soon)
    this.#soon = undefined
    this.#paced.stop()
    const [experiment, ranker, whatIf] = [this.#experiment, this.#ranker, this.#whatIf]
    if (!experiment || !ranker || !whatIf) return
    if (this.#isMany && !isPrinting()) {
      this.#answerQuickly()
      this.#refreshMs = this.#quickMs
      return
    }
    performance.mark('rank')
    this.#show(ranker.recommend(this.#trials, whatIf), experiment, ranker, whatIf)
    this.#refreshMs = performance.measure('refresh', 'rank').duration
  }

  #show(
    recommendation: Recommendation,
    experiment: DashboardExperiment,
    ranker: Ranker,
    whatIf: WhatIf,
  ): void {
    performance.measure('rank', 'rank')
    performance.mark('show')
    this.#tell(this.#shownFor(recommendation, experiment, ranker, whatIf), () => {
      performance.measure('show', 'show')
      this.#whenLoaded?.()
      this.#whenLoaded = undefined
      if (this.#moreCame) this.schedule()
      this.#moreCame = false
    })
  }
}

/**
 * Without a demand, one that takes a few replicas: three and a half times the capacity, rounded.
 */
function assumed({ best }: Recommendation, { headroom }: DashboardExperiment): Planning {
  return {
    demandRps: Number(((best?.capacityRps ?? 100) * 3.5).toPrecision(1)),
    headroom,
    assumed: true,
  }
}

/** The theme that the reader chose, else the system's; paper is light. */
function currentTheme(): Theme {
  const chosen = document.documentElement.dataset.theme
  if (chosen === 'light' || document.documentElement.dataset.printing !== undefined)
    return lightTheme
  if (chosen === 'dark') return darkTheme
  return matchMedia('(prefers-color-scheme: dark)').matches ? darkTheme : lightTheme
}
