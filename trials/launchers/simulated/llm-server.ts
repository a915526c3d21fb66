/**
 * A language-model server in virtual time: one replica, or pools for prefill and decode with
 * round-robin routing. Requests reach a scheduler after the host's work; tokens leave it at once.
 */
import { schedule } from '../../../profiler/load/arrivals.ts'
import type { Load } from '../../../profiler/model/load.ts'
import type { VirtualRun, VirtualServer } from '../../../profiler/model/virtual-server.ts'
import type { Sequence } from '../../predictor/llm/scheduler.ts'
import type { LlmServer } from '../../predictor/llm/serving-limits.ts'
import type { LlmRequest } from './llm-configuration.ts'
import type { LlmPools, ModelledLlm } from './llm-pools.ts'
import { LlmReplica } from './llm-replica.ts'
import { SeenBeginnings } from './prefix-cache.ts'

export interface SimulatedLlmOptions {
  readonly server: ModelledLlm
  /** Sent in turn. None longer than the server's longest sequence. */
  readonly requests: readonly LlmRequest[]
}

/** Over all plays. */
interface SimulatedLlmUsage {
  readonly elapsedMs: number
  /** Of several servers the mean of all their GPUs. */
  readonly busyMs: number
  /** Mean over the servers of each pool; absent without pools. */
  readonly poolsBusyMs?: { readonly prefill: number; readonly decode: number }
  readonly steps: number
  /** Sequences over all steps. */
  readonly stepSequences: number
  /** Maxima of one server: concurrent sequences, waiting ones, and cache use (0-1). */
  readonly sequences: number
  readonly waiting: number
  readonly cacheUse: number
  readonly preemptions: number
  /** Accepted draft tokens, and the number of drafts. */
  readonly accepted: number
  readonly draftings: number
}

const failure = 'status 429'
/** About this many gaps between tokens are recorded, from a sample of answers. */
const gapsKept = 20_000

/** A request in transit, with its callback for a full queue. */
interface Sent extends LlmRequest {
  readonly number: number
  token(index: number, last: boolean): void
  refused(): void
}

export class SimulatedLlmServer implements VirtualServer {
  readonly #options: SimulatedLlmOptions
  /** Where requests go first. */
  readonly #first: readonly LlmReplica[]
  readonly #decoders: readonly LlmReplica[]
  readonly #beginnings: SeenBeginnings
  #elapsedMs = 0

  constructor(options: SimulatedLlmOptions) {
    this.#options = options
    const { server, requests } = options
    const { pools } = server
    this.#beginnings = new SeenBeginnings(requests)
    const createReplicas = (count: number, of: LlmServer) =>
      Array.from({ length: count }, () => new LlmReplica(of))
    this.#first = createReplicas(pools?.prefill ?? 1, server)
    this.#decoders = pools === undefined ? [] : createReplicas(pools.decode, pools.decoder)
  }

  get usage(): SimulatedLlmUsage {
    const all = this.#replicas
    const sum = (of: (replica: LlmReplica) => number) =>
      all.reduce((total, replica) => total + of(replica), 0)
    const most = (of: (replica: LlmReplica) => number) => Math.max(...all.map(of))
    return {
      elapsedMs: this.#elapsedMs,
      ...this.#computeBusy(),
      steps: sum(({ usage }) => usage.steps),
      stepSequences: sum(({ usage }) => usage.stepSequences),
      sequences: most(({ usage }) => usage.sequences),
      waiting: most(({ usage }) => usage.waiting),
      cacheUse: most(({ usage }) => usage.cacheUse),
      preemptions: sum(({ preemptions }) => preemptions),
      accepted: sum(({ accepted }) => accepted),
      draftings: sum(({ draftings }) => draftings),
    }
  }

