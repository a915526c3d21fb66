/**
 * Closed-form capacity of a language-model server under an SLO: an approximation of the simulation,
 * in microseconds. Steady state of continuous batching: with rate λ, prompts of P tokens and
 * answers of O, prompts take a share u of the time, decoding steps the rest, and λ O T sequences
 * decode at once (Little's law) with T the time per output token. With speculative decoding a step
 * verifies γ + 1 tokens of each answer and accepts some of them. With disaggregated pools, prefill
 * servers are a queue without answers, and decode servers one without prompts.
 */

import type { LatencyMetric } from '../../../profiler/model/latency-metrics.ts'
import { computeSloLatency, type Slo } from '../../../profiler/model/slo.ts'
import { computeMeanTokens, computeTokensVariance } from '../../predictor/llm/speculation.ts'
import type { PredictedCapacity } from './estimated-capacity.ts'
import type { LlmRequest } from './llm-configuration.ts'
import type { LlmPools, ModelledLlm } from './llm-pools.ts'
import { countCachedTokens } from './prefix-cache.ts'

/** Moments of the load: lengths in tokens. */
export interface LlmLoad {
  /** Mean prompt length without prefix-cache hits. */
  readonly meanPrompt: number
  readonly meanOutput: number
  /** Mean cache use of a sequence over its time. */
  readonly meanHeld: number
  /** Mean cache use of a sequence at its end. */
  readonly meanReserved: number
  /** Squared coefficient of variation of the prompts to compute. */
  readonly promptCv2: number
  readonly prompts: Float64Array
  readonly outputs: Float64Array
  /** The same of each class of requests. */
  readonly classes: readonly (Lengths & { readonly name: string })[]
}

/** In tokens, ascending. */
interface Lengths {
  readonly prompts: Float64Array
  readonly outputs: Float64Array
}

/** @param caches whether the server has a prefix cache */
export function summariseLlmLoad(requests: readonly LlmRequest[], caches = true): LlmLoad {
  const found = caches ? countCachedTokens(requests) : []
  const lengths = (of: (request: LlmRequest) => boolean): Lengths => {
    const own = requests.flatMap((request, i) =>
      of(request) ? [{ ...request, found: found[i] ?? 0 }] : [],
    )
    const prompts = Float64Array.from(
      own,
      (request) => request.promptTokens - Math.min(request.found, request.promptTokens - 1),
    )
    return {
      prompts: prompts.sort(),
      outputs: Float64Array.from(own, ({ outputTokens }) => outputTokens).sort(),
    }
  }
  const { prompts, outputs } = lengths(() => true)
  const names = [...new Set(requests.flatMap(({ requestClass }) => requestClass ?? []))]
  const classes = names.map((name) => ({
    name,
    ...lengths(({ requestClass }) => requestClass === name),
  }))
  const mean = (of: (request: LlmRequest, i: number) => number) =>
    requests.reduce((sum, r, i) => sum + of(r, i), 0) / requests.length
  const meanPrompt = prompts.reduce((sum, p) => sum + p, 0) / prompts.length
  const meanOutput = mean(({ outputTokens }) => outputTokens)
  // Long answers weigh more: a sequence stays in proportion to its answer's length.
  const meanHeld =
    mean(({ promptTokens, outputTokens }) => outputTokens * (promptTokens + outputTokens / 2)) /
    meanOutput
  const meanReserved =
    mean(({ promptTokens, outputTokens }) => outputTokens * (promptTokens + outputTokens)) /
    meanOutput
  const variance = prompts.reduce((sum, p) => sum + (p - meanPrompt) ** 2, 0) / prompts.length
  return {
    meanPrompt,
    meanOutput,
    meanHeld,
    meanReserved,
    promptCv2: variance / meanPrompt ** 2,
    prompts,
    outputs,
    classes,
  }
}

const getQuantile = (ascending: Float64Array, q: number): number =>
  ascending[Math.min(ascending.length - 1, Math.floor(q * ascending.length))]!

