/**
 * The search: trials are asked for, run and recorded, several at once where asked, until there is a
 * reason to stop.
 */
import { writing } from '../../reports/format.ts'
import { estimatedCost } from '../../reports/recommendation/unsettled.ts'
import { formatCost } from '../../search/objective.ts'
import { resolveReplicaPrice } from '../../search/replica-price.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration, Problem, StopAssessment, Suggestion } from '../../search/types.ts'
import type { FinishedTrial, TrialPurpose } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
import { waitingWords } from '../not-ready-yet.ts'
import { Attempts } from './attempts.ts'
import type { EventBody, StopReason } from './events.ts'
import { LaunchAhead } from './launch-ahead.ts'
import { trialSeconds } from './launch-cost.ts'
import { withoutPlace } from './observations.ts'
import { withMemoryLesson, withoutMemoryLacks } from './out-of-memory.ts'
import type { LoopParts } from './parts.ts'
import type { TrialLog } from './trial-log.ts'
import { runningTrial, runTrial, type TrialRequest } from './trial-runner.ts'
import { taskOf, warmUpRequestsFor } from './trial-task.ts'
import { trialsUntilIdle, type Worth, worthOfTrial } from './trial-worth.ts'
import { Turns } from './turns.ts'
import { type Ending, spaceExhausted, wasDisturbed, whyStop, withUnplaced } from './why-stop.ts'

/** Ends after which nothing is left to spend on a baseline, or it would be disturbed. */
const endsAtOnce: readonly StopReason[] = [
  'failed',
  'time-limit',
  'budget',
  'slo-unattainable',
  'machine-busy',
]

/** Ends that rest on what was believed: a confirmation that missed may undo them. */
const reconsidered: readonly StopReason[] = ['certain', 'not-worthwhile']

interface Pending {
  readonly configuration: Configuration
  readonly done: Promise<FinishedTrial>
  /** The load has begun: where it comes from a place of its own, it has that too. */
  underLoad: boolean
}

type Best = ReturnType<LoopParts['recommend']>['best']

/**
 * State: the log, what runs, what is tried again, and what the stop rule believes. But for what
 * runs all of it follows from the log.
 */
export class Search {
  readonly #experiment: Experiment
  readonly #parts: LoopParts
  readonly #log: TrialLog
  readonly #emit: (event: EventBody) => void
  readonly #signal: AbortSignal
  readonly #fault = new AbortController()
  readonly #startedMs: number
  /** By trial number. */
  readonly #pending = new Map<number, Pending>()
  readonly #turns: Turns
  #disturbedTrials = 0
  readonly #attempts = new Attempts()
  #assessment: StopAssessment | undefined
  /** The best after so many trials: several ask between two of them. */
  #standing: { readonly trials: number; readonly best: Best } | undefined
  #known: { readonly trials: number; readonly problem: Problem } | undefined
  /** Number of the trial that was announced as the best. */
  #announced: number | undefined
  #told: () => void = () => undefined
  /** What is started while another trial is measured, until its turn. */
  #ahead: LaunchAhead | undefined
  /** Once the search itself has ended. */
  #ending: Ending | undefined
  /** Confirmations that missed, as of the last look at them. */
  #missed: number

  constructor(
    experiment: Experiment,
    parts: LoopParts,
    log: TrialLog,
    emit: (event: EventBody) => void,
    signal: AbortSignal,
  ) {
    this.#experiment = experiment
    this.#parts = parts
    this.#log = log
    this.#emit = emit
    this.#signal = signal
    this.#turns = new Turns(experiment.parallel)
    this.#startedMs = parts.now()
    this.#announced = this.#best()?.trial
    this.#missed = log.missed
  }

  /** What the stop rule believed last; undefined before it was asked. */
  get assessment(): StopAssessment | undefined {
    return this.#assessment
  }

