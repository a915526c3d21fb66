/** Drives the scheduler in real time: every step takes the time that the device model gives for it. Emulated, and says so. */
import { EmulatedDevice } from '../engines/emulated.ts'
import { ContinuousBatcher, type SchedulerLimits, type Sequence } from './scheduler.ts'
import type { StepWork } from './step-model.ts'

export class LlmEngine {
  readonly scheduler: ContinuousBatcher
  readonly #stepMs: (work: StepWork) => number
  readonly #device = new EmulatedDevice()
  #timer: NodeJS.Timeout | undefined
  #idle: (() => void)[] = []
  /** Steps, and sequences over all of them: their ratio is the mean batch. */
  steps = 0
  stepSequences = 0

  constructor(limits: SchedulerLimits, stepMs: (work: StepWork) => number) {
    this.scheduler = new ContinuousBatcher(limits)
    this.#stepMs = stepMs
  }

  get busyMs(): number {
    return this.#device.busyMs
  }

  /** False when too many wait. */
  add(sequence: Sequence): boolean {
    const added = this.scheduler.add(sequence)
    if (added && this.#timer === undefined) this.#next(performance.now())
    return added
  }

  remove(sequence: Sequence): void {
    this.scheduler.remove(sequence)
  }

  /** Resolves when nothing is under way. */
  drained(): Promise<void> {
    return this.#timer === undefined ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve))
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  /** The device starts its next step where the last one ended, however late the timer was. */
  #next(fromMs: number): void {
    const step = this.scheduler.schedule()
    if (!step) {
      this.#timer = undefined
      for (const resolve of this.#idle.splice(0)) resolve()
      return
    }
    this.steps += 1
    this.stepSequences += step.sequences
    const endMs = this.#device.occupy(fromMs, this.#stepMs(step.work))
    this.#timer = setTimeout(
      () => {
        step.finish()
        this.#next(endMs)
      },
      Math.max(0, endMs - performance.now()),
    )
  }
}
