/**
 * Capacity of a language-model server under an SLO in closed form: an approximation of the
 * simulation, in microseconds of computing time. The capacity is the highest rate at which the
 * predicted latencies meet the SLO.
 */

import type { LatencyMetric } from '../../../profiler/model/latency-metrics.ts'
import { computeSloLatency, type Slo } from '../../../profiler/model/slo.ts'
import type { PredictedCapacity } from './estimated-capacity.ts'
import { getQuantile, type Lengths } from './llm-load.ts'
import { predictPoolLatencies, predictPrefillMs, solveDecodeState } from './llm-pool-latencies.ts'
import {
  type LlmQueueing,
  predictAdmissionMs,
  predictRestOfStepMs,
  predictSlowTokenMs,
  solveSteadyState,
} from './llm-steady-state.ts'
import { computeNormalQuantile, computeWaitQuantileMs } from './queue-waits.ts'

/**
 * Quantiles q of the latencies, ms; undefined beyond saturation.
 * @param lengths lengths of the requests whose latencies are predicted, e.g. of one class
 */
function predictLlmLatencies(
  model: LlmQueueing,
  rateRps: number,
  q: number,
  lengths: Lengths,
): Record<LatencyMetric, number> | undefined {
  const { server, load } = model
  if (server.pools !== undefined)
    return predictPoolLatencies(model, server.pools, rateRps, q, lengths)
  const state = solveSteadyState(model, rateRps)
  if (state === undefined) return undefined
  const { arrivalsPerMs, sequences, tokenMs, promptShare, groupSize, steps } = state
  const { meanOutputTokens, meanPromptTokens, promptCv2 } = load
  const { promptsApart } = server.limits
  const z = computeNormalQuantile(q)

  // Prompt groups interrupt an answer. Their number is taken for a Poisson variable, so its
  // standard deviation is the root of its mean.
  const groupMs = steps.promptGroupMs(groupSize * meanPromptTokens, groupSize, sequences)
  const groupsPerAnswer = Math.max(0, (arrivalsPerMs * meanOutputTokens * tokenMs) / groupSize)
  const promptsExtraMs = (z * groupMs * Math.sqrt(groupsPerAnswer)) / meanOutputTokens
  const tpot = predictSlowTokenMs(state, z, promptsExtraMs)

  // Requests queue for the host, and then prompt groups for the GPU.
  const { frontMs } = server
  const hostQueue = { serviceMs: frontMs, utilization: arrivalsPerMs * frontMs, serviceCv2: 0 }
  const promptQueue = { serviceMs: groupMs, utilization: promptShare, serviceCv2: promptCv2 }
  const waitsMs = computeWaitQuantileMs(promptQueue, q) + computeWaitQuantileMs(hostQueue, q)
  // A server with separate prompt steps waits until the group is complete. The first prompt of the
  // group waits longest: a request waits the share q of its time.
  const gatheringMs = promptsApart && groupSize > 1 ? (q * (groupSize - 1)) / arrivalsPerMs : 0
  // A long prompt, with mean ones in its group.
  const longGroupTokens = getQuantile(lengths.prompts, q) + (groupSize - 1) * meanPromptTokens
  const longGroupMs = steps.promptGroupMs(longGroupTokens, groupSize, sequences)
  // With chunked prefill, the time of the group is an extension of a decoding step.
  const decodingMs = promptsApart ? 0 : steps.decodeMs(sequences)
  const ttft =
    frontMs +
    predictRestOfStepMs(state, q) +
    decodingMs +
    longGroupMs +
    waitsMs +
    gatheringMs +
    predictAdmissionMs(state, meanOutputTokens, q)
  return { ttft, tpot, e2e: ttft + Math.max(0, getQuantile(lengths.outputs, q) - 1) * tokenMs }
}

/** A rate at which requests do not meet: latencies are those of an unloaded server. */
const unloadedRps = 1e-4
const maxRps = 1e5

/** Bisects the highest rate with a property that all lower rates have too, to 0.5 %. */
function bisectMaxRate(hasProperty: (rateRps: number) => boolean): number {
  let [low, high] = [unloadedRps, maxRps]
  while (high / low > 1.005) {
    const middle = Math.sqrt(low * high)
    if (hasProperty(middle)) low = middle
    else high = middle
  }
  return low
}

/** Finds the highest rate that the server sustains, whatever the latencies. */
export function findSaturationRps(model: LlmQueueing): number {
  const { pools } = model.server
  if (pools === undefined)
    return bisectMaxRate((rate) => solveSteadyState(model, rate) !== undefined)
  return bisectMaxRate(
    (rate) =>
      predictPrefillMs(model, pools.prefill, rate, 1, 0.5) !== undefined &&
      solveDecodeState(model, pools, rate) !== undefined,
  )
}

/** From this share of the saturation rate on, the GPU limits the capacity rather than the SLO. */
const gpuBoundShare = 0.8

/**
 * Predicts the capacity by slowdown of the whole server: with everything s times as slow, rate r /
 * s has s times the latencies of rate r, so all slowdowns share their results. Under a joint SLO,
 * the same requests are assumed to violate all limits.
 */
export function predictLlmCapacities(
  model: LlmQueueing,
  slo: Pick<Slo, 'percentile' | 'limitMs' | 'metric' | 'limits' | 'classes'>,
): (slowdown?: number) => PredictedCapacity {
  const { percentile, limitMs, classes = [] } = slo
  const sloClasses = model.load.classes.filter(({ name }) => classes.includes(name))
  const computeSloMs = (rateRps: number, lengths: Lengths, className?: string): number => {
    const latencies = predictLlmLatencies(model, rateRps, percentile, lengths)
    return latencies === undefined
      ? Number.POSITIVE_INFINITY
      : computeSloLatency(latencies, slo, className)
  }
  const sloMsByRate = new Map<number, number>()
  /** Gets the latency that the SLO counts, of its worst class; infinite beyond saturation. */
  const getSloMs = (rateRps: number): number => {
    const cachedMs = sloMsByRate.get(rateRps)
    if (cachedMs !== undefined) return cachedMs
    const sloMs =
      sloClasses.length > 0
        ? Math.max(...sloClasses.map((one) => computeSloMs(rateRps, one, one.name)))
        : computeSloMs(rateRps, model.load)
    sloMsByRate.set(rateRps, sloMs)
    return sloMs
  }
  const saturationRps = findSaturationRps(model)
  return (slowdown = 1) => {
    const unloadedMs = slowdown * getSloMs(unloadedRps)
    const common = { saturationRps: saturationRps / slowdown, unloadedMs }
    if (unloadedMs > limitMs) return { ...common, capacityRps: 0, binding: 'slo' }
    const capacityRps = bisectMaxRate((rate) => slowdown * getSloMs(rate) <= limitMs) / slowdown
    return {
      ...common,
      capacityRps,
      binding: capacityRps < gpuBoundShare * common.saturationRps ? 'slo' : 'gpu',
    }
  }
}