  /**
   * Brings it to where the interrupted run left it, before `run`: what is tried again, what the
   * stop rule believes, and whether the search had ended.
   */
  takeUp(): void {
    const { ofRun, interrupted, trials } = this.#log
    const confirmations = countLast(ofRun, 'confirmation')
    const yardsticks = countLast(ofRun.slice(0, ofRun.length - confirmations), 'default')
    const searched = ofRun.length - confirmations - yardsticks
    const record = (of: readonly FinishedTrial[]) => {
      for (const trial of of) if (!withoutPlace(trial)) this.#attempts.record(trial)
    }
    record(ofRun.slice(0, searched))
    // Only the yardstick and confirmations come after the end of a search.
    const mayHaveEnded =
      confirmations + yardsticks + interrupted.length > 0 &&
      interrupted.every(({ purpose }) => purpose === 'default' || purpose === 'confirmation')
    if (mayHaveEnded) this.#ending = this.#endingBefore(confirmations + yardsticks)
    record(ofRun.slice(searched))
    if (mayHaveEnded && yardsticks > 0) this.#ending ??= this.#endingBefore(confirmations)
    this.#log.before(this.#ending ? confirmations : 0, () => {
      this.#missed = this.#log.missed
      if (trials.some(isAssessed)) this.#assess()
    })
  }

  /** Why the search would have ended before the last trials, so many of them. */
  #endingBefore(count: number): Ending | undefined {
    return this.#log.before(count, () => {
      if (!this.#log.trials.some(isAssessed)) return undefined
      this.#assessment = this.#assessed()
      const isExhausted = () =>
        this.#attempts.due.length === 0 && !this.#attempts.hasDeferred && !this.#suggestion()
      return this.#whyStop() ?? (isExhausted() ? spaceExhausted(this.#log) : undefined)
    })
  }

  /** @throws the signal's reason, and what store and sampler throw: `abandon` it then */
  async run(): Promise<Ending> {
    for (;;) {
      this.#signal.throwIfAborted()
      while (this.#turns.free) {
        const request =
          this.#takeInterrupted() ?? (this.#ending || this.#whyStop() ? undefined : this.#next())
        if (!request) break
        this.#start(request)
      }
      if (this.#pending.size === 0) {
        this.#ending ??= this.#whyStop() ?? spaceExhausted(this.#log)
        await this.#dropAhead()
        const last = this.#afterwards(this.#ending)
        if (!last) return withUnplaced(this.#ending, this.#log.fresh)
        this.#start(last)
      }
      this.#startAhead()
      await Promise.race([
        ...[...this.#pending.values()].map(({ done }) => done),
        this.#turns.freed,
        this.#nextUnderLoad(),
      ])
    }
  }

  /**
   * After confirmations: whether one that missed makes a further trial worth what it costs, or no
   * longer certain that none is better. `run` it again then.
   */
  goesOn(): boolean {
    const { missed } = this.#log
    if (!this.#ending || !reconsidered.includes(this.#ending.reason) || missed === this.#missed)
      return false
    this.#missed = missed
    this.#assess()
    if (this.#whyStop()) return false
    this.#ending = undefined
    return true
  }

  /**
   * Ends what runs, and waits for it. Resolves with how many trials were finished in spite of it.
   */
  async abandon(error: unknown): Promise<number> {
    this.#fault.abort(error)
    const running = [...this.#pending.values()].map(({ done }) => done)
    const [settled] = await Promise.all([Promise.allSettled(running), this.#dropAhead()])
    return settled.filter(({ status }) => status === 'fulfilled').length
  }

  #whyStop(): Ending | undefined {
    const { trials, ofRun, counted, spent } = this.#log
    const { budget, parallel } = this.#experiment
    const nowS = (this.#parts.now() - this.#startedMs) / 1000
    const elapsedS = nowS + this.#log.earlierSeconds / parallel
    const counting = counted + this.#pending.size + this.#keptForYardstick()
    const state = {
      trials,
      ofRun,
      counted: counting,
      spent,
      elapsedS,
      assessment: this.#assessment,
      worth: this.#worth(),
    }
    return whyStop(state, budget)
  }

  #best(): Best {
    const { trials } = this.#log
    if (this.#standing?.trials !== trials.length)
      this.#standing = {
        trials: trials.length,
        best: this.#parts.recommend(trials, undefined).best,
      }
    return this.#standing.best
  }

  /** What another trial would have to gain; undefined while there is nothing to compare it with. */
  #worth(): Worth | undefined {
    const { trials, spent } = this.#log
    const best = this.#best()
    return best && worthOfTrial(this.#experiment, { trials, spent, best })
  }

  /** One trial is kept for the yardstick, but not the only one. */
  #keptForYardstick(): number {
    return this.#experiment.budget.maxTrials > 1 && this.#yardstickDue() ? 1 : 0
  }

  #trialsLeft({ stop, outlook }: StopAssessment): number | undefined {
    const worth = this.#worth()
    if (!stop && (outlook === undefined || worth === undefined)) return undefined
    const left = stop ? 0 : trialsUntilIdle(outlook!, worth!)
    const room = this.#experiment.budget.maxTrials - this.#log.counted
    return Math.max(0, Math.min(room, left + this.#keptForYardstick()))
  }

  /** A trial that was under way when the run was interrupted: it is done again from the start. */
  #takeInterrupted(): TrialRequest | undefined {
    const trial = this.#log.takeInterrupted(isOfSearch)
    if (!trial) return undefined
    const { number, configuration, why, predicted, purpose } = trial
    const attempt = this.#attempts.numberFor(configuration)
    return { number, configuration, why, predicted, purpose, attempt }
  }

  /**
   * What was started ahead, what must be tried again, the yardstick where it helps or stands in
   * nothing's way, then what the sampler suggests; at last what the machine disturbed. Undefined:
   * nothing is left to try.
   */
  #next(): TrialRequest | undefined {
    if (this.#ahead) return this.#ahead.request
    const problem = this.#problem()
    const due = this.#attempts.takeDue()
    if (due) return { ...due, number: this.#log.nextNumber() }
    // Where physics says where to begin, it would only delay the search; beside another trial it
    // delays nothing.
    const first = problem.priorLogRate ? this.#pending.size > 0 : this.#log.isEmpty
    if (first && this.#yardstickDue()) return this.#yardstick()
    const suggestion = this.#suggestion()
    if (suggestion?.warning) this.#emit({ type: 'warning', message: suggestion.warning })
    if (suggestion) return this.#requestOf(suggestion)
    const deferred = this.#attempts.takeDeferred()
    return deferred && { ...deferred, number: this.#log.nextNumber() }
  }

  #suggestion(): Suggestion | undefined {
    const { sampler, rng } = this.#parts
    const interrupted = this.#log.interrupted.filter(isOfSearch)
    const busy = [...this.#pending.values(), ...interrupted].map(
      ({ configuration }) => configuration,
    )
    const seconds = trialSeconds(this.#log, this.#parts.backend.launcher.changesRunning)
    return sampler.suggest(
      this.#problem(),
      this.#log.observations(),
      [...busy, ...this.#attempts.excluded],
      rng,
      seconds,
    )
  }

  /**
   * While the last of the trials that may run together is measured, the next one's server starts
   * beside it, where the backend has room for that: what it chooses has yet to learn from those
   * that run. Not what must be tried again or has a turn of its own, and not beside trials that are
   * foretold to be the last.
   */
  #startAhead(): void {
    const { launchesBeside, launcher } = this.#parts.backend
    if (!launchesBeside || this.#ahead || this.#ending || this.#turns.free || this.#whyStop())
      return
    if (![...this.#pending.values()].every(({ underLoad }) => underLoad)) return
    if (this.#attempts.due.length > 0) return
    if (
      this.#assessment &&
      (this.#trialsLeft(this.#assessment) ?? Number.POSITIVE_INFINITY) <= this.#pending.size
    )
      return
    const suggestion = this.#suggestion()
    const running = [...this.#pending.values()].map(({ configuration }) => configuration)
    if (!suggestion || !launchesBeside(running, suggestion.configuration)) return
    this.#ahead = new LaunchAhead(
      launcher,
      { ...this.#requestOf(suggestion), launchedMs: this.#parts.now() },
      AbortSignal.any([this.#signal, this.#fault.signal]),
    )
  }

  #underLoad(number: number): void {
    const trial = this.#pending.get(number)
    if (!trial || trial.underLoad) return
    trial.underLoad = true
    this.#told()
  }

  /** Resolves when another trial has come under load. */
  #nextUnderLoad(): Promise<void> {
    return new Promise((resolve) => {
      this.#told = resolve
    })
  }

  async #dropAhead(): Promise<void> {
    const ahead = this.#ahead
    this.#ahead = undefined
    await ahead?.drop()
    if (ahead) this.#log.giveBack(ahead.request.number)
  }

  /** After the search: the yardstick, which no decision waited for. */
  #afterwards({ reason }: Ending): TrialRequest | undefined {
    const room = this.#log.counted < this.#experiment.budget.maxTrials
    if (endsAtOnce.includes(reason) || !room) return undefined
    const due = this.#attempts.takeDueDefault()
    if (due) return { ...due, number: this.#log.nextNumber() }
    return this.#yardstickDue() ? this.#yardstick() : undefined
  }

  /** Without what trials have shown to run out of memory. */
  #problem(): Problem {
    const { trials } = this.#log
    // The same object between two trials: models are remembered by it.
    if (this.#known?.trials !== trials.length)
      this.#known = {
        trials: trials.length,
        problem: withoutMemoryLacks(this.#parts.problem, trials, this.#experiment.own.gpus),
      }
    return this.#known.problem
  }

  #yardstickDue(): boolean {
    const { defaultConfiguration } = this.#parts
    if (!defaultConfiguration) return false
    const key = configurationKey(defaultConfiguration)
    const { trials, interrupted } = this.#log
    const known = [...trials, ...this.#pending.values(), ...interrupted.filter(isOfSearch)]
    return !known.some(({ configuration }) => configurationKey(configuration) === key)
  }

  #yardstick(): TrialRequest {
    return this.#requestOf({
      configuration: this.#parts.defaultConfiguration!,
      why: 'baseline (default configuration)',
    })
  }

  #requestOf({ configuration, why, predicted }: Suggestion, given?: TrialPurpose): TrialRequest {
    const { defaultConfiguration } = this.#parts
    const isDefault =
      defaultConfiguration &&
      configurationKey(defaultConfiguration) === configurationKey(configuration)
    return {
      number: this.#log.nextNumber(),
      configuration,
      why,
      predicted,
      purpose: isDefault ? 'default' : given,
      attempt: this.#attempts.numberFor(configuration),
    }
  }

  #start(request: TrialRequest): void {
    const { number, configuration, purpose, predicted } = request
    this.#turns.start(number)
    const ahead = this.#ahead?.request === request ? this.#ahead : undefined
    if (ahead) this.#ahead = undefined
    const { backend, label, problem, expectation, now, store, experimentId } = this.#parts
    const { objective, slo, stop } = this.#experiment
    const price = resolveReplicaPrice(problem.pricePerHour, configuration)
    const { pricePerHour } = price
    this.#emit({
      type: 'trial-started',
      number,
      suggestion: suggestionOf(request),
      attempt: request.attempt,
      label: label(configuration),
      pricePerHour,
    })
    const best = this.#best()
    const { tolerance } = stop
    const warmUpRequests = warmUpRequestsFor(configuration, problem.space, this.#log.trials)
    const task = taskOf({
      purpose,
      predicted,
      expectedRps: expectation?.(configuration),
      objective,
      price,
      bestCost: best && estimatedCost(best, objective),
      tolerance,
      warmUpRequests,
    })
    const run = () =>
      runTrial(
        { launcher: ahead?.launcher ?? backend.launcher, measure: backend.measure },
        task,
        { ...request, maxJoulesPerRequest: this.#experiment.maxJoulesPerRequest },
        {
          now,
          onReady: (ready) =>
            this.#emit({
              type: 'predictor-ready',
              number,
              ...ready,
              ...(ahead && { ahead: true }),
            }),
          onStep: (point, phase) => {
            this.#emit({ type: 'load-step', number, point, sloMs: slo.limitMs, phase })
            this.#underLoad(number)
          },
          onWaiting: (what, how) =>
            how === undefined
              ? this.#waits(number, what)
              : this.#emit({ type: 'warning', message: waitingWords(number, what, how) }),
          turn: (signal) => this.#turns.take(number, signal),
        },
        AbortSignal.any([this.#signal, this.#fault.signal]),
      )
    const done = store
      .start(experimentId, runningTrial(request, now()))
      .then(run)
      .then((trial) => this.#record(trial))
    // The loop takes up the first rejection; this keeps those of the other trials from being
    // unhandled.
    done.catch(() => undefined)
    this.#pending.set(number, { configuration, done, underLoad: false })
  }

  #waits(number: number, what: string): void {
    if (this.#turns.giveUp(number))
      this.#emit({
        type: 'warning',
        message: `trial ${number} waits for ${what}; others run meanwhile`,
      })
  }

  async #record(ended: FinishedTrial): Promise<FinishedTrial> {
    const { store, experimentId, label, problem } = this.#parts
    const trial = withMemoryLesson(ended, problem, this.#log.trials, this.#experiment.own.gpus)
    await store.append(experimentId, trial)
    this.#pending.delete(trial.number)
    this.#turns.end(trial.number)
    this.#log.add(trial)
    const retry = this.#attempts.record(trial)
    const pricePerHour = problem.pricePerHour(trial.configuration)
    this.#emit({
      type: 'trial-finished',
      trial,
      label: label(trial.configuration),
      pricePerHour,
      retry,
      spent: this.#log.spent,
    })
    this.#warnOfBusyMachine(trial)
    this.#announceBest()
    if (isAssessed(trial)) this.#assess()
    return trial
  }

  /** Says once, after the second disturbed trial, that the run will take longer, and why. */
  #warnOfBusyMachine(trial: FinishedTrial): void {
    if (!wasDisturbed(trial)) return
    this.#disturbedTrials++
    if (this.#disturbedTrials === 2)
      this.#emit({
        type: 'warning',
        message:
          'other work keeps this machine busy: disturbed trials are repeated, so this run will be slow; end that work, or run tune elsewhere',
      })
  }

  #assess(): void {
    this.#assessment = this.#assessed()
    const trialsLeft = this.#trialsLeft(this.#assessment)
    const told = { assessment: this.#assessment, afterTrials: this.#log.counted }
    this.#emit({ type: 'stop-assessed', ...told, ...(trialsLeft !== undefined && { trialsLeft }) })
  }

  #assessed(): StopAssessment {
    const { assessStop, rng } = this.#parts
    return assessStop(this.#problem(), this.#log.observations(), rng)
  }

  #announceBest(): void {
    const best = this.#best()
    if (!best || best.trial === this.#announced) return
    this.#announced = best.trial
    const costLabel = formatCost(this.#experiment.objective, best, writing)
    this.#emit({ type: 'best-changed', number: best.trial, label: best.label, costLabel })
  }
}

const suggestionOf = ({ configuration, why, predicted }: TrialRequest): Suggestion => ({
  configuration,
  why,
  ...(predicted && { predicted }),
})

const isOfSearch = ({ purpose }: { readonly purpose?: TrialPurpose }): boolean =>
  purpose !== 'confirmation'

/** Whether the stop rule is asked after it: a failed trial teaches nothing. */
const isAssessed = (trial: FinishedTrial): boolean =>
  trial.state !== 'failed' || withoutPlace(trial)

/** How many of the last trials have that purpose. */
const countLast = (trials: readonly FinishedTrial[], purpose: TrialPurpose): number =>
  trials.length - 1 - trials.findLastIndex((trial) => trial.purpose !== purpose)
