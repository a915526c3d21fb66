/**
 * A language model's server in virtual time: the scheduler of the emulated one, its steps as long as the server's profile says. Requests
 * reach the scheduler once the host has taken them in, one after the other; tokens leave it at once.
 */
import { schedule } from '../../../profiler/generator/arrivals.ts'
import type { Load, VirtualRun, VirtualServer } from '../../../profiler/types.ts'
import { ContinuousBatcher } from '../../predictor/llm/scheduler.ts'
import type { LlmServer } from '../../predictor/llm/serving-limits.ts'
import type { LlmRequest } from './llm-configuration.ts'

export interface SimulatedLlmOptions {
  readonly server: LlmServer
  /** Sent in turn. None longer than the server's longest sequence. */
  readonly requests: readonly LlmRequest[]
}

/** Over all plays. */
interface SimulatedLlmUsage {
  readonly elapsedMs: number
  readonly busyMs: number
  readonly steps: number
  /** Sequences over all steps. */
  readonly stepSequences: number
  /** Most at once, most that waited, and the fullest cache (0-1). */
  readonly sequences: number
  readonly waiting: number
  readonly cacheUse: number
  readonly preemptions: number
  /** Draft tokens that were kept, and how often an answer had some drafted. */
  readonly accepted: number
  readonly draftings: number
}

const failure = 'status 429'
/** Gaps between tokens are kept of so many answers that about this many remain. */
const gapsKept = 20_000

export class SimulatedLlmServer implements VirtualServer {
  readonly #options: SimulatedLlmOptions
  /** Lasts from one load to the next, and with it what it knows of beginnings. */
  readonly #batcher: ContinuousBatcher
  #usage: SimulatedLlmUsage = {
    elapsedMs: 0,
    busyMs: 0,
    steps: 0,
    stepSequences: 0,
    sequences: 0,
    waiting: 0,
    cacheUse: 0,
    preemptions: 0,
    accepted: 0,
    draftings: 0,
  }

  constructor(options: SimulatedLlmOptions) {
    this.#options = options
    this.#batcher = new ContinuousBatcher(options.server.limits)
  }

  get usage(): SimulatedLlmUsage {
    return this.#usage
  }

  /** Plays a load on the idle server, to its last answer. */
  play(load: Load): VirtualRun {
    const { server, requests } = this.#options
    const batcher = this.#batcher
    const closed = load.kind === 'closed'
    const endMs = load.durationS * 1000
    const sent: number[] = []
    // When the scheduler sees them: the host takes one after the other.
    const arrivals: number[] = []
    const send = (ms: number) => {
      sent.push(ms)
      arrivals.push(Math.max(arrivals.at(-1) ?? 0, ms) + server.frontMs)
    }
    for (const ms of load.kind === 'closed' ? new Array<number>(load.connections).fill(0) : schedule(load)) send(ms)
    const answers: Answer[] = []
    const keptGaps = Math.max(1, Math.ceil((arrivals.length * meanOutput(requests)) / gapsKept))
    const gapsMs: number[] = []
    let [now, next, busyMs, steps, stepSequences] = [0, 0, 0, 0, 0]
    let { sequences, waiting, cacheUse } = this.#usage

    const arrive = (sentMs: number) => {
      const number = answers.length
      const request = requests[number % requests.length]!
      const answer: Answer = {
        sentMs,
        firstMs: Number.NaN,
        lastMs: Number.NaN,
        index: 0,
        tokens: request.outputTokens,
        inputTokens: request.promptTokens,
        ...(request.requestClass && { requestClass: request.requestClass }),
      }
      answers.push(answer)
      const token = (index: number, last: boolean) => {
        if (index === 0) answer.firstMs = now
        else if (number % keptGaps === 0)
          for (let i = answer.index; i < index; i++) gapsMs.push((now - answer.lastMs) / (index - answer.index))
        answer.lastMs = now
        answer.index = index
        if (!last) return
        answer.done = true
        if (closed && now < endMs) send(now)
      }
      if (!batcher.add({ ...request, token }) && closed && now < endMs) send(now + refusedMs)
    }

    for (;;) {
      while (next < arrivals.length && arrivals[next]! <= now) arrive(sent[next++]!)
      const step = batcher.schedule()
      if (step === undefined) {
        if (next >= arrivals.length) break
        now = arrivals[next]!
        continue
      }
      sequences = Math.max(sequences, batcher.running)
      waiting = Math.max(waiting, batcher.waiting)
      cacheUse = Math.max(cacheUse, batcher.cacheUse)
      const once = server.stepMs(step.work)
      // Steps of the same sequences alone, up to the next arrival, are done as one: their time grows evenly with the context.
      const untilNext = next < arrivals.length ? Math.ceil((arrivals[next]! - now) / once) : Number.POSITIVE_INFINITY
      const times = Math.max(1, Math.min(step.repeats(), untilNext))
      const { decodes, decodeContext } = step.work
      const ms = times === 1 ? once : times * server.stepMs({ ...step.work, decodeContext: decodeContext + ((times - 1) / 2) * decodes })
      now += ms
      busyMs += ms
      steps += times
      stepSequences += times * step.sequences
      step.finish(times)
    }
    const before = this.#usage
    this.#usage = {
      elapsedMs: before.elapsedMs + now,
      busyMs: before.busyMs + busyMs,
      steps: before.steps + steps,
      stepSequences: before.stepSequences + stepSequences,
      sequences,
      waiting,
      cacheUse,
      preemptions: batcher.preemptions,
      accepted: batcher.acceptedTokens,
      draftings: batcher.draftings,
    }
    return runOf(answers, gapsMs)
  }
}

/** A client that was refused waits before it asks again, ms. */
const refusedMs = 20

interface Answer {
  readonly sentMs: number
  readonly tokens: number
  readonly inputTokens: number
  readonly requestClass?: string
  firstMs: number
  lastMs: number
  /** Of the last token told of. */
  index: number
  done?: boolean
}

const meanOutput = (requests: readonly LlmRequest[]): number =>
  requests.reduce((sum, { outputTokens }) => sum + outputTokens, 0) / requests.length

function runOf(answers: readonly Answer[], gapsMs: readonly number[]): VirtualRun {
  const of = (value: (answer: Answer) => number) => Float64Array.from(answers, (answer) => (answer.done ? value(answer) : Number.NaN))
  const ttft = (a: Answer) => a.firstMs - a.sentMs
  const tpot = (a: Answer) => (a.tokens < 2 ? 0 : (a.lastMs - a.firstMs) / (a.tokens - 1))
  const e2e = (a: Answer) => a.lastMs - a.sentMs
  return {
    sentMs: Float64Array.from(answers, ({ sentMs }) => sentMs),
    latencyMs: of(e2e),
    failure,
    stream: {
      latenciesMs: { ttft: of(ttft), tpot: of(tpot), e2e: of(e2e) },
      tokens: of((a) => a.tokens),
      inputTokens: of((a) => a.inputTokens),
      ...(answers.some(({ requestClass }) => requestClass !== undefined) && {
        classes: answers.map(({ requestClass }) => requestClass),
      }),
      gapsMs: Float64Array.from(gapsMs),
    },
  }
}
