/**
 * The vocabulary of the profiler: SLOs, loads, load points, targets, measurements. Latencies in ms,
 * rates per second.
 */
import type { LatencyMetric, StreamLatency } from './latency-metrics.ts'
import type { PayloadSource } from './payload-source.ts'
import type { MetricReading } from './prometheus.ts'
import type { TlsOptions } from './tls-options.ts'

/** The latency a percentile of requests must keep, and the share of requests that may fail. */
export interface Slo {
  /** 0.99 for p99. */
  readonly percentile: number
  readonly limitMs: number
  /**
   * Highest tolerated share of failed requests, e.g. 0.001. Failed requests also count as over the
   * SLO.
   */
  readonly maxErrorRate: number
  /** Which latency of a streamed answer: default 'e2e'. */
  readonly metric?: LatencyMetric
  /**
   * A joint SLO on streamed answers, two limits or more: a request is good when it keeps every one
   * of them, and `percentile` is the share of all requests that must be good (goodput: Zhong et
   * al., DistServe, OSDI 2024, section 2). A request's latency is then its greatest part of a
   * limit, in units of the first one, whose limit `limitMs` is: at most `limitMs` exactly where
   * every limit is kept. `metric` is absent. One limit may be all where it is of a class.
   */
  readonly limits?: readonly SloLimit[]
  /**
   * Names of the classes of requests, where there are some: each of them must keep the percentile
   * by itself.
   */
  readonly classes?: readonly string[]
}

/** One of a joint SLO's limits. */
export interface SloLimit {
  readonly metric: LatencyMetric
  readonly limitMs: number
  /** Of requests of this class alone. Absent: of all classes that have no limits of their own. */
  readonly requestClass?: string
}

