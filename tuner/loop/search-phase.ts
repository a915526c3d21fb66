/** The search: trials are asked for, run and recorded, several at once where asked, until there is a reason to stop. */
import { writing } from '../../reports/format.ts'
import { capacityToBeatRps, costText } from '../../search/objective.ts'
import { configurationKey } from '../../search/space.ts'
import type { Configuration, StopAssessment, Suggestion } from '../../search/types.ts'
import type { FinishedTrial, TrialPurpose } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
import type { EventBody } from './events.ts'
import type { LoopParts } from './parts.ts'
import { secondReadings } from './second-reading.ts'
import type { TrialLog } from './trial-log.ts'
import { runTrial, type TrialRequest } from './trial-runner.ts'
import { type Ending, whyStop } from './why-stop.ts'

/** Tries of one configuration before it is given up. */
const maxAttempts = 3

interface Pending {
  readonly configuration: Configuration
  readonly done: Promise<FinishedTrial>
}

/** State: the log, what runs, what must be tried again, what was given up, and what the stop rule believes. */
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
  readonly #retries: Omit<TrialRequest, 'number'>[] = []
  readonly #givenUp: Configuration[] = []
  /** Configurations whose second reading was asked for. */
  readonly #readAgain = new Set<string>()
  #assessment: StopAssessment | undefined
  #best: number | undefined

  constructor(experiment: Experiment, parts: LoopParts, log: TrialLog, emit: (event: EventBody) => void, signal: AbortSignal) {
    this.#experiment = experiment
    this.#parts = parts
    this.#log = log
    this.#emit = emit
    this.#signal = signal
    this.#startedMs = parts.now()
    this.#best = parts.recommend(log.trials, undefined).best?.trial
  }

  /** What the stop rule believed last; undefined before it was asked. */
  get assessment(): StopAssessment | undefined {
    return this.#assessment
  }

  /** @throws the signal's reason, and what store and sampler throw: `abandon` it then */
  async run(): Promise<Ending> {
    for (;;) {
      this.#signal.throwIfAborted()
      let ending = this.#whyStop()
      while (!ending && this.#pending.size < this.#experiment.parallel) {
        const request = this.#next()
        if (!request) break
        this.#start(request)
        ending = this.#whyStop()
      }
      if (this.#pending.size === 0)
        return this.#whyStop() ?? { reason: 'space-exhausted', detail: `all ${this.#log.counted} configurations tried` }
      await Promise.race([...this.#pending.values()].map(({ done }) => done))
    }
  }

  /** Ends what runs, and waits for it. Resolves with how many trials were finished in spite of it. */
  async abandon(error: unknown): Promise<number> {
    this.#fault.abort(error)
    const settled = await Promise.allSettled([...this.#pending.values()].map(({ done }) => done))
    return settled.filter(({ status }) => status === 'fulfilled').length
  }

  #whyStop(): Ending | undefined {
    const { trials, fresh, counted, spent } = this.#log
    const elapsedS = (this.#parts.now() - this.#startedMs) / 1000
    const state = { trials, fresh, counted: counted + this.#pending.size, spent, elapsedS, assessment: this.#assessment }
    return whyStop(state, this.#experiment.budget)
  }

  /** The yardstick first, then what must be tried again, then what the sampler suggests. Undefined: nothing is left to try. */
  #next(): TrialRequest | undefined {
    const { defaultConfiguration, sampler, problem, rng } = this.#parts
    const retry = this.#retries.shift()
    if (retry) return { ...retry, number: this.#log.nextNumber() }
    if (this.#log.isEmpty && defaultConfiguration)
      return this.#requestOf({ configuration: defaultConfiguration, why: 'default configuration, the yardstick' }, 'default')
    const doubted = this.#doubted()
    const again = doubted.find(({ configuration }) => !this.#readAgain.has(configurationKey(configuration)))
    if (again) {
      this.#readAgain.add(configurationKey(again.configuration))
      const { configuration, predicted, purpose } = again
      return this.#requestOf({ configuration, predicted, why: `trial ${again.number} again: its reading is hard to believe` }, purpose)
    }
    const busy = [...this.#pending.values(), ...doubted].map(({ configuration }) => configuration)
    const suggestion = sampler.suggest(problem, this.#log.observations(), [...busy, ...this.#givenUp], rng)
    if (suggestion?.warning) this.#emit({ type: 'warning', message: suggestion.warning })
    return suggestion && this.#requestOf(suggestion)
  }

  #doubted(): readonly FinishedTrial[] {
    const { expectation } = this.#parts
    return expectation ? secondReadings(this.#log.trials, expectation).due : []
  }

  #requestOf({ configuration, why, predicted }: Suggestion, purpose?: TrialPurpose): TrialRequest {
    return { number: this.#log.nextNumber(), configuration, why, predicted, purpose, attempt: 1 }
  }

  #start(request: TrialRequest): void {
    const { number, configuration, purpose } = request
    const { backend, label, problem, recommend, now } = this.#parts
    const { objective, slo } = this.#experiment
    const pricePerHour = problem.pricePerHour(configuration)
    this.#emit({ type: 'trial-started', number, suggestion: suggestionOf(request), label: label(configuration), pricePerHour })
    const best = recommend(this.#log.trials, undefined).best
    // The yardstick is measured to the end: a gain is stated against it.
    const toBeat = purpose === 'default' ? undefined : capacityToBeatRps(objective, pricePerHour, best?.cost)
    const done = runTrial(
      backend,
      { kind: 'trial', capacityToBeatRps: toBeat },
      request,
      {
        now,
        onReady: (predictor, seconds) => this.#emit({ type: 'predictor-ready', number, isolation: predictor.isolation, seconds }),
        onStep: (point, phase) => this.#emit({ type: 'load-step', number, point, sloMs: slo.limitMs, phase }),
      },
      AbortSignal.any([this.#signal, this.#fault.signal]),
    ).then((trial) => this.#record(trial, request))
    // The loop takes up the first rejection; this keeps those of the other trials from being unhandled.
    done.catch(() => undefined)
    this.#pending.set(number, { configuration, done })
  }

  async #record(trial: FinishedTrial, request: TrialRequest): Promise<FinishedTrial> {
    const { store, experimentId, label, problem, assessStop, rng } = this.#parts
    await store.append(experimentId, trial)
    this.#pending.delete(trial.number)
    this.#log.add(trial)
    const retry = this.#tryAgain(trial, request)
    const pricePerHour = problem.pricePerHour(trial.configuration)
    this.#emit({ type: 'trial-finished', trial, label: label(trial.configuration), pricePerHour, retry, spent: this.#log.spent })
    this.#announceBest()
    if (trial.state !== 'failed') {
      this.#assessment = assessStop(this.#log.observations(), rng)
      this.#emit({ type: 'stop-assessed', assessment: this.#assessment, afterTrials: this.#log.counted })
    }
    return trial
  }

  /** A trial that says nothing of its configuration is tried again, or the configuration given up. */
  #tryAgain(trial: FinishedTrial, request: TrialRequest): boolean {
    const disturbed = trial.state === 'complete' && trial.measurement.outcome === 'disturbed'
    if (trial.state !== 'failed' && !disturbed) return false
    const { number: _, ...same } = request
    const retry = !('final' in trial && trial.final !== undefined) && request.attempt < maxAttempts
    if (retry) this.#retries.push({ ...same, attempt: request.attempt + 1 })
    else this.#givenUp.push(trial.configuration)
    return retry
  }

  #announceBest(): void {
    const { best } = this.#parts.recommend(this.#log.trials, undefined)
    if (!best || best.trial === this.#best) return
    this.#best = best.trial
    const costLabel = costText(this.#experiment.objective, best, writing)
    this.#emit({ type: 'best-changed', number: best.trial, label: best.label, costLabel })
  }
}

const suggestionOf = ({ configuration, why, predicted, attempt }: TrialRequest): Suggestion => ({
  configuration,
  why: attempt === 1 ? why : `${why} (attempt ${attempt})`,
  ...(predicted && { predicted }),
})
