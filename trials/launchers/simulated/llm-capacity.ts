/**
 * Capacity of a language-model server under an SLO in closed form: the highest rate at which the
 * predicted latencies meet the SLO. It approximates the simulation in microseconds.
 */

import type { LatencyMetric } from '../../../profiler/model/latency-metrics.ts'
import { computeSloLatency, type Slo } from '../../../profiler/model/slo.ts'
import type { PredictedCapacity } from './estimated-capacity.ts'
import { getQuantile, type Lengths } from './llm-load.ts'
import { predictPoolLatencies, predictPrefillMs, solveDecodeState } from './llm-pool-latencies.ts'
import {
  type LlmQueueing,
  predictAdmissionMs,
  predictResidualStepMs,
  predictTpotAtZ,
  solveSteadyState,
} from './llm-steady-state.ts'
import { computeNormalQuantile, computeWaitQuantileMs } from './queue-waits.ts'

/**
 * Predicts the q-quantiles of TTFT, TPOT and end-to-end latency, ms; undefined above saturation.
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
  // See `SteadyState`: prefill takes `prefillShare` of the time, in batches of `prefillBatchSize`.
  const { arrivalsPerMs, sequences, tokenMs, prefillShare, prefillBatchSize, steps } = state
  const { meanOutputTokens, meanPromptTokens, promptCv2 } = load
  const { separatePrefill } = server.limits
  const z = computeNormalQuantile(q)

  // Prefill batches interrupt an answer. Their number per answer is modelled as a Poisson variable,
  // so its standard deviation is the root of its mean.
  const batchMs = steps.prefillBatchMs(
    prefillBatchSize * meanPromptTokens,
    prefillBatchSize,
    sequences,
  )
  const batchesPerAnswer = Math.max(
    0,
    (arrivalsPerMs * meanOutputTokens * tokenMs) / prefillBatchSize,
  )
  /** Prefill time per output token that an answer has above the mean, at z standard deviations. */
  const prefillExtraMs = (z * batchMs * Math.sqrt(batchesPerAnswer)) / meanOutputTokens
  const tpot = predictTpotAtZ(state, z, prefillExtraMs)

  // Two queues in series: requests at the host, then prefill batches at the GPU.
  const { hostMs } = server
  const hostQueue = { serviceMs: hostMs, utilization: arrivalsPerMs * hostMs, serviceCv2: 0 }
  const promptQueue = { serviceMs: batchMs, utilization: prefillShare, serviceCv2: promptCv2 }
  const waitsMs = computeWaitQuantileMs(promptQueue, q) + computeWaitQuantileMs(hostQueue, q)
  // A server with separate prefill steps waits until the batch is complete: its first prompt for
  // the prefillBatchSize - 1 that follow. A request at quantile q waits the share q of that.
  const gatheringMs =
    separatePrefill && prefillBatchSize > 1 ? (q * (prefillBatchSize - 1)) / arrivalsPerMs : 0
  // Prefill time of a batch with one q-quantile prompt and otherwise mean prompts.
  const longBatchTokens =
    getQuantile(lengths.prompts, q) + (prefillBatchSize - 1) * meanPromptTokens
  const longBatchMs = steps.prefillBatchMs(longBatchTokens, prefillBatchSize, sequences)
  // With chunked prefill, the batch only extends a decoding step, whose own time is added.
  const decodingMs = separatePrefill ? 0 : steps.decodeMs(sequences)
  const ttft =
    hostMs +
    predictResidualStepMs(state, q) +
    decodingMs +
    longBatchMs +
    waitsMs +
    gatheringMs +
    predictAdmissionMs(state, meanOutputTokens, q)
  return { ttft, tpot, e2e: ttft + Math.max(0, getQuantile(lengths.outputs, q) - 1) * tokenMs }
}

/** At this rate requests do not overlap: latencies are those of an unloaded server. */
const unloadedRps = 1e-4
const maxRps = 1e5

/**
 * Bisects to 0.5 % for the highest rate with a monotone property: if a rate has it, so do all lower
 * rates.
 */
function bisectMaxRate(hasProperty: (rateRps: number) => boolean): number {
  let [low, high] = [unloadedRps, maxRps]
  while (high / low > 1.005) {
    const middle = Math.sqrt(low * high)
    if (hasProperty(middle)) low = middle
    else high = middle
  }
  return low
}

/** Finds the highest rate that the server sustains, regardless of latencies. */
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

/** From this share of the saturation rate on, the GPU rather than the SLO limits the capacity. */
const gpuBoundShare = 0.8

/**
 * Returns the capacity as a function of a slowdown factor s. A server s times slower has, at
 * rate r / s, s times the latencies of rate r, so one cache of latencies by rate serves every s.
 * Under a joint SLO, the same requests are assumed to violate all limits.
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
  /** Gets the SLO latency of the worst class; infinite above saturation. */
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