/** Latency percentiles of answered requests, in ms with microsecond resolution. */
export interface LatencySummary {
  readonly requests: number
  readonly meanMs: number
  readonly p50Ms: number
  readonly p90Ms: number
  readonly p95Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/** A request pattern. */
export type Load =
  | {
      readonly kind: 'closed'
      readonly connections: number
      readonly durationS: number
      /** Over the connections that open load uses, which stay open for it. */
      readonly forOpen?: true
    }
  | {
      readonly kind: 'open'
      readonly rateRps: number
      readonly arrivals: Arrivals
      readonly durationS: number
      readonly seed: number
      /**
       * Ends the window early once more than this many requests failed or took longer than
       * `overMs`: its outcome is then certain.
       */
      readonly cut?: { readonly overMs: number; readonly requests: number }
    }

export type Arrivals =
  | { readonly kind: 'constant' }
  | { readonly kind: 'poisson' }
  | { readonly kind: 'gamma'; readonly cv: number }
  | { readonly kind: 'on-off'; readonly onS: number; readonly offS: number }
  /**
   * Poisson, its rate rising or falling evenly over the window; the load's rateRps is the mean of
   * both.
   */
  | { readonly kind: 'sweep'; readonly fromRps: number; readonly toRps: number }
  /** `readAs`: the unit of the times in the file, and where it comes from. */
  | { readonly kind: 'trace'; readonly atMs: readonly number[]; readonly readAs?: string }

/** What one load did: the row of a load curve. */
export interface LoadPoint extends LatencySummary {
  readonly load: Load
  /** Intended rate. For a closed loop the rate it settled at. */
  readonly offeredRps: number
  /** Good answers per second. */
  readonly achievedRps: number
  /** Good answers within the SLO per second. */
  readonly goodputRps: number
  readonly errors: number
  /** Error class ('timeout', 'status 503', 'reset', 'bad answer', ...) → count. */
  readonly errorKinds: Readonly<Record<string, number>>
  /**
   * The SLO percentile over all requests (under an SLO with classes: over those of the worst
   * class), failed ones counted as infinitely slow (Infinity when too many failed), and its
   * distribution-free 95 % interval.
   */
  readonly sloMs: number
  readonly sloCi95Ms: readonly [number, number]
  /** The generator could not hold the intended load: says nothing of the server's limit. */
  readonly generatorSaturated: boolean
  /** How late sends were against their intended time, p99 in ms; 0 for a closed loop. */
  readonly latenessP99Ms: number
  readonly seconds: number
  /**
   * The window was ended early because it had already missed the SLO: its percentiles are lower
   * bounds.
   */
  readonly cut?: boolean
  /** Of streamed answers: all their latencies, whichever the SLO is about. */
  readonly stream?: StreamSummary
  /** Under a joint SLO: which share of all requests was good, and which kept each of its limits. */
  readonly joint?: JointSummary
  /**
   * All latencies in brief, for another SLO to be judged by (capacity/kept-under.ts). Absent in old
   * stores.
   */
  readonly latencies?: RecordedLatencies
  /**
   * The machine kept the server or the generator waiting for a core: says nothing of the server.
   */
  readonly disturbed?: boolean
}

/** Histograms of a window's answers (statistics/latency-record.ts). */
export interface RecordedLatencies
  extends Readonly<Partial<Record<LatencyMetric, readonly number[]>>> {
  /** Bin, count, bin, count, ...; the others are of streamed answers. */
  readonly e2e: readonly number[]
  /**
   * Requests that say as much as one independent one, at most: the largest dispersion of the share
   * over any limit.
   */
  readonly dispersion: number
}

/** What a load is for: shown with its progress. */
export type Phase = 'warm-up' | 'idle' | 'saturation' | 'search' | 'curve' | 'confirm'

/** What the machine did to a window: shares of its time, 0-1, where the system tells. */
export interface MachineWait {
  /**
   * That the server's processes could have run and others had the core; of a server with more
   * threads than cores, on average over its cores.
   */
  readonly server?: number
  /** The same of the load generator. */
  readonly generator?: number
  /** Its mean wait, ms, each time that it was given a core: what it adds to a latency. */
  readonly generatorMs?: number
  /** What the generator waited for cores that the server, or it itself, had, ms. */
  readonly behindServerMs?: number
  /** Taken from the machine's cores by its host. */
  readonly stolen?: number
}

/** Shares of all requests, failed ones among them, 0-1. */
export interface JointSummary {
  readonly good: number
  readonly kept: Readonly<Partial<Record<LatencyMetric, number>>>
}

/** Streamed answers of a window: their latencies and their tokens. */
export interface StreamSummary extends Readonly<Record<StreamLatency, LatencySummary>> {
  /** Of an open window that keeps the SLO at the rate of its load; else until its last answer. */
  readonly outputTokensPerSecond: number
  /**
   * Means of an answered request. Absent in old stores, and where neither server nor prompts tell.
   */
  readonly outputTokens?: number
  readonly inputTokens?: number
  /** Each class of requests, by its name. */
  readonly classes?: Readonly<Record<string, ClassSummary>>
}

/** Latencies of the answers to one class of requests. */
export interface ClassSummary extends Readonly<Record<LatencyMetric, LatencySummary>> {
  /** Share of its requests that kept the SLO's limits, 0-1. */
  readonly good: number
  /** Requests that failed. Absent in old stores, where `good` is of the answers alone. */
  readonly errors?: number
}

/** One prepared request body, and how many items it carries. */
export interface RequestBody {
  readonly contentType: string
  readonly body: string | Uint8Array
  /** Tokens of a prompt, as far as its maker knows. */
  readonly inputTokens?: number
  /** Name of its class. */
  readonly requestClass?: string
}

/** Where requests go: a real HTTP endpoint, or a server that exists in virtual time only. */
export type Target =
  | {
      readonly kind: 'http'
      readonly url: string
      /** Path of the inference call, e.g. /v2/models/bert/infer. */
      readonly path: string
      readonly headers: Readonly<Record<string, string>>
      /** Prepared pool, used round robin. */
      readonly bodies: readonly RequestBody[]
      readonly timeoutMs: number
      /**
       * Of streams that were heard before: where no byte of any comes for so long, ms, and thrice
       * as long as one was ever waited for, all have timed out.
       */
      readonly silentMs?: number
      /**
       * Most connections of an open loop, default 512. Requests beyond wait for one, and their wait
       * counts.
       */
      readonly connections?: number
      /**
       * HTTP/2: over TLS by ALPN, else by prior knowledge. Requests to a server without it fail as
       * 'no HTTP/2'.
       */
      readonly http2?: boolean
      /**
       * Cheap test of an answer's shape beyond its 2xx status: a string that a good answer
       * contains.
       */
      readonly expect?: string
      /**
       * 'grpc': bodies are serialized messages of one unary call, `path` its method. 'sse': answers
       * stream as server-sent events. Default: plain HTTP.
       */
      readonly transport?: 'grpc' | 'sse'
      /** Over https. */
      readonly tls?: TlsOptions
      /**
       * Several servers of the same, `url` the first of them: each gets its share of the requests
       * by its weight.
       */
      readonly spread?: readonly SpreadServer[]
      /**
       * Answers of open loads that are to be looked into: a few of those to these bodies, by
       * number; `take` is called in the process that asks for the load.
       */
      readonly sample?: {
        readonly bodies: readonly number[]
        take?(body: number, answer: Uint8Array): void
      }
      /**
       * What is wrong with an answer as one to a body, in words that follow 'answered, but';
       * undefined where nothing is. Not for other processes.
       */
      readonly meaning?: (asked: RequestBody, answer: Uint8Array) => string | undefined
      /** What a reader of the figures must know of these requests, a sentence each. */
      readonly remarks?: readonly string[]
      /**
       * The server's processes, where they run on this machine: loads then tell how long they were
       * kept from a core.
       */
      readonly serverPids?: () => readonly number[]
    }
  | { readonly kind: 'virtual'; readonly server: VirtualServer }

/** One of several servers that share the load. */
export interface SpreadServer {
  readonly url: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Of all weights together its share of the requests. */
  readonly weight: number
}

/** A server in virtual time. State (queues, warm-up) lasts from one call to the next. */
export interface VirtualServer {
  /** Plays a load from the server's current virtual time on, to its last answer. */
  play(load: Load): VirtualRun
  /**
   * What the server's own model expects, where it has one: where a search for the capacity may
   * begin.
   */
  expects?(slo: Pick<Slo, 'percentile' | 'limitMs'>): VirtualExpectation
  /**
   * Plays a load for nothing but the number of requests that fail or take longer than the limit; it
   * may end once they are more than `most`.
   */
  countOver?(load: Load, limitMs: number, most: number): OverCount
}
export interface VirtualExpectation {
  readonly capacityRps: number
  /** Rate at which the busiest stage is busy all the time. */
  readonly saturationRps: number
  /** The SLO percentile of requests that come one at a time, ms. */
  readonly idleMs: number
}
/** Requests played, those that failed or took longer, and the failed of them. */
export interface OverCount {
  readonly requests: number
  readonly over: number
  readonly failed: number
}
export interface VirtualRun {
  /** Intended send times from the run's start, ms, ascending. Length n. */
  readonly sentMs: Float64Array
  /** Latency of each request, ms; NaN = failed. Length n. */
  readonly latencyMs: Float64Array
  /** Failure class of the failed ones. */
  readonly failure: string
  /** Of streamed answers. */
  readonly stream?: StreamRun
}

/** What one load did, request by request, in the order of intended sends. */
export interface LoadRun {
  readonly load: Load
  /**
   * Intended send times from the run's start, ms, ascending; of a closed loop the actual ones.
   * Length n.
   */
  readonly sentMs: Float64Array
  /**
   * Latency from the intended send to the answer's last byte, ms; NaN = failed. Of a stream, once
   * seen through an SLO (slo.ts), what that counts. Length n.
   */
  readonly latencyMs: Float64Array
  /** Error class → count over the failed ones. */
  readonly errorKinds: Readonly<Record<string, number>>
  /** Requests of the schedule, sent or not. A closed loop has none beyond those it sent. */
  readonly planned: number
  /**
   * How much later than intended each request left, ms. Undefined where sends are exact: closed
   * loops, virtual time. Length n.
   */
  readonly lateMs?: Float64Array
  /**
   * When the generator's process did not run though it should have, ms from the run's start: start,
   * end, start, end, ...
   */
  readonly stallsMs?: Float64Array
  /** How late sends were against their intended time, p99 in ms; 0 for a closed loop. */
  readonly latenessP99Ms: number
  /** From the first intended send to the end of the sending window, seconds. */
  readonly seconds: number
  /** The whole of it, until the last answer, seconds. */
  readonly elapsedS: number
  /** Cores the generator was busy, 1 = one whole core; 0 in virtual time. */
  readonly generatorCores: number
  readonly machineWait?: MachineWait
  /**
   * Of HTTP/1.1: connections opened, those that the server closed, and requests sent once more
   * because it was closing theirs.
   */
  readonly connections?: {
    readonly opened: number
    readonly closed: number
    readonly retried: number
  }
  /**
   * When the load's `cut` ended it early, ms from its start: requests still under way count with
   * the age they had reached.
   */
  readonly cutMs?: number
  /** Of streamed answers. */
  readonly stream?: StreamRun
  /** Answers that the target asks to be looked into, until they are handed over. */
  readonly sampled?: readonly { readonly body: number; readonly answer: Uint8Array }[]
}

/**
 * Streamed answers, in the order of intended sends; NaN where there was none. Length n, but for the
 * gaps.
 */
export interface StreamRun {
  /**
   * Each from the intended send; the time per output token is the answer's mean, 0 for one token,
   * and NaN for an answer whose tokens came all at once.
   */
  readonly latenciesMs: Readonly<Record<LatencyMetric, Float64Array>>
  /** Output tokens. */
  readonly tokens: Float64Array
  /** Tokens of the prompts; NaN where neither server nor prompts tell. */
  readonly inputTokens?: Float64Array
  /** Names of their classes, where requests have some; undefined where one was never sent. */
  readonly classes?: readonly (string | undefined)[]
  /** Gaps between tokens, of all answers. */
  readonly gapsMs: Float64Array
}

/**
 * Applies loads and reports. Rejects only when the signal aborts or the load is unusable; a bad
 * server is a load point with errors.
 */
export interface LoadGenerator {
  readonly name: string
  /** One load, request by request. One at a time per generator. */
  play(target: Target, load: Load, signal: AbortSignal): Promise<LoadRun>
  /** One load, summarised against an SLO. */
  run(target: Target, load: Load, slo: Slo, signal: AbortSignal): Promise<LoadPoint>
  /** Lets time pass without load. Absent: by the machine's clock. */
  rest?(target: Target, seconds: number, signal: AbortSignal): Promise<void>
  /** Ends the generator's process and sockets. Idempotent. */
  close(): Promise<void>
}

/** Why a capacity search ended. */
export type CapacityOutcome =
  | 'converged' // the interval is narrow enough
  | 'slo-unattainable' // even one request at a time misses the SLO: capacity 0
  | 'errors' // the server fails requests beyond the bound at any load
  | 'budget' // time or requests ran out first; the interval says how far it got
  | 'unsettled' // the server was still getting faster, or slower, when the time was up: `change` says by how much
  | 'generator-limit' // the generator, not the server, was the limit: capacity is a lower bound
  | 'disturbed' // the machine spoilt the windows, and those played in their place: nothing is known
  | 'beaten' // cut short: certainly worse than the best so far; capacity is an upper bound
  | 'server-died'
  | 'imported' // read from another tool's results: there was no search, only the loads that it tells of

/** A capacity, and how it is known. Every search for one ends with it. */
export interface Capacity {
  /** Highest offered rate whose SLO percentile keeps the SLO; 0 when none was seen to. */
  readonly capacityRps: number
  /**
   * 90 % interval of the capacity; its upper end is Infinity where no load missed the SLO: a lower
   * bound is all that is known.
   */
  readonly capacityCi90Rps: readonly [number, number]
  readonly known: CapacityKnown
}

export type CapacityKnown =
  | 'held' // an open window (of imported results: a load) held the SLO at the interval's lower end, something bounds its upper one; or no rate keeps the SLO
  | 'bound below' // an open window held, and nothing says how much more the server does: at least
  | 'bound above' // no window held below the bound (capacity 0), or the search was cut short (capacity the bound): at most
  | 'nothing' // neither

/** What one trial measured. */
export interface Measurement extends Omit<Capacity, 'known'> {
  readonly outcome: CapacityOutcome
  /** Absent in old stores: see capacityOf. */
  readonly known?: CapacityKnown
  /**
   * Of a confirmation: with which certainty its windows prove that the SLO holds at the capacity, 0
   * to 1; looking after each of them does not lower it.
   */
  readonly sure?: number
  /**
   * Of an unsettled server: its speed at the end over that at the beginning, 1.12 = 12 % faster.
   */
  readonly change?: number
  /** The SLO the search was made for. */
  readonly slo: Slo
  /** The server's own metrics at the capacity, where they are asked for. */
  readonly metrics?: readonly MetricReading[]
  /** One request at a time. */
  readonly idle: LatencySummary
  /** Rate of a saturated closed loop, whatever its latency. */
  readonly saturationRps: number
  /** Every load point measured, in time order: the load curve. */
  readonly points: readonly LoadPoint[]
  readonly requests: number
  readonly seconds: number
  /**
   * Requests of the warm-up, and those after which the server answered no more and more. Absent of
   * streamed answers, confirmations, simulations.
   */
  readonly warmUp?: { readonly requests: number; readonly steadyAfter: number }
  /** Of a confirmation of which measurements disagree: how. Absent: they agree. */
  readonly variation?: Variation
  /** Evidence in one line for outcomes other than 'converged'. */
  readonly detail?: string
  /** Things the reader of the figure must know (generator shared the cores, ...). */
  readonly caveats: readonly string[]
}

/** How the windows of a confirmation at one rate varied, where measurements disagree. */
export interface Variation {
  /** What shows that they disagree, a sentence each. */
  readonly found: readonly string[]
  readonly windows: number
  /** Wall clock from the first of them to the end of the last, seconds. */
  readonly spanS: number
  /** Lowest and highest SLO percentile of a window, ms. */
  readonly sloMs: readonly [number, number]
  /** Lowest and highest speed of the server in a window, over that in the first one. */
  readonly speed: readonly [number, number]
}

/** Receives why a server is not ready yet, in its own words. */
export type OnReason = (reason: string) => void

/** Everything protocol-specific: readiness, metadata, bodies, good answers. */
export interface Protocol {
  /** As protocols/protocol-table.ts has it. */
  readonly name: string
  /**
   * Resolves true when the health endpoint says that it can answer; `onReason` receives what it
   * says when it cannot. Never throws for a server that is not up
   * yet; a ProtocolError for an untrusted certificate, and for one without the HTTP/2 asked for.
   */
  ready(url: string, model: string, signal: AbortSignal, onReason?: OnReason): Promise<boolean>
  /**
   * Reads metadata, makes a payload pool, sends one request and checks the answer. Throws
   * ProtocolError naming what was wrong, with the server's own message.
   */
  prepare(
    url: string,
    model: string,
    payload: PayloadSource,
    signal: AbortSignal,
  ): Promise<Extract<Target, { kind: 'http' }>>
  /**
   * What to say when the server speaks another protocol: "this looks like TensorFlow Serving; use
   * --protocol tfserving". Undefined otherwise.
   */
  looksLike?(url: string, model: string, signal: AbortSignal): Promise<string | undefined>
  /**
   * What a server that is up and not ready answers, and what to do, where waiting is of no use: it
   * wants to know who asks, or does not know the path.
   */
  whyNever?(
    url: string,
    model: string,
    signal: AbortSignal,
  ): Promise<{ readonly what: string; readonly hint: string } | undefined>
  /**
   * What to say when the server lists its models and this one is none of them; undefined where it
   * lists none.
   */
  whyNoModel?(
    url: string,
    model: string,
    signal: AbortSignal,
  ): Promise<{ readonly what: string; readonly hint: string } | undefined>
  /** How answers are read for what they say. Absent: nobody reads them. */
  readonly answers?: AnswerReading
}

/** Answers read for their meaning, beside any load. */
export interface AnswerReading {
  /** Their whole result is the model's: tensors. Else a server may tell of itself in it. */
  readonly tensors: boolean
  /**
   * Sends one of a target's bodies, by its number, and resolves with the answer's bytes. Throws a
   * ProtocolError for one that is not answered.
   */
  ask(
    target: Extract<Target, { kind: 'http' }>,
    body: number,
    signal: AbortSignal,
  ): Promise<Uint8Array>
  /** Throws for bytes that are no answer. */
  read(answer: Uint8Array): Promise<Answered>
  /** An answer that stands in a file, as `read` has its document. */
  of(document: unknown): Promise<Answered>
}

/** An answer as a document, and what of it depends on the request alone. */
export interface Answered {
  /** As the protocol's REST form has it; of a stream of tokens {text, model}. */
  readonly document: unknown
  readonly result: unknown
  /**
   * A text of a language model: rounding alone sends two servers different ways after some words,
   * so that its beginning is what is compared.
   */
  readonly generated?: true
}
