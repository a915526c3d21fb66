/**
 * What has been tried, and what follows from it: the one state of a run that lasts, and all that a
 * resumed one starts from.
 */
import type { Objective } from '../../search/objective.ts'
import type { Configuration, Observation } from '../../search/types.ts'
import type { FinishedTrial, InterruptedTrial, RunProgress } from '../../trials/types.ts'
import { missedBetween, observationOf, scaleOf, withoutPlace } from './observations.ts'
import { wasDisturbed } from './why-stop.ts'

export interface TrialLogOptions {
  readonly objective: Objective
  /** $ per hour of one replica. */
  readonly pricePerHour: (configuration: Configuration) => number
  /** Trials of before this process, in the order in which they finished. */
  readonly earlier: readonly FinishedTrial[]
  /** Where the run stands that this one takes up. Absent: nothing was under way or had ended. */
  readonly progress?: RunProgress
  /** Trials whose reading does not count, for now or for good. */
  readonly withheld: (trials: readonly FinishedTrial[]) => ReadonlySet<FinishedTrial>
}

export class TrialLog {
  readonly #options: TrialLogOptions
  readonly #trials: FinishedTrial[]
  /** Under way when the run was interrupted, and not begun again yet. */
  #interrupted: readonly InterruptedTrial[]
  #number: number
  /** The same object for a trial each time: the stop rule remembers by it. */
  readonly #observed = new WeakMap<FinishedTrial, Observation | undefined>()

  constructor(options: TrialLogOptions) {
    this.#options = options
    const { earlier, progress } = options
    this.#trials = [...earlier]
    this.#interrupted = progress?.running ?? []
    this.#number = Math.max(
      progress?.lastNumber ?? 0,
      ...[...earlier, ...this.#interrupted].map(({ number }) => number),
    )
  }

  /** All of the experiment, in the order in which they finished. */
  get trials(): readonly FinishedTrial[] {
    return this.#trials
  }

  /** Those of this process alone. */
  get fresh(): readonly FinishedTrial[] {
    return this.#trials.slice(this.#options.earlier.length)
  }

  /**
   * Those of this run, also of before its interruption: what failed in a run that ended may have
   * been mended since.
   */
  get ofRun(): readonly FinishedTrial[] {
    const { endedAfter = 0 } = this.#options.progress ?? {}
    return this.#trials.filter(({ number }) => number > endedAfter)
  }

  /** What the trials of this run took before its interruption, all together. */
  get earlierSeconds(): number {
    const { ofRun, fresh } = this
    return ofRun
      .slice(0, ofRun.length - fresh.length)
      .reduce((sum, { seconds }) => sum + seconds, 0)
  }

  get interrupted(): readonly InterruptedTrial[] {
    return this.#interrupted
  }

  /** The first interrupted trial of that kind, to be begun again under its number. */
  takeInterrupted(isWanted: (trial: InterruptedTrial) => boolean): InterruptedTrial | undefined {
    const found = this.#interrupted.find(isWanted)
    this.#interrupted = this.#interrupted.filter((trial) => trial !== found)
    return found
  }

  /** What `look` returns of the log before its last `count` trials, with nothing interrupted. */
  before<T>(count: number, look: () => T): T {
    const later = this.#trials.splice(this.#trials.length - count)
    const interrupted = this.#interrupted
    this.#interrupted = []
    try {
      return look()
    } finally {
      this.#trials.push(...later)
      this.#interrupted = interrupted
    }
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

  /** Trials that count towards the most that may run. */
  get counted(): number {
    return this.#trials.filter(countsAsTrial).length
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

/**
 * Whether a trial counts towards the most that may run. Confirmations do not, nor what says nothing
 * of its configuration: failed trials, and those that the machine disturbed.
 */
export const countsAsTrial = (trial: FinishedTrial): boolean =>
  trial.state !== 'failed' && trial.purpose !== 'confirmation' && !wasDisturbed(trial)