/** Standard normal quantile (Winitzki 2008, by his approximation of erf⁻¹): accurate to 1 %. */
export function computeNormalQuantile(p: number): number {
  const x = 2 * p - 1
  const ln = Math.log(1 - x * x)
  const a = 2 / (Math.PI * 0.147) + ln / 2
  return Math.sign(x) * Math.sqrt(2) * Math.sqrt(Math.sqrt(a * a - ln / 0.147) - a)
}

interface LlmQueueing {
  readonly server: Pick<ModelledLlm, 'limits' | 'stepMs' | 'frontMs' | 'pools'>
  readonly load: LlmLoad
}

/**
 * Tokens of each answer in a step: computed ones, the mean of accepted ones, and the deviation of
 * an answer's mean.
 */
function describeStep({ limits: { speculation } }: LlmQueueing['server'], meanOutput: number) {
  if (speculation === undefined) return { drafts: 0, kept: 1, spread: 0 }
  const [mean, variance] = [computeMeanTokens(speculation), computeTokensVariance(speculation)]
  // The last step of an answer overshoots by E[k (k − 1)] / 2 E[k] tokens (renewal theory).
  const overshoot = (variance + mean ** 2 - mean) / (2 * mean)
  // Steps of an answer of n tokens: a renewal process, of variance n σ² / μ³.
  return {
    drafts: speculation.tokens,
    kept: mean / (1 + overshoot / meanOutput),
    spread: Math.sqrt(variance / (mean * meanOutput)),
  }
}

/** The steady state at a rate; undefined beyond saturation. */
function solveSteadyState({ server, load }: LlmQueueing, rateRps: number) {
  const { limits, stepMs, frontMs } = server
  const perMs = rateRps / 1000
  const { meanPrompt, meanOutput, meanHeld, meanReserved } = load
  const { promptsApart, reserves, maxSequences, cacheTokens, maxBatchedTokens } = limits
  const places = Math.min(maxSequences, cacheTokens / (reserves ? meanReserved : meanHeld))
  const { drafts, kept, spread } = describeStep(server, meanOutput)
  const decoding = (n: number) => {
    const decodes = Math.max(1, Math.round(n))
    return { decodes, decodeContext: Math.max(1, n) * meanHeld, drafts: decodes * drafts }
  }
  const decodeMs = (n: number) => stepMs({ prefillTokens: 0, ...decoding(n) })
  // Time that prompts add, in prefill steps or in steps shared with decoding.
  const promptsMs = (tokens: number, n: number, prompts: number) => {
    if (tokens === 0) return 0
    const room = Math.max(1, maxBatchedTokens - (promptsApart ? 0 : n * (1 + drafts)))
    const pieces = Math.max(1, Math.ceil(tokens / room))
    const work = { prefillTokens: tokens / pieces, prompts: Math.max(1, prompts / pieces) }
    if (promptsApart)
      return pieces * stepMs({ ...work, decodes: 0, decodeContext: 0, heldUp: Math.round(n) })
    return pieces * (stepMs({ ...work, ...decoding(n) }) - decodeMs(n))
  }
  // Prompts that come to be computed together: those of the time between steps, or those that are
  // waited for.
  const gathered = (n: number, tokenMs: number) => {
    const came = perMs * tokenMs * kept
    return Math.max(
      1,
      promptsApart
        ? Math.min(
            Math.max(came, promptsApart.waitingShare * n),
            came * Math.max(1, promptsApart.decodingSteps),
          )
        : came,
    )
  }
  if (perMs * frontMs >= 1) return undefined
  let n = Math.min(places, (perMs * meanOutput * decodeMs(1)) / kept)
  let [tokenMs, share, together] = [decodeMs(n) / kept, 0, 1]
  for (let i = 0; i < 40; i++) {
    together = gathered(n, tokenMs)
    share = (perMs * promptsMs(together * meanPrompt, n, together)) / together
    if (share >= 1) return undefined
    tokenMs = decodeMs(n) / kept / (1 - share)
    const next = perMs * meanOutput * tokenMs
    if (next > 4 * places) return undefined
    n += 0.5 * (next - n)
  }
  // A step contains the prompts that arrived during the last one, and its decodes.
  if (
    n >= places ||
    (!promptsApart && perMs * meanPrompt * tokenMs * kept + n * (1 + drafts) >= maxBatchedTokens)
  )
    return undefined
  return { n, tokenMs, share, together, places, decodeMs, promptsMs, perMs, kept, spread }
}

