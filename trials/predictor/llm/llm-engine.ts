/**
 * Runs the scheduler in real time: steps, and host time of requests, take as long as in the
 * server's profile. Marked as emulated.
 */
import { EmulatedDevice } from '../engines/emulated.ts'
import { ContinuousBatcher, type SchedulerLimits, type Sequence } from './scheduler.ts'
import type { StepWork } from './step-model.ts'

export class LlmEngine {
  readonly scheduler: ContinuousBatcher
  readonly #stepMs: (work: StepWork) => number
  readonly #device = new EmulatedDevice()
  #timer: NodeJS.Timeout | undefined
  #idle: (() => void)[] = []
  readonly #hostMs: number
  /** When the host has taken in the last request that came. */
  #frontFreeMs = 0
  /** Requests that the host has not taken in yet. */
  readonly #entering = new Map<Sequence, NodeJS.Timeout>()
  /** Steps, and sequences over all of them: their ratio is the mean batch. */
  steps = 0
  stepSequences = 0

  constructor(
    private readonly limits: SchedulerLimits,
    stepMs: (work: StepWork) => number,
    hostMs: number,
  ) {
    this.scheduler = new ContinuousBatcher(limits)
    this.#stepMs = stepMs
    this.#hostMs = hostMs
  }

  get busyMs(): number {
    return this.#device.busyMs
  }

  /** False when too many wait. */
  add(sequence: Sequence): boolean {
    if (this.#entering.size + this.scheduler.waiting >= this.limits.queueLimit) return false
    const now = performance.now()
    this.#frontFreeMs = Math.max(now, this.#frontFreeMs) + this.#hostMs
    const enter = () => {
      this.#entering.delete(sequence)
      this.scheduler.add(sequence)
      if (this.#timer === undefined) this.#startStep(performance.now())
    }
    this.#entering.set(sequence, setTimeout(enter, this.#frontFreeMs - now))
    return true
  }

  remove(sequence: Sequence): void {
    clearTimeout(this.#entering.get(sequence))
    this.#entering.delete(sequence)
    this.scheduler.remove(sequence)
    this.#tellIdle()
  }

  /** Resolves when nothing is under way. */
  drained(): Promise<void> {
    return this.#isIdle() ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve))
  }

  close(): void {
    clearTimeout(this.#timer)
    for (const entering of this.#entering.values()) clearTimeout(entering)
  }

  #isIdle(): boolean {
    return this.#timer === undefined && this.#entering.size === 0
  }

  #tellIdle(): void {
    if (this.#isIdle()) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** The device starts its next step where the last one ended, however late the timer was. */
  #startStep(fromMs: number): void {
    const step = this.scheduler.schedule()
    if (!step) {
      this.#timer = undefined
      this.#tellIdle()
      return
    }
    this.steps += 1
    this.stepSequences += step.sequences
    const endMs = this.#device.occupy(fromMs, this.#stepMs(step.work))
    this.#timer = setTimeout(
      () => {
        step.finish()
        this.#startStep(endMs)
      },
      Math.max(0, endMs - performance.now()),
    )
  }
}
