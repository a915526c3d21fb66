/**
 * Schedules trials in concurrency slots, and one launch ahead: the predictor of the next trial
 * starts while the running trials are measured.
 */
import type { Configuration } from '../../search/types.ts'
import type { Launcher } from '../../trials/types.ts'
import { ConcurrencySlots } from './concurrency-slots.ts'
import { LaunchAhead } from './launch-ahead.ts'
import type { TrialRequest } from './trial-runner.ts'

interface RunningTrial {
  readonly configuration: Configuration
  readonly done: Promise<void>
  /** Its load has begun, so its predictor has started. */
  isUnderLoad: boolean
}

export class Scheduler {
  readonly #slots: ConcurrencySlots
  readonly #failure = new AbortController()
  /** Aborts everything that runs: at an interrupt, or when the loop fails. */
  readonly #signal: AbortSignal
  /** By trial number. */
  readonly #running = new Map<number, RunningTrial>()
  #launchAhead: LaunchAhead | undefined
  #finishedAfterAbort = 0
  #notifyUnderLoad: () => void = () => undefined

  /** @param parallel maximum number of trials at a time */
  constructor(parallel: number, signal: AbortSignal) {
    this.#slots = new ConcurrencySlots(parallel)
    this.#signal = AbortSignal.any([signal, this.#failure.signal])
  }

  get hasFreeSlot(): boolean {
    return this.#slots.hasFree
  }

  get isIdle(): boolean {
    return this.#running.size === 0
  }

  /** Configurations of the trials under way, in the order in which they started. */
  get runningConfigurations(): readonly Configuration[] {
    return [...this.#running.values()].map(({ configuration }) => configuration)
  }

  /**
   * Starts a trial in a free slot.
   * @param run runs the trial to its end, and calls `finish` once its result is stored
   */
  start(
    { number, configuration }: TrialRequest,
    run: (signal: AbortSignal) => Promise<void>,
  ): void {
    this.#slots.occupy(number)
    const done = run(this.#signal)
    // `waitForChange` reports the first rejection; this marks later ones as handled.
    done.catch(() => undefined)
    this.#running.set(number, { configuration, done, isUnderLoad: false })
  }

  /** Frees the slot of a trial that has ended. */
  finish(number: number): void {
    if (this.#signal.aborted) this.#finishedAfterAbort += 1
    this.#running.delete(number)
    this.#slots.release(number)
  }

  /** Records that the load of a trial has begun. */
  markUnderLoad(number: number): void {
    const trial = this.#running.get(number)
    if (!trial || trial.isUnderLoad) return
    trial.isUnderLoad = true
    this.#notifyUnderLoad()
  }

  /** Frees the slot of a trial that waits for a node. @returns false where it keeps its slot */
  suspend(number: number): boolean {
    return this.#slots.suspend(number)
  }

  /** Resolves once a suspended trial has a slot again. @throws the signal's reason */
  resume(number: number, signal: AbortSignal): Promise<void> {
    return this.#slots.resume(number, signal)
  }

  /**
   * Resolves when something may have to start: a trial has ended, was suspended, or is under load.
   * @throws what a trial throws
   */
  async waitForChange(): Promise<void> {
    const underLoad = new Promise<void>((resolve) => {
      this.#notifyUnderLoad = resolve
    })
    const trials = [...this.#running.values()].map(({ done }) => done)
    await Promise.race([...trials, this.#slots.suspension, underLoad])
  }

  /**
   * Whether a predictor may be launched ahead: one at a time, while all slots are taken and each
   * trial is under load.
   */
  get canLaunchAhead(): boolean {
    const isLoaded = [...this.#running.values()].every(({ isUnderLoad }) => isUnderLoad)
    return this.#launchAhead === undefined && !this.#slots.hasFree && isLoaded
  }

  launchAhead(launcher: Pick<Launcher, 'launch'>, request: TrialRequest): void {
    this.#launchAhead = new LaunchAhead(launcher, request, this.#signal)
  }

  /** The trial whose predictor is launched ahead. */
  get launchAheadRequest(): TrialRequest | undefined {
    return this.#launchAhead?.request
  }

  /** Hands the launch ahead to its trial; undefined for any other trial. */
  takeLaunchAhead(request: TrialRequest): LaunchAhead | undefined {
    const launchAhead = this.#launchAhead
    if (launchAhead?.request !== request) return undefined
    this.#launchAhead = undefined
    return launchAhead
  }

  /** Stops the predictor that was launched ahead. Resolves with the trial that it was for. */
  async cancelLaunchAhead(): Promise<TrialRequest | undefined> {
    const launchAhead = this.#launchAhead
    this.#launchAhead = undefined
    await launchAhead?.cancel()
    return launchAhead?.request
  }

  /** Aborts all trials and the launch ahead. Resolves with the number of trials that finished. */
  async abandon(error: unknown): Promise<number> {
    this.#failure.abort(error)
    const running = [...this.#running.values()].map(({ done }) => done)
    await Promise.all([Promise.allSettled(running), this.cancelLaunchAhead()])
    return this.#finishedAfterAbort
  }
}
