/**
 * Capacity of a language model's server under an SLO in closed form: what the simulation would
 * find, in microseconds. Steady state of continuous batching: with rate λ, prompts of P tokens and
 * answers of O, prompts take a share u of the time, decoding steps the rest, and λ O T sequences
 * decode at once (Little's law) with T the time per output token. With drafts a step verifies γ + 1
 * tokens of each answer and keeps some of them on average. With pools of servers for prompts and
 * for answers each is such a queue of its own, the one without answers, the other without prompts.
 */

import type { LatencyMetric } from '../../../profiler/model/latency-metrics.ts'
import { computeSloLatency, type Slo } from '../../../profiler/model/slo.ts'
import { meanTokens, tokensVariance } from '../../predictor/llm/speculation.ts'
import type { PredictedCapacity } from './estimated-capacity.ts'
import type { LlmRequest } from './llm-configuration.ts'
import type { LlmPools, ModelledLlm } from './llm-pools.ts'
import { foundTokens } from './seen-beginnings.ts'

/** What the load comes to: lengths in tokens. */
export interface LlmLoad {
  /** Of the prompt, without what the cache of beginnings has. */
  readonly meanPrompt: number
  readonly meanOutput: number
  /** What a sequence holds of the cache, over its time. */
  readonly meanHeld: number
  /** What it will hold at its end. */
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

/** @param caches whether beginnings that were seen are not computed again */
export function llmLoad(requests: readonly LlmRequest[], caches = true): LlmLoad {
  const found = caches ? foundTokens(requests) : []
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
  // A sequence is there for as long as its answer is long: long answers weigh more.
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

const at = (ascending: Float64Array, q: number): number =>
  ascending[Math.min(ascending.length - 1, Math.floor(q * ascending.length))]!

/** Standard normal quantile (Winitzki 2008, by his approximation of erf⁻¹): good to 1 %. */
export function normalQuantile(p: number): number {
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
 * What a step does to each answer: tokens that it computes, those that it keeps on average, and how
 * far an answer's mean is from that.
 */
function stepOf({ limits: { speculation } }: LlmQueueing['server'], meanOutput: number) {
  if (speculation === undefined) return { drafts: 0, kept: 1, spread: 0 }
  const [mean, variance] = [meanTokens(speculation), tokensVariance(speculation)]
  // The last step of an answer keeps more than it lacks: of a renewal that overshoots, E[k (k − 1)]
  // / 2 E[k] tokens.
  const overshoot = (variance + mean ** 2 - mean) / (2 * mean)
  // Steps of an answer of n tokens: a renewal process, of variance n σ² / μ³.
  return {
    drafts: speculation.tokens,
    kept: mean / (1 + overshoot / meanOutput),
    spread: Math.sqrt(variance / (mean * meanOutput)),
  }
}

/** The steady state at a rate; undefined beyond saturation. */
function steady({ server, load }: LlmQueueing, rateRps: number) {
  const { limits, stepMs, frontMs } = server
  const perMs = rateRps / 1000
  const { meanPrompt, meanOutput, meanHeld, meanReserved } = load
  const { promptsApart, reserves, maxSequences, cacheTokens, maxBatchedTokens } = limits
  const places = Math.min(maxSequences, cacheTokens / (reserves ? meanReserved : meanHeld))
  const { drafts, kept, spread } = stepOf(server, meanOutput)
  const decoding = (n: number) => {
    const decodes = Math.max(1, Math.round(n))
    return { decodes, decodeContext: Math.max(1, n) * meanHeld, drafts: decodes * drafts }
  }
  const decodeMs = (n: number) => stepMs({ prefillTokens: 0, ...decoding(n) })
  // What so many prompts add together, in steps of their own or in those of what decodes meanwhile.
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
  // A step carries the prompts that came during it beside its decodes.
  if (
    n >= places ||
    (!promptsApart && perMs * meanPrompt * tokenMs * kept + n * (1 + drafts) >= maxBatchedTokens)
  )
    return undefined
  return { n, tokenMs, share, together, places, decodeMs, promptsMs, perMs, kept, spread }
}

/**
 * Servers that compute prompts alone, asked in turn: ms until all but 1 - q of the prompts are
 * computed, of which one has `longest` tokens; undefined beyond saturation. A step takes what came
 * while the last one ran, as far as its tokens go: little load is a queue of prompts, much load a
 * step after what is left of another, whichever is less.
 */
function prefillMs(
  { server: { limits, stepMs, frontMs }, load }: LlmQueueing,
  servers: number,
  rateRps: number,
  longest: number,
  q: number,
): number | undefined {
  const perMs = rateRps / servers / 1000
  // Asked in turn, each server sees every so many-th arrival.
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
  const shareOf = (prompts: number) => (perMs * stepsMs(prompts)) / prompts
  if (perMs * frontMs >= 1 || shareOf(most) >= 1) return undefined
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
    most: queued(serviceMs, perMs * serviceMs, promptCv2, q, arrivalCv2),
  })
  const alone = stepsMs(1)
  const inTurn =
    perMs * alone < 1
      ? both(waiting(alone), { mean: alone, most: own(1) })
      : Number.POSITIVE_INFINITY
  // What one more prompt adds to a step is what it makes others wait; the rest of a step is waited
  // for once.
  const each = most > 1 ? (stepsMs(most) - alone) / (most - 1) : alone
  const step = stepsMs(came)
  const { mean, most: worst } = waiting(each)
  const gathered = Math.min(most, came + normalQuantile(q) * Math.sqrt(came))
  const atOnce =
    came < 0.9 * most && perMs * each < 1
      ? both({ mean: mean + step / 2, most: worst + q * step }, { mean: step, most: own(gathered) })
      : Number.POSITIVE_INFINITY
  return frontMs + queued(frontMs, perMs * frontMs, 0, q) + Math.min(inTurn, atOnce)
}

/** As `llmLatencies`, of pools. */
function pooledLatencies(
  model: LlmQueueing,
  pools: LlmPools,
  rateRps: number,
  q: number,
  of: Lengths,
): Latencies | undefined {
  const { load } = model
  const decode = answering(model, pools, rateRps)
  const longest = at(of.prompts, q)
  const computed = prefillMs(model, pools.prefill, rateRps, longest, q)
  if (decode === undefined || computed === undefined) return undefined
  const { n, tokenMs, decodeMs } = decode
  const tpot = slowestTokenMs(decode, normalQuantile(q))
  const movedMs = pools.transferMs(load.meanPrompt)
  // Links of either end are busy with others' keys and values.
  const busiest = (rateRps / 1000 / Math.min(pools.prefill, pools.decode)) * movedMs
  if (busiest >= 1) return undefined
  const moves =
    pools.transferMs(longest) +
    queued(movedMs, busiest, load.promptCv2, q) +
    pools.transfer.latencyMs
  // Fetched, the answer begins at its server as any request, with a step for the first token after
  // what is left of another.
  const begins =
    pools.handOver === 'pushed' ? 0 : pools.decoder.frontMs + decodeMs(n) * (1 + q * Math.min(1, n))
  const ttft = computed + moves + begins + admission(decode, load.meanOutput, q)
  return { ttft, tpot, e2e: ttft + Math.max(0, at(of.outputs, q) - 1) * tokenMs }
}

/** The steady state of one of the servers that make answers alone. */
const answering = ({ load }: LlmQueueing, { decode, decoder }: LlmPools, rateRps: number) =>
  steady({ server: decoder, load: { ...load, meanPrompt: 0 } }, rateRps / decode)

/**
 * One after the other: Pollaczek-Khinchine's mean, of arrivals that are no Poisson process
 * Kingman's (1961), and an exponential tail.
 */
const queued = (serviceMs: number, busy: number, cv2: number, q: number, arrivalCv2 = 1): number =>
  busy > 0
    ? ((serviceMs * (arrivalCv2 + cv2)) / (2 * (1 - busy))) * Math.max(0, Math.log(busy / (1 - q)))
    : 0

/** For a place: many servers, each held for an answer (Sakasegawa 1977). */
function admission({ n, places, tokenMs }: Steady, meanOutput: number, q: number): number {
  const busy = n / places
  const full =
    (busy ** (Math.sqrt(2 * (places + 1)) - 1) * meanOutput * tokenMs) / (places * (1 - busy))
  return full * Math.max(0, Math.log(busy / (1 - q)))
}

type Steady = NonNullable<ReturnType<typeof steady>>
type Latencies = Record<LatencyMetric, number>

/**
 * Time per output token, ms, of an answer that is z deviations off the mean. @param interrupted
 * what prompts add to it
 */
function slowestTokenMs(
  { n, tokenMs, share, places, decodeMs, kept, spread }: Steady,
  z: number,
  interrupted = 0,
): number {
  // Arrivals bunch: over an answer's time there are now more, now fewer others.
  const crowded = Math.min(places, n + z * Math.sqrt(n))
  const crowdedMs = decodeMs(crowded) / kept / (1 - share)
  // How many drafts an answer keeps is its own luck, crowds are not: apart they add up, together as
  // their squares do.
  const luck = z * spread * tokenMs
  return tokenMs + Math.sign(z) * Math.hypot(crowdedMs + interrupted - tokenMs, luck)
}

/** Latencies that all but 1 - q of the requests keep, ms; undefined beyond saturation. */
function llmLatencies(
  model: LlmQueueing,
  rateRps: number,
  q: number,
  of: Lengths = model.load,
): Latencies | undefined {
  if (model.server.pools !== undefined)
    return pooledLatencies(model, model.server.pools, rateRps, q, of)
  const state = steady(model, rateRps)
  if (state === undefined) return undefined
  const { n, tokenMs, share, together, decodeMs, promptsMs, perMs } = state
  const { prompts, outputs } = of
  const { meanOutput, meanPrompt, promptCv2 } = model.load
  const z = normalQuantile(q)
  const interruption = promptsMs(together * meanPrompt, n, together)
  const interrupted =
    (z * interruption * Math.sqrt(Math.max(0, (perMs * meanOutput * tokenMs) / together))) /
    meanOutput
  const tpot = slowestTokenMs(state, z, interrupted)
  // One prompt after the other. So on the host before.
  const { frontMs } = model.server
  const waits = queued(interruption, share, promptCv2, q) + queued(frontMs, perMs * frontMs, 0, q)
  // Until as many have come as are computed together, at the latest.
  const gathering =
    model.server.limits.promptsApart && together > 1 ? (q * (together - 1)) / perMs : 0
  const under = decodeMs(n) * q * Math.min(1, n)
  const own = promptsMs(at(prompts, q) + (together - 1) * meanPrompt, n, together)
  const ttft =
    frontMs +
    under +
    (model.server.limits.promptsApart ? 0 : decodeMs(n)) +
    own +
    waits +
    gathering +
    admission(state, meanOutput, q)
  return { ttft, tpot, e2e: ttft + Math.max(0, at(outputs, q) - 1) * tokenMs }
}

const lowestRps = 1e-4

function highest(holds: (rate: number) => boolean): number {
  let [low, high] = [lowestRps, 1e5]
  while (high / low > 1.005) {
    const middle = Math.sqrt(low * high)
    if (holds(middle)) low = middle
    else high = middle
  }
  return low
}

/** The highest rate that is kept up with. */
export const saturatedRps = (model: LlmQueueing): number => {
  const { pools } = model.server
  if (pools === undefined) return highest((rate) => steady(model, rate) !== undefined)
  return highest(
    (rate) =>
      prefillMs(model, pools.prefill, rate, 1, 0.5) !== undefined &&
      answering(model, pools, rate) !== undefined,
  )
}

/**
 * What each slowdown makes of the highest rate that keeps the SLO, by bisection on its logarithm.
 * Under a joint SLO the limits are taken to be missed by the same requests. Where all takes s times
 * as long, a rate of r/s has s times the latencies of r: what was computed for one slowdown serves
 * all others.
 */
export function llmCapacities(
  model: LlmQueueing,
  slo: Pick<Slo, 'percentile' | 'limitMs' | 'metric' | 'limits' | 'classes'>,
): (slowdown?: number) => PredictedCapacity {
  const { percentile, limitMs, classes = [] } = slo
  const apart = model.load.classes.filter(({ name }) => classes.includes(name))
  const countedOf = (rate: number, of?: (typeof apart)[number]): number => {
    const latencies = llmLatencies(model, rate, percentile, of)
    return latencies === undefined
      ? Number.POSITIVE_INFINITY
      : computeSloLatency(latencies, slo, of?.name)
  }
  const known = new Map<number, number>()
  /** As the SLO counts them, of the worst class; infinite beyond saturation. */
  const countedAt = (rate: number): number => {
    let ms = known.get(rate)
    if (ms === undefined) {
      ms = apart.length > 0 ? Math.max(...apart.map((of) => countedOf(rate, of))) : countedOf(rate)
      known.set(rate, ms)
    }
    return ms
  }
  const saturationRps = saturatedRps(model)
  return (slowdown = 1) => {
    const unloadedMs = slowdown * countedAt(lowestRps)
    const common = { saturationRps: saturationRps / slowdown, unloadedMs }
    if (unloadedMs > limitMs) return { ...common, capacityRps: 0, binding: 'slo' }
    const capacityRps = highest((rate) => slowdown * countedAt(rate) <= limitMs) / slowdown
    return {
      ...common,
      capacityRps,
      binding: capacityRps < 0.8 * common.saturationRps ? 'slo' : 'gpu',
    }
  }
}
