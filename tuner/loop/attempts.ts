/**
 * Which configurations are tried again, and when. All of it follows from the finished trials of a
 * run: resuming is recording them once more.
 */
import { hasNoResult } from '../../profiler/capacity/capacity-bounds.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { TrialRequest } from './trial-runner.ts'
import { wasDisturbed } from './why-stop.ts'

/** Attempts at one configuration before it is given up. */
const maxAttempts = 3
/** Of one that the machine disturbs: another load on the machine may last longer than they do. */
const maxDisturbedAttempts = 4
/** Of those, in a row: then other configurations come first. */
const maxDisturbedInRow = 2

type Attempt = Omit<TrialRequest, 'number'>

export class Attempts {
  readonly #counts = new Map<string, number>()
  /** To be tried next, in this order. */
  #due: Attempt[] = []
  /** Disturbed: tried again after a trial that the machine left alone, or when nothing else is left. */
  #deferred: Attempt[] = []
  readonly #givenUp: Configuration[] = []

  /** Number of the next attempt at a configuration, 1 for the first. */
  numberFor(configuration: Configuration): number {
    return 1 + (this.#counts.get(configurationKey(configuration)) ?? 0)
  }

  /** Takes in a finished trial. @returns whether its configuration is tried again next */
  record(trial: FinishedTrial): boolean {
    if (trial.purpose === 'confirmation') return false
    const { configuration } = trial
    const key = configurationKey(configuration)
    const attempt = this.numberFor(configuration)
    this.#counts.set(key, attempt)
    const isOther = (one: Attempt) => configurationKey(one.configuration) !== key
    this.#due = this.#due.filter(isOther)
    this.#deferred = this.#deferred.filter(isOther)
    const disturbed = wasDisturbed(trial)
    const inconclusive = disturbed || (trial.state === 'complete' && hasNoResult(trial.measurement))
    if (trial.state !== 'failed' && !inconclusive) {
      if (trial.state === 'complete') this.#due.push(...this.#deferred.splice(0))
      return false
    }
    const isFinal = trial.state === 'failed' && trial.final !== undefined
    if (isFinal || attempt >= (disturbed ? maxDisturbedAttempts : maxAttempts)) {
      this.#givenUp.push(configuration)
      return false
    }
    const { why, predicted, purpose } = trial
    const again = { configuration, why, predicted, purpose, attempt: attempt + 1 }
    const isNext = !disturbed || attempt < maxDisturbedInRow
    if (isNext) this.#due.push(again)
    else this.#deferred.push(again)
    return isNext
  }

  get due(): readonly Attempt[] {
    return this.#due
  }

  /** What the sampler must not suggest. */
  get excluded(): readonly Configuration[] {
    return [...this.#givenUp, ...this.#deferred.map(({ configuration }) => configuration)]
  }

  takeDue(): Attempt | undefined {
    return this.#due.shift()
  }

  /** For when nothing else is left to try. */
  takeDeferred(): Attempt | undefined {
    return this.#deferred.shift()
  }

  get hasDeferred(): boolean {
    return this.#deferred.length > 0
  }

  /** The default configuration, if it is due; nothing else is then due any more. */
  takeDueDefault(): Attempt | undefined {
    const found = this.#due.find(({ purpose }) => purpose === 'default')
    if (found) this.#due = []
    return found
  }
}