/**
 * Prefill servers, round robin: quantile q of the time to compute a prompt of `longest` tokens, ms;
 * undefined beyond saturation. A step takes the prompts that arrived during the last one, up to its
 * token limit. Low load is a queue of prompts; high load waits for the rest of one step. The
 * smaller of the two applies.
 */
function predictPrefillMs(
  { server: { limits, stepMs, frontMs }, load }: LlmQueueing,
  servers: number,
  rateRps: number,
  longest: number,
  q: number,
): number | undefined {
  const perMs = rateRps / servers / 1000
  // Round robin: each server gets every n-th arrival.
  const arrivalCv2 = 1 / servers
  const { meanPrompt, promptCv2 } = load
  const stepsMs = (prompts: number, tokens = prompts * meanPrompt) => {
    const pieces = Math.max(1, Math.ceil(tokens / limits.maxBatchedTokens))
    return (
      pieces *
      stepMs({
        prefillTokens: tokens / pieces,
        prompts: Math.max(1, prompts / pieces),
        decodes: 0,
        decodeContext: 0,
      })
    )
  }
  const most = Math.max(1, limits.maxBatchedTokens / meanPrompt)
  const computeShare = (prompts: number) => (perMs * stepsMs(prompts)) / prompts
  if (perMs * frontMs >= 1 || computeShare(most) >= 1) return undefined
  let came = 1
  for (let i = 0; i < 20; i++)
    came += 0.5 * (Math.max(1, Math.min(most, perMs * stepsMs(came))) - came)
  const own = (prompts: number) => stepsMs(prompts, longest + (prompts - 1) * meanPrompt)
  // Waits and lengths are at their worst each for itself: their deviations add up in squares.
  const both = (
    waits: { readonly mean: number; readonly most: number },
    computes: { readonly mean: number; readonly most: number },
  ) =>
    waits.mean + computes.mean + Math.hypot(waits.most - waits.mean, computes.most - computes.mean)
  const waiting = (serviceMs: number) => ({
    mean: (perMs * serviceMs ** 2 * (arrivalCv2 + promptCv2)) / (2 * (1 - perMs * serviceMs)),
    most: predictQueueMs(serviceMs, perMs * serviceMs, promptCv2, q, arrivalCv2),
  })
  const alone = stepsMs(1)
  const inTurn =
    perMs * alone < 1
      ? both(waiting(alone), { mean: alone, most: own(1) })
      : Number.POSITIVE_INFINITY
  // A further prompt delays others by its marginal time; the rest of a step delays once.
  const each = most > 1 ? (stepsMs(most) - alone) / (most - 1) : alone
  const step = stepsMs(came)
  const { mean, most: worst } = waiting(each)
  const gathered = Math.min(most, came + computeNormalQuantile(q) * Math.sqrt(came))
  const atOnce =
    came < 0.9 * most && perMs * each < 1
      ? both({ mean: mean + step / 2, most: worst + q * step }, { mean: step, most: own(gathered) })
      : Number.POSITIVE_INFINITY
  return frontMs + predictQueueMs(frontMs, perMs * frontMs, 0, q) + Math.min(inTurn, atOnce)
}

