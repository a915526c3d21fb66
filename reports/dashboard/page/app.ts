/**
 * The page's state, all of it: one experiment, its trials, the question asked of them, the answer,
 * and what is open and picked. Events of the server and of the reader change it here; the parts of
 * the page show it.
 */

import { getDemand } from '../../../search/objective.ts'
import type { Annotation } from '../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { candidatesOf } from '../../recommendation/candidates.ts'
import type { Recommendation } from '../../recommendation/types.ts'
import { darkTheme, lightTheme, type Theme } from '../charts/theme.ts'
import type { DashboardExperiment, ExperimentEntry } from '../data/page-data.ts'
import { getDevice, isOwnQuestion, pickOwnQuestion, Ranker, type WhatIf } from '../data/ranking.ts'
import type { Answer, PageState, Planning } from './answer.ts'
import { Paced } from './paced.ts'
import { PartSchedule } from './part-schedule.ts'

/**
 * From so many trials on the contenders are ranked at once, and everything little by little when
 * the reader pauses.
 */
const manyTrials = 5_000

/** An answer that takes longer waits for a pause of the drag. */
const frameMs = 60
const pauseMs = 160
const manyPauseMs = 250

interface Question {
  readonly experiment: DashboardExperiment
  readonly ranker: Ranker
  readonly whatIf: WhatIf
}

