/** Raw record of a load, before an SLO is applied. */
import type { LatencyMetric } from './latency-metrics.ts'
import type { Load } from './load.ts'

/** Record of one load, request by request, in the order of intended sends. */
export interface LoadRun {
  readonly load: Load
  /**
   * Intended send times from the start of the run, ms, ascending; actual ones for a closed loop.
   * Length n.
   */
  readonly sentMs: Float64Array
  /**
   * Latency from the intended send to the last byte of the answer, ms; NaN for a failure. For
   * streamed answers, `selectSloLatencies` (slo.ts) replaces it by the latency that the SLO
   * constrains, for example the time to first token. Length n.
   */
  readonly latencyMs: Float64Array
  /** Error class → count of failed requests. */
  readonly errorKinds: Readonly<Record<string, number>>
  /** Requests of the schedule, sent or not; for a closed loop those it sent. */
  readonly planned: number
  /**
   * Delay of each send after its intended time, ms. Undefined where sends are exact: closed loops,
   * virtual time. Length n.
   */
  readonly lateMs?: Float64Array
  /** p99 of `lateMs`, ms; 0 for a closed loop. */
  readonly latenessP99Ms: number
  /**
   * Pauses of the generator's process, ms from the start of the run: start, end, start, end, ...
   */
  readonly generatorPausesMs?: Float64Array
  /** From the first intended send to the end of the sending window, seconds. */
  readonly seconds: number
  /** From the start of the run to the last answer, seconds. */
  readonly elapsedS: number
  /** Busy cores of the generator, 1 = one whole core; 0 in virtual time. */
  readonly generatorCores: number
  readonly machineWait?: CpuWait
  /**
   * HTTP/1.1 connections opened, connections closed by the server, and requests retried because the
   * server was closing their connection.
   */
  readonly connections?: {
    readonly opened: number
    readonly closed: number
    readonly retried: number
  }
  /**
   * Time at which `cut` ended the load early, ms from its start. Requests in progress count with
   * the age they had reached.
   */
  readonly cutMs?: number
  /** Present for streamed answers. */
  readonly stream?: StreamRun
  /**
   * Answers sampled for checks of their content. The HTTP generator passes them to
   * `target.sample.onSample` and removes them.
   */
  readonly answerSamples?: readonly { readonly body: number; readonly answer: Uint8Array }[]
}

/**
 * Streamed answers, in the order of intended sends; NaN for those without one. Length n, except the
 * gaps.
 */
export interface StreamRun {
  /**
   * Measured from the intended send. The time per output token is the mean of an answer: 0 for one
   * token, and NaN for an answer whose tokens arrived all at once.
   */
  readonly latenciesMs: Readonly<Record<LatencyMetric, Float64Array>>
  /** Output tokens. */
  readonly tokens: Float64Array
  /** Prompt tokens; NaN where neither server nor prompts report them. */
  readonly inputTokens?: Float64Array
  /** Class names, where requests have classes; undefined for requests that were never sent. */
  readonly classes?: readonly (string | undefined)[]
  /** Gaps between tokens, over all answers. */
  readonly gapsMs: Float64Array
}

/** Host interference in a window, as shares of its time, 0-1, where the system reports it. */
export interface CpuWait {
  /**
   * Share of time in which processes of the server were runnable while others held the core; for a
   * server with more threads than cores, the mean over its cores.
   */
  readonly server?: number
  /** The same for the load generator. */
  readonly generator?: number
  /**
   * Mean such wait of the generator each time it was scheduled on a core, ms. It adds to measured
   * latencies.
   */
  readonly generatorMs?: number
  /**
   * Time for which the generator waited for cores that the server or the generator itself used, ms.
   * It is no host interference.
   */
  readonly behindServerMs?: number
  /** Share of CPU time that the hypervisor withheld (steal time). */
  readonly stolen?: number
}
