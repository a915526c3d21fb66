/**
 * All state of the page: one experiment, its trials, the what-if question, the answer to it, and
 * what the user has opened and selected. Events of the server and of the user change the state
 * here; the sections of the page show it.
 */

import { getDemand } from '../../../search/objective.ts'
import type { Annotation } from '../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { listCandidates } from '../../recommendation/candidates.ts'
import type { Recommendation } from '../../recommendation/types.ts'
import { darkTheme, lightTheme, type Theme } from '../charts/theme.ts'
import type { DashboardExperiment, ExperimentEntry } from '../data/page-data.ts'
import { getDevice, isOwnQuestion, pickOwnQuestion, Ranker, type WhatIf } from '../data/ranking.ts'
import type { Answer, PageState, Planning } from './answer.ts'
import { SectionSchedule } from './section-schedule.ts'
import { TimeSlicer } from './time-slicer.ts'

/**
 * From this number of trials on, the page ranks only the best trials at once, and all of them in
 * time slices when the user pauses.
 */
const manyTrials = 5_000

/** A refresh that takes longer waits until the user pauses the drag, ms. */
const maxDragRefreshMs = 60
/** Pause of a drag after which the page is refreshed, ms. */
const dragPauseMs = 160
/** Pause after which all of many trials are ranked, ms. */
const rankPauseMs = 250

interface Question {
  readonly experiment: DashboardExperiment
  readonly ranker: Ranker
  readonly whatIf: WhatIf
}