  #computeBusy(): Pick<SimulatedLlmUsage, 'busyMs' | 'poolsBusyMs'> {
    const { pools, device } = this.#options.server
    const prefill = computeMeanBusyMs(this.#first)
    if (pools === undefined) return { busyMs: prefill }
    const decode = computeMeanBusyMs(this.#decoders)
    const [prefillGpus, decodeGpus] = [
      pools.prefill * device.tensorParallel,
      pools.decode * pools.decoder.device.tensorParallel,
    ]
    return {
      busyMs: (prefillGpus * prefill + decodeGpus * decode) / (prefillGpus + decodeGpus),
      poolsBusyMs: { prefill, decode },
    }
  }

  get #replicas(): readonly LlmReplica[] {
    return [...this.#first, ...this.#decoders]
  }

  /** Plays a load on the idle servers, to its last answer. */
  play(load: Load): VirtualRun {
    const { requests, server } = this.#options
    const all = this.#replicas
    for (const replica of all) replica.restart()
    const closed = load.kind === 'closed'
    const endMs = load.durationS * 1000
    const sentMs =
      load.kind === 'closed' ? new Array<number>(load.connections).fill(0) : schedule(load)
    const answers: Answer[] = []
    const keptGaps = Math.max(
      1,
      Math.ceil((sentMs.length * computeMeanOutput(requests)) / gapsKept),
    )
    const gapsMs: number[] = []
    let now = 0
    const route =
      server.pools === undefined ? this.#routeToOne() : this.#routeToPools(server.pools, () => now)

    const send = (ms: number) => {
      const number = answers.length
      const listed = number % requests.length
      const request = requests[listed]!
      const answer: Answer = {
        sentMs: ms,
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
          for (let i = answer.index; i < index; i++)
            gapsMs.push((now - answer.lastMs) / (index - answer.index))
        answer.lastMs = now
        answer.index = index
        if (!last) return
        answer.done = true
        if (closed && now < endMs) send(now)
      }
      const refused = () => {
        if (closed && now < endMs) send(now + refusedMs)
      }
      const prefix = server.prefixCaching ? this.#beginnings.prefixOf(request, listed) : []
      route({ ...request, prefix, number, token, refused }, ms)
    }
    for (const ms of sentMs) send(ms)

    for (;;) {
      let dueMs = Number.POSITIVE_INFINITY
      for (const replica of all) dueMs = Math.min(dueMs, replica.dueMs)
      if (dueMs === Number.POSITIVE_INFINITY) break
      now = dueMs
      for (const replica of all) if (replica.dueMs <= now) replica.advance(now)
    }
    this.#elapsedMs += now
    return createRun(answers, gapsMs)
  }

  #routeToOne() {
    const [server] = this.#first
    return (sent: Sent, ms: number) => tryDeliver(server!, server!.takeIn(ms), sent, sent)
  }

  /** Routes to each pool in turn, like a router with the policy round_robin. */
  #routeToPools(pools: LlmPools, now: () => number) {
    const freeMs = new Map<LlmReplica, number>()
    return (sent: Sent, ms: number) => {
      const prefill = this.#first[sent.number % this.#first.length]!
      const decode = this.#decoders[sent.number % this.#decoders.length]!
      const { promptTokens, outputTokens } = sent
      const known = pools.handOver === 'pushed' ? decode.takeIn(ms) : undefined
      const computed = () => {
        // A transfer has the links of both its ends to itself.
        const readyMs = Math.max(now(), known ?? decode.takeIn(now()))
        const movedMs =
          Math.max(readyMs, freeMs.get(prefill) ?? 0, freeMs.get(decode) ?? 0) +
          pools.transferMs(promptTokens)
        freeMs.set(prefill, movedMs)
        freeMs.set(decode, movedMs)
        const thereMs = movedMs + pools.transfer.latencyMs
        if (pools.handOver === 'fetched') {
          const rest = {
            promptTokens,
            outputTokens,
            computedTokens: promptTokens - 1,
            token: sent.token,
          }
          return tryDeliver(decode, thereMs, rest, sent)
        }
        decode.at(thereMs, () => {
          sent.token(0, outputTokens === 1)
          const token = (index: number, last: boolean) => sent.token(index + 1, last)
          const rest = {
            promptTokens: promptTokens + 1,
            outputTokens: outputTokens - 1,
            computedTokens: promptTokens,
            token,
          }
          if (outputTokens > 1 && !decode.add(rest)) sent.refused()
        })
      }
      const { prefix } = sent
      tryDeliver(
        prefill,
        prefill.takeIn(ms),
        { promptTokens, outputTokens: 1, prefix, token: computed },
        sent,
      )
    }
  }
}

const computeMeanBusyMs = (replicas: readonly LlmReplica[]): number =>
  replicas.reduce((sum, { usage }) => sum + usage.busyMs, 0) / replicas.length

const tryDeliver = (
  replica: LlmReplica,
  atMs: number,
  sequence: Sequence,
  { refused }: Sent,
): void =>
  replica.at(atMs, () => {
    if (!replica.add(sequence)) refused()
  })

/** Delay before a rejected client retries, ms. */
const refusedMs = 20

interface Answer {
  readonly sentMs: number
  readonly tokens: number
  readonly inputTokens: number
  readonly requestClass?: string
  firstMs: number
  lastMs: number
  /** Index of the last reported token. */
  index: number
  done?: boolean
}

const computeMeanOutput = (requests: readonly LlmRequest[]): number =>
  requests.reduce((sum, { outputTokens }) => sum + outputTokens, 0) / requests.length

function createRun(answers: readonly Answer[], gapsMs: readonly number[]): VirtualRun {
  const of = (value: (answer: Answer) => number) =>
    Float64Array.from(answers, (answer) => (answer.done ? value(answer) : Number.NaN))
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
