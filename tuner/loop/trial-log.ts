/**
 * What has been tried, and what follows from it: the one state of a run that lasts, and all that a
 * resumed one starts from.
 */
import type { Objective } from '../../search/objective.ts'
import type { Configuration, Observation } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { missedBetween, observationOf, scaleOf, withoutPlace } from './observations.ts'

export interface TrialLogOptions {
  readonly objective: Objective
  /** $ per hour of one replica. */
  readonly pricePerHour: (configuration: Configuration) => number
  /** Trials of the run that this one takes up. */
  readonly earlier: readonly FinishedTrial[]
  /** The highest number in the store, where a trial that is not among the earlier ones has it. */
  readonly lastNumber?: number
  /** Trials whose reading does not count, for now or for good. */
  readonly withheld: (trials: readonly FinishedTrial[]) => ReadonlySet<FinishedTrial>
}

export class TrialLog {
  readonly #options: TrialLogOptions
  readonly #trials: FinishedTrial[]
  #number: number
  /** The same object for a trial each time: the stop rule remembers by it. */
  readonly #observed = new WeakMap<FinishedTrial, Observation | undefined>()

  constructor(options: TrialLogOptions) {
    this.#options = options
    this.#trials = [...options.earlier]
    this.#number = Math.max(options.lastNumber ?? 0, ...this.#trials.map((trial) => trial.number))
  }

  /** All of the experiment, in the order in which they finished. */
  get trials(): readonly FinishedTrial[] {
    return this.#trials
  }

  /** Those of this run alone: what failed in an earlier one may have been mended since. */
  get fresh(): readonly FinishedTrial[] {
    return this.#trials.slice(this.#options.earlier.length)
  }

  /** Nothing of the experiment was ever started. */
  get isEmpty(): boolean {
    return this.#number === 0
  }

  /** A number for a trial that is about to start. */
  nextNumber(): number {
    this.#number += 1
    return this.#number
  }

  /** Of a trial that never was one. A later one's number keeps its place. */
  giveBack(number: number): void {
    if (number === this.#number) this.#number -= 1
  }

  add(trial: FinishedTrial): void {
    this.#trials.push(trial)
  }

  /** What the search learns from. */
  observations(): Observation[] {
    const { objective } = this.#options
    const withheld = this.#options.withheld(this.#trials)
    const scale = scaleOf(this.#trials, objective)
    return this.#trials.flatMap((trial) => {
      if (withheld.has(trial)) return []
      if (!this.#observed.has(trial))
        this.#observed.set(trial, observationOf(trial, objective, scale) ?? this.#forNow(trial))
      return this.#observed.get(trial) ?? []
    })
  }

  /** This run has no place for it, and looks for others that it has a place for. */
  #forNow(trial: FinishedTrial): Observation | undefined {
    if (trial.state !== 'failed' || !withoutPlace(trial) || this.#options.earlier.includes(trial))
      return undefined
    return { configuration: trial.configuration, state: 'infeasible', reason: trial.error }
  }

  /** Confirmations that taught something of the capacity: they missed. */
  get missed(): number {
    return this.#trials.filter((trial) => missedBetween(trial) !== undefined).length
  }

  /** Trials that count towards the most that may run: failed ones and confirmations do not. */
  get counted(): number {
    return this.#trials.filter(
      (trial) => trial.state !== 'failed' && trial.purpose !== 'confirmation',
    ).length
  }

  /** Price of all of them by the price book, $. What has no place on a node costs nothing. */
  get spent(): number {
    const { pricePerHour } = this.#options
    return this.#trials.reduce((sum, { configuration, seconds, usage }) => {
      const paidSeconds = Math.max(0, seconds - (usage?.nodeWaitSeconds ?? 0))
      return sum + (pricePerHour(configuration) * paidSeconds) / 3600
    }, 0)
  }
}
