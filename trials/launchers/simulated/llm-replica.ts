/**
 * One replica of a language-model server in virtual time: the scheduler of the emulated server, with
 * step times by its profile. A replica is idle, or a step is under way; `advance` finishes the step,
 * passes on arrivals, and begins the next one.
 */
import { ContinuousBatcher, type Sequence, type Step } from '../../predictor/llm/scheduler.ts'
import type { LlmServer } from '../../predictor/llm/serving-limits.ts'

/** A running step, or several equal ones in a row. */
interface UnderWay {
  readonly step: Step
  readonly startMs: number
  /** Of the first of them, ms. */
  readonly onceMs: number
  readonly times: number
  readonly endMs: number
}

interface Arrival {
  readonly atMs: number
  readonly reach: () => void
}

/** Over all plays. */
interface ReplicaUsage {
  busyMs: number
  steps: number
  /** Sequences over all steps. */
  stepSequences: number
  /** Maximum of running sequences, of waiting ones, and of cache use (0-1). */
  sequences: number
  waiting: number
  cacheUse: number
}

export class LlmReplica {
  readonly #server: Pick<LlmServer, 'limits' | 'stepMs' | 'frontMs'>
  /** Shared by all runs, with its prefix cache. */
  readonly #batcher: ContinuousBatcher
  readonly usage: ReplicaUsage = {
    busyMs: 0,
    steps: 0,
    stepSequences: 0,
    sequences: 0,
    waiting: 0,
    cacheUse: 0,
  }
  #arrivals: Arrival[] = []
  #arrived = 0
  #takenInMs = 0
  #underWay: UnderWay | undefined

  constructor(server: Pick<LlmServer, 'limits' | 'stepMs' | 'frontMs'>) {
    this.#server = server
    this.#batcher = new ContinuousBatcher(server.limits)
  }

  get preemptions(): number {
    return this.#batcher.preemptions
  }

  /** Accepted draft tokens. */
  get accepted(): number {
    return this.#batcher.acceptedTokens
  }

  /** Drafting steps, counted once per sequence. */
  get draftings(): number {
    return this.#batcher.draftings
  }

  /** Starts another play at time 0, idle. */
  restart(): void {
    this.#arrivals = []
    this.#arrived = 0
    this.#takenInMs = 0
  }

  /** When the host has accepted a request that arrives at `ms`; one at a time, in call order. */
  takeIn(ms: number): number {
    this.#takenInMs = Math.max(this.#takenInMs, ms) + this.#server.frontMs
    return this.#takenInMs
  }

  /** Calls `reach` at a time, before the steps that begin then. */
  at(atMs: number, reach: () => void): void {
    let place = this.#arrivals.length
    while (place > this.#arrived && this.#arrivals[place - 1]!.atMs > atMs) place--
    this.#arrivals.splice(place, 0, { atMs, reach })
  }

  /** False when too many wait. */
  add(sequence: Sequence): boolean {
    return this.#batcher.add(sequence)
  }

  /** Time of the next event, ms; Infinity if there is none. */
  get dueMs(): number {
    return Math.min(
      this.#underWay?.endMs ?? Number.POSITIVE_INFINITY,
      this.#arrivals[this.#arrived]?.atMs ?? Number.POSITIVE_INFINITY,
    )
  }

  /** Processes the events until `now`. */
  advance(now: number): void {
    if (this.#underWay !== undefined && this.#underWay.endMs <= now) this.#finish(this.#underWay)
    let came = false
    while (this.#arrived < this.#arrivals.length && this.#arrivals[this.#arrived]!.atMs <= now) {
      this.#arrivals[this.#arrived++]!.reach()
      came = true
    }
    if (this.#underWay === undefined) this.#begin(now)
    else if (came) this.#cut(this.#underWay, now)
  }

  #begin(now: number): void {
    const step = this.#batcher.schedule()
    if (step === undefined) return
    const { usage } = this
    usage.sequences = Math.max(usage.sequences, this.#batcher.running)
    usage.waiting = Math.max(usage.waiting, this.#batcher.waiting)
    usage.cacheUse = Math.max(usage.cacheUse, this.#batcher.cacheUse)
    const onceMs = this.#server.stepMs(step.work)
    const until = countStepsUntil(
      this.#arrivals[this.#arrived]?.atMs ?? Number.POSITIVE_INFINITY,
      now,
      onceMs,
    )
    this.#underWay = this.#lasting(step, now, onceMs, Math.min(step.repeats(), until))
  }

  /** Ends the row of steps after the one in which something unforeseen arrived. */
  #cut({ step, startMs, onceMs, times }: UnderWay, now: number): void {
    const until = countStepsUntil(now, startMs, onceMs)
    if (until < times) this.#underWay = this.#lasting(step, startMs, onceMs, until)
  }

  /** Equal steps are processed as one: their time grows linearly with the context. */
  #lasting(step: Step, startMs: number, onceMs: number, times: number): UnderWay {
    const { decodes, decodeContext } = step.work
    const ms =
      times === 1
        ? onceMs
        : times *
          this.#server.stepMs({
            ...step.work,
            decodeContext: decodeContext + ((times - 1) / 2) * decodes,
          })
    return { step, startMs, onceMs, times, endMs: startMs + ms }
  }

  #finish({ step, startMs, endMs, times }: UnderWay): void {
    this.#underWay = undefined
    this.usage.busyMs += endMs - startMs
    this.usage.steps += times
    this.usage.stepSequences += times * step.sequences
    step.finish(times)
  }
}

/** Number of steps until the one that contains `atMs` is over. */
const countStepsUntil = (atMs: number, startMs: number, onceMs: number): number =>
  Math.max(1, Math.ceil((atMs - startMs) / onceMs))