export class App {
  /** Sections of the page. */
  readonly sections = new SectionSchedule()
  answer?: Answer
  /** Message shown above the sections; empty without a problem. */
  problem = ''
  /** Number of the trial that is open. */
  trial?: number
  /** Id of the experiment to show, known before its data arrives. */
  chosen = ''
  readonly #watchers = new Set<() => void>()
  #state: Omit<PageState, 'theme'> = {
    annotations: new Map(),
    experiments: [],
    compared: [],
    sideBySide: new Set(),
    isWritable: false,
    isLoading: true,
    isPrinting: false,
  }
  readonly #trials: FinishedTrial[] = []
  #experiment?: DashboardExperiment
  #ranker?: Ranker
  #whatIf?: WhatIf
  #planning?: Planning
  #refreshMs = 0
  #timer?: ReturnType<typeof setTimeout>
  #frame = 0
  #preliminaryMs = 0
  /** Timer of the next preliminary ranking. */
  #preliminaryTimer?: ReturnType<typeof setTimeout>
  readonly #timeSlicer = new TimeSlicer()
  /** Whether trials have arrived since the ranking in progress started. */
  #hasNewTrials = false
  #whenLoaded?: () => void

  /** @param online whether a server serves the page; otherwise it is a saved copy */
  constructor(readonly online: boolean) {}

  /**
   * Calls a listener after every change.
   * @returns a function that unsubscribes
   */
  watch(listener: () => void): () => void {
    this.#watchers.add(listener)
    return () => this.#watchers.delete(listener)
  }

  #notifyWatchers(): void {
    for (const listener of this.#watchers) listener()
  }

  setExperiment(experiment: DashboardExperiment): void {
    const untouched =
      !this.#experiment || !this.#whatIf || isOwnQuestion(this.#experiment, this.#whatIf)
    this.#experiment = experiment
    this.#ranker = new Ranker(experiment)
    if (untouched) this.#whatIf = pickOwnQuestion(experiment)
    this.schedule()
  }

  addTrials(trials: readonly FinishedTrial[]): void {
    for (const trial of trials) this.#trials.push(trial)
    // A ranking that every new trial restarted would never end.
    if (this.#timeSlicer.isRunning) this.#hasNewTrials = true
    else this.schedule()
  }

  setExperiments(
    experiments: readonly ExperimentEntry[],
    chosen: string,
    isWritable: boolean,
  ): void {
    this.chosen = chosen
    this.#setState({ experiments, isWritable })
  }

  setAnnotations(annotations: Iterable<readonly [trial: number, Annotation]>): void {
    this.#setState({ annotations: new Map(annotations) })
  }

  /** @param trial 0: of the experiment itself */
  setAnnotation(trial: number, annotation: Annotation): void {
    this.setAnnotations([...this.#state.annotations, [trial, annotation]])
  }

  /** Puts trials side by side, in this order. */
  pickTrials(numbers: Iterable<number>): void {
    this.#setState({ sideBySide: new Set(numbers) })
  }

  /** Compares with other experiments, in this order. */
  compare(compared: readonly string[]): void {
    this.#setState({ compared })
  }

  /** Opens a trial; undefined closes the open one. */
  openTrial(number: number | undefined): void {
    this.trial = number
    this.#notifyWatchers()
  }

  setProblem(problem: string): void {
    this.problem = problem
    this.#notifyWatchers()
  }

  /** Renders everything at once for printing, or as usual again afterwards. */
  print(isPrinting: boolean): void {
    this.#state = { ...this.#state, isPrinting }
    this.refresh()
  }

  get state(): PageState {
    return { ...this.#state, theme: this.#state.isPrinting ? lightTheme : readTheme() }
  }

  #setState(change: Partial<PageState>): void {
    this.#state = { ...this.#state, ...change }
    this.renderState()
    this.#notifyWatchers()
  }

  get whatIf(): WhatIf | undefined {
    return this.#whatIf
  }

  /**
   * Changes the what-if settings, and ranks the trials by them.
   * @param dragging whether further changes follow at once
   */
  setWhatIf(change: Partial<WhatIf>, dragging = false): void {
    if (!this.#whatIf) return
    this.#whatIf = { ...this.#whatIf, ...change }
    this.schedule(dragging)
    this.#notifyWatchers()
  }

  /** Demand that the user entered; the next answer shows it. */
  get planning(): Planning | undefined {
    return this.#planning
  }

  setPlanning(planning: Planning): void {
    this.#planning = planning
  }

  reset(): void {
    if (this.#experiment) this.setWhatIf(pickOwnQuestion(this.#experiment))
  }

  schedule(dragging = false): void {
    // The first trials follow at once, and rendering the page without them would delay them.
    if (this.#state.isLoading && this.#trials.length === 0) return
    // While trials arrive in bulk, refresh at intervals, for at most about a fifth of the time.
    if (this.#state.isLoading)
      this.#timer ??= setTimeout(
        () => this.refresh(),
        this.answer ? Math.max(300, 4 * this.#refreshMs) : 0,
      )
    else if (this.#isMany && this.answer) {
      // Leave three quarters of the time to the mouse.
      this.#preliminaryTimer ??= setTimeout(
        () => this.#rankPreliminarily(),
        3 * this.#preliminaryMs,
      )
    } else if (dragging && this.#refreshMs > maxDragRefreshMs) {
      // A refresh that would block the mouse waits for its pause; one that would only skip frames
      // runs at intervals.
      if (this.#refreshMs > dragPauseMs * 2) clearTimeout(this.#timer)
      else if (this.#timer !== undefined) return
      this.#timer = setTimeout(() => this.refresh(), dragPauseMs)
    } else if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.refresh())
  }

  /**
   * Called when all trials have arrived.
   * @param onShown called when they are ranked and shown
   */
  finishLoading(onShown?: () => void): void {
    this.#state = { ...this.#state, isLoading: false }
    this.#whenLoaded = onShown
    this.refresh()
  }

  get #isMany(): boolean {
    return this.#trials.length >= manyTrials
  }

  /** The current question; undefined before the experiment has arrived. */
  get #question(): Question | undefined {
    const [experiment, ranker, whatIf] = [this.#experiment, this.#ranker, this.#whatIf]
    return experiment && ranker && whatIf && { experiment, ranker, whatIf }
  }

  #createAnswer(recommendation: Recommendation, question: Question): Answer {
    const { experiment, whatIf } = question
    const candidates = listCandidates(recommendation)
    const gpus = experiment.parameters.find((p) => p.name === 'gpu')
    const listed = gpus?.kind === 'categorical' ? gpus.values.map((gpu) => getDevice({ gpu })) : []
    return {
      ...this.state,
      ...question,
      trials: this.#trials.slice(),
      planning:
        getDemand(whatIf.objective) ?? this.#planning ?? assumeDemand(recommendation, experiment),
      isUnchanged: isOwnQuestion(experiment, whatIf),
      recommendation,
      candidates,
      byTrial: new Map(candidates.map((c) => [c.trial, c])),
      devices: [...new Set([...listed, ...candidates.map((c) => getDevice(c.configuration))])],
    }
  }

  /**
   * Renders a preliminary ranking in the sections that show one, then ranks all trials for the
   * other sections.
   */
  #rankPreliminarily(): void {
    this.#preliminaryTimer = undefined
    const question = this.#question
    if (!question) return
    const { ranker, whatIf } = question
    performance.mark('quick')
    this.sections.renderPreliminary(
      this.#createAnswer(ranker.recommendQuickly(this.#trials, whatIf), question),
    )
    this.#preliminaryMs = performance.measure('quick', 'quick').duration
    if (this.#state.isLoading) return
    performance.mark('rank')
    this.#timeSlicer.start(
      rankPauseMs,
      () => ranker.recommendInSteps(this.#trials, whatIf),
      (recommendation) => this.#showRecommendation(recommendation, question),
    )
  }

  /** Renders the current answer with the current page state, which changes no rank. */
  renderState(): void {
    // A pending ranking will show the state, and the current answer is of an earlier question.
    const isRankingPending =
      this.#timer !== undefined ||
      this.#preliminaryTimer !== undefined ||
      this.#frame !== 0 ||
      this.#timeSlicer.isRunning
    if (this.answer && !isRankingPending) this.#show({ ...this.answer, ...this.state })
  }

  #show(answer: Answer, done = () => {}): void {
    this.answer = answer
    this.#notifyWatchers()
    if ((this.#isMany || answer.isLoading) && !answer.isPrinting) {
      this.sections.renderIncrementally(answer, done)
      return
    }
    this.sections.renderAll(answer)
    done()
  }

  /** Ranks and shows. With many trials, shows a preliminary ranking first, except when printing. */
  refresh(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    cancelAnimationFrame(this.#frame)
    this.#frame = 0
    clearTimeout(this.#preliminaryTimer)
    this.#preliminaryTimer = undefined
    this.#timeSlicer.stop()
    const question = this.#question
    if (!question) return
    if (this.#isMany && !this.#state.isPrinting) {
      this.#rankPreliminarily()
      this.#refreshMs = this.#preliminaryMs
      return
    }
    performance.mark('rank')
    const { ranker, whatIf } = question
    this.#showRecommendation(ranker.recommend(this.#trials, whatIf), question)
    this.#refreshMs = performance.measure('refresh', 'rank').duration
  }

  #showRecommendation(recommendation: Recommendation, question: Question): void {
    performance.measure('rank', 'rank')
    performance.mark('show')
    this.#show(this.#createAnswer(recommendation, question), () => {
      performance.measure('show', 'show')
      this.#whenLoaded?.()
      this.#whenLoaded = undefined
      if (this.#hasNewTrials) this.schedule()
      this.#hasNewTrials = false
    })
  }
}

/** Assumes a demand that needs a few replicas: three and a half times the capacity, rounded. */
function assumeDemand({ best }: Recommendation, { headroom }: DashboardExperiment): Planning {
  return {
    demandRps: Number(((best?.capacityRps ?? 100) * 3.5).toPrecision(1)),
    headroom,
    isAssumed: true,
  }
}

/** Returns the theme that the user chose, else the system's. */
function readTheme(): Theme {
  const { theme } = document.documentElement.dataset
  const dark = theme === undefined ? prefersDark().matches : theme === 'dark'
  return dark ? darkTheme : lightTheme
}

export const prefersDark = (): MediaQueryList => matchMedia('(prefers-color-scheme: dark)')
