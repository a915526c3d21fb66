import type { LatencyMetric } from './latency-metrics.ts'
import type { Load } from './load.ts'

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