export class App {
  /** Sections, which show each answer when their turn comes. */
  readonly parts = new PartSchedule()
  answer?: Answer
  /** What the reader has to know beside the answer; empty without a problem. */
  problem = ''
  /** Number of the trial that is open. */
  trial?: number
  /** Id of the experiment that is shown, from before it arrives. */
  chosen = ''
  readonly #watchers = new Set<() => void>()
  #state: Omit<PageState, 'theme'> = {
    annotations: new Map(),
    experiments: [],
    compared: [],
    sideBySide: new Set(),
    writable: false,
    loading: true,
    printing: false,
  }
  readonly #trials: FinishedTrial[] = []
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
  #whenLoaded?: () => void

  /** @param online a server is there; without one the page is a saved copy */
  constructor(readonly online: boolean) {}

  /** Calls a listener after every change. Returns what ends it. */
  watch(listener: () => void): () => void {
    this.#watchers.add(listener)
    return () => this.#watchers.delete(listener)
  }

  #changed(): void {
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
    // A ranking of very many that every new trial began anew would never end.
    if (this.#paced.isUnderWay) this.#moreCame = true
    else this.schedule()
  }

  setExperiments(experiments: readonly ExperimentEntry[], chosen: string, writable: boolean): void {
    this.chosen = chosen
    this.#setState({ experiments, writable })
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

  /** Opens a trial, or closes the one that is open. */
  openTrial(number: number | undefined): void {
    this.trial = number
    this.#changed()
  }

  setProblem(problem: string): void {
    this.problem = problem
    this.#changed()
  }

  /** Shows everything at once, as paper needs it; and as the screen does again. */
  print(printing: boolean): void {
    this.#state = { ...this.#state, printing }
    this.refresh()
  }

  get state(): PageState {
    return { ...this.#state, theme: this.#state.printing ? lightTheme : readTheme() }
  }

  #setState(change: Partial<PageState>): void {
    this.#state = { ...this.#state, ...change }
    this.showAgain()
    this.#changed()
  }

  get whatIf(): WhatIf | undefined {
    return this.#whatIf
  }

  /** Asks another question of the same trials. `dragging`: more will follow at once. */
  ask(change: Partial<WhatIf>, dragging = false): void {
    if (!this.#whatIf) return
    this.#whatIf = { ...this.#whatIf, ...change }
    this.schedule(dragging)
    this.#changed()
  }

  /** Demand that the reader gave; it is shown with the next answer. */
  get planning(): Planning | undefined {
    return this.#planning
  }

  plan(planning: Planning): void {
    this.#planning = planning
  }

  reset(): void {
    if (this.#experiment) this.ask(pickOwnQuestion(this.#experiment))
  }

  schedule(dragging = false): void {
    // The first trials follow at once: a page that is drawn without them would hold them up.
    if (this.#state.loading && this.#trials.length === 0) return
    // While trials pour in, what stands is shown now and then; it never takes most of the time.
    if (this.#state.loading)
      this.#timer ??= setTimeout(
        () => this.refresh(),
        this.answer ? Math.max(300, 4 * this.#refreshMs) : 0,
      )
    else if (this.#isMany && this.answer) {
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
    this.#state = { ...this.#state, loading: false }
    this.#whenLoaded = done
    this.refresh()
  }

  get #isMany(): boolean {
    return this.#trials.length >= manyTrials
  }

  /** What is asked now; undefined before the experiment has arrived. */
  get #question(): Question | undefined {
    const [experiment, ranker, whatIf] = [this.#experiment, this.#ranker, this.#whatIf]
    return experiment && ranker && whatIf && { experiment, ranker, whatIf }
  }

  #createAnswer(recommendation: Recommendation, question: Question): Answer {
    const { experiment, whatIf } = question
    const candidates = candidatesOf(recommendation)
    const gpus = experiment.parameters.find((p) => p.name === 'gpu')
    const listed = gpus?.kind === 'categorical' ? gpus.values.map((gpu) => getDevice({ gpu })) : []
    return {
      ...this.state,
      ...question,
      trials: this.#trials.slice(),
      planning:
        getDemand(whatIf.objective) ?? this.#planning ?? assumeDemand(recommendation, experiment),
      original: isOwnQuestion(experiment, whatIf),
      recommendation,
      candidates,
      byTrial: new Map(candidates.map((c) => [c.trial, c])),
      devices: [...new Set([...listed, ...candidates.map((c) => getDevice(c.configuration))])],
    }
  }

  /**
   * What the contenders say, for the parts that show it at once; then everything, for those that
   * the reader sees.
   */
  #answerQuickly(): void {
    this.#soon = undefined
    const question = this.#question
    if (!question) return
    const { ranker, whatIf } = question
    performance.mark('quick')
    this.parts.showAtOnce(
      this.#createAnswer(ranker.recommendQuickly(this.#trials, whatIf), question),
    )
    this.#quickMs = performance.measure('quick', 'quick').duration
    if (this.#state.loading) return
    performance.mark('rank')
    this.#paced.begin(
      manyPauseMs,
      () => ranker.recommendInSteps(this.#trials, whatIf),
      (recommendation) => this.#showRecommendation(recommendation, question),
    )
  }

  /** Shows the same answer with what stands beside it now, which changes no rank. */
  showAgain(): void {
    // What is about to be ranked anew shows it then; the answer that stands is of an earlier
    // question.
    const soon =
      this.#timer !== undefined ||
      this.#soon !== undefined ||
      this.#frame !== 0 ||
      this.#paced.isUnderWay
    if (this.answer && !soon) this.#show({ ...this.answer, ...this.state })
  }

  #show(answer: Answer, done = () => {}): void {
    this.answer = answer
    this.#changed()
    if ((this.#isMany || answer.loading) && !answer.printing) {
      this.parts.showLittleByLittle(answer, done)
      return
    }
    this.parts.show(answer)
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
    const question = this.#question
    if (!question) return
    if (this.#isMany && !this.#state.printing) {
      this.#answerQuickly()
      this.#refreshMs = this.#quickMs
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
      if (this.#moreCame) this.schedule()
      this.#moreCame = false
    })
  }
}

/**
 * Without a demand, one that takes a few replicas: three and a half times the capacity, rounded.
 */
function assumeDemand({ best }: Recommendation, { headroom }: DashboardExperiment): Planning {
  return {
    demandRps: Number(((best?.capacityRps ?? 100) * 3.5).toPrecision(1)),
    headroom,
    assumed: true,
  }
}

/** The theme that the reader chose, else the system's. */
function readTheme(): Theme {
  const { theme } = document.documentElement.dataset
  const dark = theme === undefined ? prefersDark().matches : theme === 'dark'
  return dark ? darkTheme : lightTheme
}

export const prefersDark = (): MediaQueryList => matchMedia('(prefers-color-scheme: dark)')
