/**
 * One replica of a language-model server in virtual time: the scheduler of the emulated server,
 * with step times from the engine profile. A replica is idle or runs a step; `advance` finishes
 * the step, delivers arrivals, and starts the next step.
 */
import { ContinuousBatcher, type Sequence, type Step } from '../../predictor/llm/scheduler.ts'
import type { LlmServer } from '../../predictor/llm/serving-limits.ts'

/** A running step, or several equal steps in a row. */
interface RunningSteps {
  readonly step: Step
  readonly startMs: number
  /** Duration of the first step, ms. */
  readonly firstStepMs: number
  readonly stepCount: number
  readonly endMs: number
}

interface Arrival {
  readonly atMs: number
  readonly onArrival: () => void
}

/** Totals and maxima over all simulation runs. */
interface ReplicaUsage {
  busyMs: number
  steps: number
  /** Sequences over all steps. */
  stepSequences: number
  /** Maximum number of running sequences. */
  maxRunning: number
  /** Maximum number of waiting sequences. */
  maxWaiting: number
  /** Maximum of the used share of the cache, 0-1. */
  maxCacheUse: number
}

export class LlmReplica {
  readonly #server: Pick<LlmServer, 'limits' | 'stepMs' | 'hostMs'>
  /** Shared by all runs, with its prefix cache. */
  readonly #batcher: ContinuousBatcher
  readonly usage: ReplicaUsage = {
    busyMs: 0,
    steps: 0,
    stepSequences: 0,
    maxRunning: 0,
    maxWaiting: 0,
    maxCacheUse: 0,
  }
  /** Arrivals of the run, by time. */
  #arrivals: Arrival[] = []
  /** Index of the first arrival that has not been delivered. */
  #nextArrival = 0
  /** When the host has finished its work on the requests so far. */
  #hostFreeMs = 0
  #runningSteps: RunningSteps | undefined

  constructor(server: Pick<LlmServer, 'limits' | 'stepMs' | 'hostMs'>) {
    this.#server = server
    this.#batcher = new ContinuousBatcher(server.limits)
  }

  get preemptions(): number {
    return this.#batcher.preemptions
  }

  /** Accepted draft tokens. */
  get acceptedDraftTokens(): number {
    return this.#batcher.acceptedTokens
  }

  /** Number of drafting steps, counted once per sequence. */
  get draftingSteps(): number {
    return this.#batcher.draftings
  }

  /** Starts another simulation run at time 0, with an idle replica. */
  restart(): void {
    this.#arrivals = []
    this.#nextArrival = 0
    this.#hostFreeMs = 0
  }

  /**
   * Computes when the host passes a request to the scheduler, ms. The host handles one request at a
   * time, in the order of the calls.
   */
  computeAcceptedMs(arrivalMs: number): number {
    this.#hostFreeMs = Math.max(this.#hostFreeMs, arrivalMs) + this.#server.hostMs
    return this.#hostFreeMs
  }

  /** Calls `onArrival` at a time, before a step that starts at the same time. */
  scheduleArrival(atMs: number, onArrival: () => void): void {
    let index = this.#arrivals.length
    while (index > this.#nextArrival && this.#arrivals[index - 1]!.atMs > atMs) index--
    this.#arrivals.splice(index, 0, { atMs, onArrival })
  }

  /** @returns false if the waiting queue is full */
  add(sequence: Sequence): boolean {
    return this.#batcher.add(sequence)
  }

  /** Time of the next event, ms; Infinity if there is none. */
  get dueMs(): number {
    return Math.min(
      this.#runningSteps?.endMs ?? Number.POSITIVE_INFINITY,
      this.#arrivals[this.#nextArrival]?.atMs ?? Number.POSITIVE_INFINITY,
    )
  }

  /** Processes the events until `now`. */
  advance(now: number): void {
    if (this.#runningSteps !== undefined && this.#runningSteps.endMs <= now)
      this.#finish(this.#runningSteps)
    let hasNewArrivals = false
    while (
      this.#nextArrival < this.#arrivals.length &&
      this.#arrivals[this.#nextArrival]!.atMs <= now
    ) {
      this.#arrivals[this.#nextArrival++]!.onArrival()
      hasNewArrivals = true
    }
    if (this.#runningSteps === undefined) this.#startStep(now)
    else if (hasNewArrivals) this.#truncateSteps(this.#runningSteps, now)
  }

  #startStep(now: number): void {
    const step = this.#batcher.schedule()
    if (step === undefined) return
    const { usage } = this
    usage.maxRunning = Math.max(usage.maxRunning, this.#batcher.running)
    usage.maxWaiting = Math.max(usage.maxWaiting, this.#batcher.waiting)
    usage.maxCacheUse = Math.max(usage.maxCacheUse, this.#batcher.cacheUse)
    const firstStepMs = this.#server.stepMs(step.work)
    const until = countStepsUntil(
      this.#arrivals[this.#nextArrival]?.atMs ?? Number.POSITIVE_INFINITY,
      now,
      firstStepMs,
    )
    this.#runningSteps = this.#createRunningSteps(
      step,
      now,
      firstStepMs,
      Math.min(step.repeats(), until),
    )
  }

  /** Shortens a row of equal steps to end with the step during which a request arrived. */
  #truncateSteps({ step, startMs, firstStepMs, stepCount }: RunningSteps, now: number): void {
    const until = countStepsUntil(now, startMs, firstStepMs)
    if (until < stepCount)
      this.#runningSteps = this.#createRunningSteps(step, startMs, firstStepMs, until)
  }

  /**
   * Combines equal steps into one event. Their duration grows linearly with the context, so the
   * mean context gives the total.
   */
  #createRunningSteps(
    step: Step,
    startMs: number,
    firstStepMs: number,
    stepCount: number,
  ): RunningSteps {
    const { decodes, decodeContext } = step.work
    const ms =
      stepCount === 1
        ? firstStepMs
        : stepCount *
          this.#server.stepMs({
            ...step.work,
            decodeContext: decodeContext + ((stepCount - 1) / 2) * decodes,
          })
    return { step, startMs, firstStepMs, stepCount, endMs: startMs + ms }
  }

  #finish({ step, startMs, endMs, stepCount }: RunningSteps): void {
    this.#runningSteps = undefined
    this.usage.busyMs += endMs - startMs
    this.usage.steps += stepCount
    this.usage.stepSequences += stepCount * step.sequences
    step.finish(stepCount)
  }
}

/** Counts the steps up to the end of the one during which `atMs` falls. */
const countStepsUntil = (atMs: number, startMs: number, firstStepMs: number): number =>
  Math.max(1, Math.ceil((atMs - startMs) / firstStepMs))
