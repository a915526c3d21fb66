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
import { PrefixRenamer } from './prefix-cache.ts'

export interface SimulatedLlmOptions {
  readonly server: ModelledLlm
  /** Sent in turn; none is longer than the longest sequence that the server accepts. */
  readonly requests: readonly LlmRequest[]
}

/** Totals and maxima over all simulation runs. */
interface SimulatedLlmUsage {
  readonly elapsedMs: number
  /** Mean over the GPUs of all servers. */
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
const recordedGaps = 20_000

/** A request in transit, with its callback for a full queue. */
interface SentRequest extends LlmRequest {
  readonly number: number
  token(index: number, last: boolean): void
  refused(): void
}

export class SimulatedLlmServer implements VirtualServer {
  readonly #options: SimulatedLlmOptions
  /** Replicas that receive the requests: those of the prefill pool, or the only one. */
  readonly #entryReplicas: readonly LlmReplica[]
  readonly #decoders: readonly LlmReplica[]
  readonly #prefixRenamer: PrefixRenamer
  #elapsedMs = 0

  constructor(options: SimulatedLlmOptions) {
    this.#options = options
    const { server, requests } = options
    const { pools } = server
    this.#prefixRenamer = new PrefixRenamer(requests)
    const createReplicas = (count: number, of: LlmServer) =>
      Array.from({ length: count }, () => new LlmReplica(of))
    this.#entryReplicas = createReplicas(pools?.prefill ?? 1, server)
    this.#decoders = pools === undefined ? [] : createReplicas(pools.decode, pools.decoder)
  }

  get usage(): SimulatedLlmUsage {
    const all = this.#replicas
    const sum = (of: (replica: LlmReplica) => number) =>
      all.reduce((total, replica) => total + of(replica), 0)
    const findMax = (of: (replica: LlmReplica) => number) => Math.max(...all.map(of))
    return {
      elapsedMs: this.#elapsedMs,
      ...this.#computeBusy(),
      steps: sum(({ usage }) => usage.steps),
      stepSequences: sum(({ usage }) => usage.stepSequences),
      sequences: findMax(({ usage }) => usage.maxRunning),
      waiting: findMax(({ usage }) => usage.maxWaiting),
      cacheUse: findMax(({ usage }) => usage.maxCacheUse),
      preemptions: sum(({ preemptions }) => preemptions),
      accepted: sum(({ acceptedDraftTokens }) => acceptedDraftTokens),
      draftings: sum(({ draftingSteps }) => draftingSteps),
    }
  }

  #computeBusy(): Pick<SimulatedLlmUsage, 'busyMs' | 'poolsBusyMs'> {
    const { pools, device } = this.#options.server
    const prefill = computeMeanBusyMs(this.#entryReplicas)
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
    return [...this.#entryReplicas, ...this.#decoders]
  }

  /** Simulates a load on idle servers until the last answer. */
  play(load: Load): VirtualRun {
    const { requests, server } = this.#options
    const all = this.#replicas
    for (const replica of all) replica.restart()
    const isClosedLoop = load.kind === 'closed'
    const endMs = load.durationS * 1000
    const sentMs =
      load.kind === 'closed' ? new Array<number>(load.connections).fill(0) : schedule(load)
    const answers: AnswerRecord[] = []
    const gapSampleInterval = Math.max(
      1,
      Math.ceil((sentMs.length * computeMeanOutput(requests)) / recordedGaps),
    )
    const gapsMs: number[] = []
    let now = 0
    const route =
      server.pools === undefined ? this.#routeToOne() : this.#routeToPools(server.pools, () => now)

    const send = (ms: number) => {
      const number = answers.length
      const requestIndex = number % requests.length
      const request = requests[requestIndex]!
      const answer: AnswerRecord = {
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
        else if (number % gapSampleInterval === 0)
          for (let i = answer.index; i < index; i++)
            gapsMs.push((now - answer.lastMs) / (index - answer.index))
        answer.lastMs = now
        answer.index = index
        if (!last) return
        answer.done = true
        if (isClosedLoop && now < endMs) send(now)
      }
      const refused = () => {
        if (isClosedLoop && now < endMs) send(now + refusedMs)
      }
      const prefix = server.prefixCaching
        ? this.#prefixRenamer.renamePrefix(request, requestIndex)
        : []
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
    const [server] = this.#entryReplicas
    return (sent: SentRequest, ms: number) =>
      tryDeliver(server!, server!.computeAcceptedMs(ms), sent, sent)
  }

  /** Routes to each pool in turn, like a router with the policy round_robin. */
  #routeToPools(pools: LlmPools, now: () => number) {
    const linkFreeMs = new Map<LlmReplica, number>()
    return (sent: SentRequest, ms: number) => {
      const prefill = this.#entryReplicas[sent.number % this.#entryReplicas.length]!
      const decode = this.#decoders[sent.number % this.#decoders.length]!
      const { promptTokens, outputTokens } = sent
      const acceptedMs = pools.handOver === 'pushed' ? decode.computeAcceptedMs(ms) : undefined
      const onPrefilled = () => {
        // A transfer has the links of both its ends to itself.
        const readyMs = Math.max(now(), acceptedMs ?? decode.computeAcceptedMs(now()))
        const transferredMs =
          Math.max(readyMs, linkFreeMs.get(prefill) ?? 0, linkFreeMs.get(decode) ?? 0) +
          pools.transferMs(promptTokens)
        linkFreeMs.set(prefill, transferredMs)
        linkFreeMs.set(decode, transferredMs)
        const arrivalMs = transferredMs + pools.transfer.latencyMs
        if (pools.handOver === 'fetched') {
          const remainder = {
            promptTokens,
            outputTokens,
            computedTokens: promptTokens - 1,
            token: sent.token,
          }
          return tryDeliver(decode, arrivalMs, remainder, sent)
        }
        decode.scheduleArrival(arrivalMs, () => {
          sent.token(0, outputTokens === 1)
          const token = (index: number, last: boolean) => sent.token(index + 1, last)
          const remainder = {
            promptTokens: promptTokens + 1,
            outputTokens: outputTokens - 1,
            computedTokens: promptTokens,
            token,
          }
          if (outputTokens > 1 && !decode.add(remainder)) sent.refused()
        })
      }
      const { prefix } = sent
      tryDeliver(
        prefill,
        prefill.computeAcceptedMs(ms),
        { promptTokens, outputTokens: 1, prefix, token: onPrefilled },
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
  { refused }: SentRequest,
): void =>
  replica.scheduleArrival(atMs, () => {
    if (!replica.add(sequence)) refused()
  })

/** Delay before a rejected client retries, ms. */
const refusedMs = 20

interface AnswerRecord {
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

function createRun(answers: readonly AnswerRecord[], gapsMs: readonly number[]): VirtualRun {
  const of = (value: (answer: AnswerRecord) => number) =>
    Float64Array.from(answers, (answer) => (answer.done ? value(answer) : Number.NaN))
  const ttft = (a: AnswerRecord) => a.firstMs - a.sentMs
  const tpot = (a: AnswerRecord) => (a.tokens < 2 ? 0 : (a.lastMs - a.firstMs) / (a.tokens - 1))
  const e2e = (a: AnswerRecord) => a.lastMs - a.sentMs
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
