/**
 * Emulates a language-model server in real time: steps, and the host's work on each request, take
 * as long as in the server's profile.
 */
import { EmulatedDevice } from '../engines/emulated.ts'
import { ContinuousBatcher, type SchedulerLimits, type Sequence } from './scheduler.ts'
import type { StepWork } from './step-model.ts'

export class LlmEngine {
  readonly scheduler: ContinuousBatcher
  readonly #stepMs: (work: StepWork) => number
  readonly #device = new EmulatedDevice()
  #timer: NodeJS.Timeout | undefined
  readonly #idleResolvers: (() => void)[] = []
  /** Host time of each request before the scheduler, ms. */
  readonly #hostMs: number
  /** Time at which the host has processed all requests so far. */
  #hostFreeAtMs = 0
  /** Timers of the requests that the host is still processing. */
  readonly #hostTimers = new Map<Sequence, NodeJS.Timeout>()
  /** Steps so far, and the sum of their sequences: the ratio is the mean batch size. */
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

  /** @returns false if the queue is full */
  add(sequence: Sequence): boolean {
    if (this.#hostTimers.size + this.scheduler.waiting >= this.limits.queueLimit) return false
    const now = performance.now()
    this.#hostFreeAtMs = Math.max(now, this.#hostFreeAtMs) + this.#hostMs
    const enter = () => {
      this.#hostTimers.delete(sequence)
      this.scheduler.add(sequence)
      if (this.#timer === undefined) this.#startStep(performance.now())
    }
    this.#hostTimers.set(sequence, setTimeout(enter, this.#hostFreeAtMs - now))
    return true
  }

  remove(sequence: Sequence): void {
    clearTimeout(this.#hostTimers.get(sequence))
    this.#hostTimers.delete(sequence)
    this.scheduler.remove(sequence)
    this.#resolveIdle()
  }

  /** Resolves when no request is queued or running. */
  waitUntilIdle(): Promise<void> {
    return this.#isIdle()
      ? Promise.resolve()
      : new Promise((resolve) => this.#idleResolvers.push(resolve))
  }

  close(): void {
    clearTimeout(this.#timer)
    for (const timer of this.#hostTimers.values()) clearTimeout(timer)
  }

  #isIdle(): boolean {
    return this.#timer === undefined && this.#hostTimers.size === 0
  }

  #resolveIdle(): void {
    if (this.#isIdle()) for (const resolve of this.#idleResolvers.splice(0)) resolve()
  }

  /** The device starts its next step where the last one ended, however late the timer was. */
  #startStep(fromMs: number): void {
    const step = this.scheduler.schedule()
    if (!step) {
      this.#timer = undefined
      this.#resolveIdle()
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
