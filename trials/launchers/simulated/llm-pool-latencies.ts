/**
 * Latencies of disaggregated pools in closed form: a prefill server is a queue of prompts without
 * answers, and a decode server is one of answers without prompts.
 */

import type { LatencyMetric } from '../../../profiler/model/latency-metrics.ts'
import { getQuantile, type Lengths } from './llm-load.ts'
import type { LlmPools } from './llm-pools.ts'
import {
  type LlmQueueing,
  predictAdmissionMs,
  predictResidualStepMs,
  predictTpotAtZ,
  type SteadyState,
  solveSteadyState,
} from './llm-steady-state.ts'
import {
  computeMeanWaitMs,
  computeNormalQuantile,
  computeWaitQuantileMs,
  type Queue,
} from './queue-waits.ts'

/** Mean and quantile of a time, ms. */
interface TimeSummary {
  readonly mean: number
  readonly quantile: number
}

/** Quantile of a sum of independent times: their deviations from the mean add up in squares. */
const addIndependent = (a: TimeSummary, b: TimeSummary): number =>
  a.mean + b.mean + Math.hypot(a.quantile - a.mean, b.quantile - b.mean)

/**
 * Quantile q of the time from a request to the end of its prefill, ms; undefined beyond saturation.
 * A step takes the prompts that arrived during the last one, up to its token limit. At low load,
 * each prompt has its own step and waits for those before it. At high load, prompts share steps,
 * and each waits for the rest of one. The smaller of the two times applies.
 * @param servers prefill servers, which get the requests in turn
 * @param longTokens quantile q of the prompt lengths
 */
export function predictPrefillMs(
  { server: { limits, stepMs, hostMs }, load }: LlmQueueing,
  servers: number,
  rateRps: number,
  longTokens: number,
  q: number,
): number | undefined {
  const arrivalsPerMs = rateRps / servers / 1000
  const { meanPromptTokens, promptCv2 } = load
  const groupMs = (prompts: number, tokens = prompts * meanPromptTokens) => {
    const steps = Math.max(1, Math.ceil(tokens / limits.maxBatchedTokens))
    return (
      steps *
      stepMs({
        prefillTokens: tokens / steps,
        prompts: Math.max(1, prompts / steps),
        decodes: 0,
        decodeContext: 0,
      })
    )
  }
  /** Duration of a group that contains one prompt of `longTokens`, ms. */
  const longGroupMs = (prompts: number) =>
    groupMs(prompts, longTokens + (prompts - 1) * meanPromptTokens)
  const maxGroup = Math.max(1, limits.maxBatchedTokens / meanPromptTokens)
  const utilization = (arrivalsPerMs * groupMs(maxGroup)) / maxGroup
  if (arrivalsPerMs * hostMs >= 1 || utilization >= 1) return undefined

  const summariseWait = (serviceMs: number): TimeSummary => {
    const queue: Queue = {
      serviceMs,
      utilization: arrivalsPerMs * serviceMs,
      serviceCv2: promptCv2,
      // Every n-th arrival of a Poisson process: Erlang times with n phases.
      arrivalCv2: 1 / servers,
    }
    return { mean: computeMeanWaitMs(queue), quantile: computeWaitQuantileMs(queue, q) }
  }

  const singleMs = groupMs(1)
  const lowLoadMs =
    arrivalsPerMs * singleMs < 1
      ? addIndependent(summariseWait(singleMs), { mean: singleMs, quantile: longGroupMs(1) })
      : Number.POSITIVE_INFINITY

  // Fixed point: the prompts of a group are those that arrive while the last group is computed.
  let group = 1
  for (let i = 0; i < 20; i++)
    group += 0.5 * (Math.max(1, Math.min(maxGroup, arrivalsPerMs * groupMs(group))) - group)
  const largeGroup = Math.min(maxGroup, group + computeNormalQuantile(q) * Math.sqrt(group))
  const stepOfGroupMs = groupMs(group)
  // A further prompt in a step delays the others by its marginal time.
  const marginalMs = maxGroup > 1 ? (groupMs(maxGroup) - singleMs) / (maxGroup - 1) : singleMs
  const wait = summariseWait(marginalMs)
  // Groups that nearly fill a step leave prompts for the next one, which this case does not model.
  const highLoadMs =
    group < 0.9 * maxGroup && arrivalsPerMs * marginalMs < 1
      ? addIndependent(
          // The rest of the step under way is uniform between 0 and its time.
          {
            mean: wait.mean + stepOfGroupMs / 2,
            quantile: wait.quantile + q * stepOfGroupMs,
          },
          { mean: stepOfGroupMs, quantile: longGroupMs(largeGroup) },
        )
      : Number.POSITIVE_INFINITY

  const hostQueue = { serviceMs: hostMs, utilization: arrivalsPerMs * hostMs, serviceCv2: 0 }
  return hostMs + computeWaitQuantileMs(hostQueue, q) + Math.min(lowLoadMs, highLoadMs)
}

/** Solves the steady state of one of the decode servers, which compute no prompts. */
export const solveDecodeState = (
  { load }: LlmQueueing,
  { decode, decoder }: LlmPools,
  rateRps: number,
): SteadyState | undefined =>
  solveSteadyState({ server: decoder, load: { ...load, meanPromptTokens: 0 } }, rateRps / decode)

/** Quantiles q of the latencies, ms; undefined beyond saturation. */
export function predictPoolLatencies(
  model: LlmQueueing,
  pools: LlmPools,
  rateRps: number,
  q: number,
  lengths: Lengths,
): Record<LatencyMetric, number> | undefined {
  const { load } = model
  const decode = solveDecodeState(model, pools, rateRps)
  const longTokens = getQuantile(lengths.prompts, q)
  const prefillMs = predictPrefillMs(model, pools.prefill, rateRps, longTokens, q)
  if (decode === undefined || prefillMs === undefined) return undefined

  // Keys and values wait for those of other requests: on the links of the pool with fewer servers.
  const meanTransferMs = pools.transferMs(load.meanPromptTokens)
  const linkQueue: Queue = {
    serviceMs: meanTransferMs,
    utilization: (rateRps / 1000 / Math.min(pools.prefill, pools.decode)) * meanTransferMs,
    serviceCv2: load.promptCv2,
  }
  if (linkQueue.utilization >= 1) return undefined
  const transferMs =
    pools.transferMs(longTokens) + computeWaitQuantileMs(linkQueue, q) + pools.transfer.latencyMs

  // Where the decode server fetches the cache, it also generates the first token: after its own
  // host time and the rest of a step, in one step.
  const firstTokenMs =
    pools.handOver === 'pushed'
      ? 0
      : pools.decoder.hostMs +
        predictResidualStepMs(decode, q) +
        decode.steps.decodeMs(decode.sequences)
  const ttft =
    prefillMs + transferMs + firstTokenMs + predictAdmissionMs(decode, load.meanOutputTokens, q)
  return {
    ttft,
    tpot: predictTpotAtZ(decode, computeNormalQuantile(q)),
    e2e: ttft + Math.max(0, getQuantile(lengths.outputs, q) - 1) * decode.tokenMs,
  }
}
