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
   * Latency from the intended send to the last byte of the answer, ms; NaN for a failure. Of a
   * stream, once selected for an SLO (slo.ts), the latency that counts. Length n.
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
  /**
   * Pauses of the generator's process, ms from the start of the run: start, end, start, end, ...
   */
  readonly generatorPausesMs?: Float64Array
  /** Lateness of sends against their intended time, p99 in ms; 0 for a closed loop. */
  readonly latenessP99Ms: number
  /** From the first intended send to the end of the sending window, seconds. */
  readonly seconds: number
  /** Until the last answer, seconds. */
  readonly elapsedS: number
  /** Busy cores of the generator, 1 = one whole core; 0 in virtual time. */
  readonly generatorCores: number
  readonly machineWait?: MachineWait
  /**
   * HTTP/1.1 connections opened, connections closed by the server, and requests sent again because
   * it was closing theirs.
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
  /** Sampled answers that the target requested, until they are passed on. */
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
export interface MachineWait {
  /**
   * Share of time in which processes of the server were runnable while others held the core; for a
   * server with more threads than cores, the mean over its cores.
   */
  readonly server?: number
  /** The same for the load generator. */
  readonly generator?: number
  /** Mean wait of the generator each time it got a core, ms: its addition to a latency. */
  readonly generatorMs?: number
  /**
   * Time for which the generator waited for cores that the server or the generator itself used, ms.
   */
  readonly behindServerMs?: number
  /** Share of CPU time that the hypervisor withheld (steal time). */
  readonly stolen?: number
}