/** As `predictLlmLatencies`, of pools. */
function predictPoolLatencies(
  model: LlmQueueing,
  pools: LlmPools,
  rateRps: number,
  q: number,
  of: Lengths,
): Latencies | undefined {
  const { load } = model
  const decode = solveDecodeState(model, pools, rateRps)
  const longest = getQuantile(of.prompts, q)
  const computed = predictPrefillMs(model, pools.prefill, rateRps, longest, q)
  if (decode === undefined || computed === undefined) return undefined
  const { n, tokenMs, decodeMs } = decode
  const tpot = predictSlowestTokenMs(decode, computeNormalQuantile(q))
  const movedMs = pools.transferMs(load.meanPrompt)
  // Links of either end are busy with others' keys and values.
  const busiest = (rateRps / 1000 / Math.min(pools.prefill, pools.decode)) * movedMs
  if (busiest >= 1) return undefined
  const moves =
    pools.transferMs(longest) +
    predictQueueMs(movedMs, busiest, load.promptCv2, q) +
    pools.transfer.latencyMs
  // With fetched caches, an answer starts at the decode server like any request: after the rest of
  // a step, one step for the first token.
  const begins =
    pools.handOver === 'pushed' ? 0 : pools.decoder.frontMs + decodeMs(n) * (1 + q * Math.min(1, n))
  const ttft = computed + moves + begins + predictAdmissionMs(decode, load.meanOutput, q)
  return { ttft, tpot, e2e: ttft + Math.max(0, getQuantile(of.outputs, q) - 1) * tokenMs }
}

/** The steady state of one of the servers that make answers alone. */
const solveDecodeState = ({ load }: LlmQueueing, { decode, decoder }: LlmPools, rateRps: number) =>
  solveSteadyState({ server: decoder, load: { ...load, meanPrompt: 0 } }, rateRps / decode)

/**
 * One after the other: Pollaczek-Khinchine's mean, of arrivals that are no Poisson process
 * Kingman's (1961), and an exponential tail.
 */
const predictQueueMs = (
  serviceMs: number,
  busy: number,
  cv2: number,
  q: number,
  arrivalCv2 = 1,
): number =>
  busy > 0
    ? ((serviceMs * (arrivalCv2 + cv2)) / (2 * (1 - busy))) * Math.max(0, Math.log(busy / (1 - q)))
    : 0

/** Wait for admission: a queue with a server for each sequence slot (Sakasegawa 1977). */
function predictAdmissionMs({ n, places, tokenMs }: Steady, meanOutput: number, q: number): number {
  const busy = n / places
  const full =
    (busy ** (Math.sqrt(2 * (places + 1)) - 1) * meanOutput * tokenMs) / (places * (1 - busy))
  return full * Math.max(0, Math.log(busy / (1 - q)))
}

type Steady = NonNullable<ReturnType<typeof solveSteadyState>>
type Latencies = Record<LatencyMetric, number>

/**
 * Time per output token, ms, of an answer z standard deviations above the mean.
 * @param interrupted time that prompts add
 */
function predictSlowestTokenMs(
  { n, tokenMs, share, places, decodeMs, kept, spread }: Steady,
  z: number,
  interrupted = 0,
): number {
  // The number of concurrent sequences fluctuates over an answer's time.
  const crowded = Math.min(places, n + z * Math.sqrt(n))
  const crowdedMs = decodeMs(crowded) / kept / (1 - share)
  // Accepted drafts vary for each answer, concurrency for all: independent deviations add in
  // squares, the common one linearly.
  const luck = z * spread * tokenMs
  return tokenMs + Math.sign(z) * Math.hypot(crowdedMs + interrupted - tokenMs, luck)
}

/** Latency quantiles q, ms; undefined beyond saturation. */
function predictLlmLatencies(
  model: LlmQueueing,
  rateRps: number,
  q: number,
  of: Lengths = model.load,
): Latencies | undefined {
  if (model.server.pools !== undefined)
    return predictPoolLatencies(model, model.server.pools, rateRps, q, of)
  const state = solveSteadyState(model, rateRps)
  if (state === undefined) return undefined
  const { n, tokenMs, share, together, decodeMs, promptsMs, perMs } = state
  const { prompts, outputs } = of
  const { meanOutput, meanPrompt, promptCv2 } = model.load
  const z = computeNormalQuantile(q)
  const interruption = promptsMs(together * meanPrompt, n, together)
  const interrupted =
    (z * interruption * Math.sqrt(Math.max(0, (perMs * meanOutput * tokenMs) / together))) /
    meanOutput
  const tpot = predictSlowestTokenMs(state, z, interrupted)
  // One prompt after the other. So on the host before.
  const { frontMs } = model.server
  const waits =
    predictQueueMs(interruption, share, promptCv2, q) +
    predictQueueMs(frontMs, perMs * frontMs, 0, q)
  // Until as many have come as are computed together, at the latest.
  const gathering =
    model.server.limits.promptsApart && together > 1 ? (q * (together - 1)) / perMs : 0
  const under = decodeMs(n) * q * Math.min(1, n)
  const own = promptsMs(getQuantile(prompts, q) + (together - 1) * meanPrompt, n, together)
  const ttft =
    frontMs +
    under +
    (model.server.limits.promptsApart ? 0 : decodeMs(n)) +
    own +
    waits +
    gathering +
    predictAdmissionMs(state, meanOutput, q)
  return { ttft, tpot, e2e: ttft + Math.max(0, getQuantile(outputs, q) - 1) * tokenMs }
}

const lowestRps = 1e-4

function bisectMaxRate(holds: (rate: number) => boolean): number {
  let [low, high] = [lowestRps, 1e5]
  while (high / low > 1.005) {
    const middle = Math.sqrt(low * high)
    if (holds(middle)) low = middle
    else high = middle
  }
  return low
}

/** The saturation rate. */
export const findSaturationRps = (model: LlmQueueing): number => {
  const { pools } = model.server
  if (pools === undefined)
    return bisectMaxRate((rate) => solveSteadyState(model, rate) !== undefined)
  return bisectMaxRate(
    (rate) =>
      predictPrefillMs(model, pools.prefill, rate, 1, 0.5) !== undefined &&
      solveDecodeState(model, pools, rate) !== undefined,
  )
}

/**
 * The capacity at each slowdown, by bisection on the logarithm of the rate. Under a joint SLO, the
 * same requests are assumed to violate all limits. If everything takes s times as long, rate r/s
 * has s times the latencies of r, so results are shared between slowdowns.
 */
export function predictLlmCapacities(
  model: LlmQueueing,
  slo: Pick<Slo, 'percentile' | 'limitMs' | 'metric' | 'limits' | 'classes'>,
): (slowdown?: number) => PredictedCapacity {
  const { percentile, limitMs, classes = [] } = slo
  const sloClasses = model.load.classes.filter(({ name }) => classes.includes(name))
  const getCached = (rate: number, of?: (typeof sloClasses)[number]): number => {
    const latencies = predictLlmLatencies(model, rate, percentile, of)
    return latencies === undefined
      ? Number.POSITIVE_INFINITY
      : computeSloLatency(latencies, slo, of?.name)
  }
  const known = new Map<number, number>()
  /** As the SLO counts them, of the worst class; infinite beyond saturation. */
  const countedAt = (rate: number): number => {
    let ms = known.get(rate)
    if (ms === undefined) {
      ms =
        sloClasses.length > 0
          ? Math.max(...sloClasses.map((of) => getCached(rate, of)))
          : getCached(rate)
      known.set(rate, ms)
    }
    return ms
  }
  const saturationRps = findSaturationRps(model)
  return (slowdown = 1) => {
    const unloadedMs = slowdown * countedAt(lowestRps)
    const common = { saturationRps: saturationRps / slowdown, unloadedMs }
    if (unloadedMs > limitMs) return { ...common, capacityRps: 0, binding: 'slo' }
    const capacityRps = bisectMaxRate((rate) => slowdown * countedAt(rate) <= limitMs) / slowdown
    return {
      ...common,
      capacityRps,
      binding: capacityRps < 0.8 * common.saturationRps ? 'slo' : 'gpu',
    }
  }
}
