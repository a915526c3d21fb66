/**
 * What GPUs would carry of a language model's requests, bucket by bucket, played in virtual time
 * over the model of its server: for a model of which nothing was measured.
 */
import { countedMs } from '../../profiler/slo.ts'
import type { Slo } from '../../profiler/types.ts'
import type { Configuration } from '../../search/types.ts'
import type { Decoder } from '../../trials/devices/architecture.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { llmCapacities, llmLoad } from '../../trials/launchers/simulated/llm-capacity.ts'
import { type LlmRequest, modelledLlm } from '../../trials/launchers/simulated/llm-configuration.ts'
import { SimulatedLlmServer } from '../../trials/launchers/simulated/llm-server.ts'
import { OutOfMemoryError } from '../../trials/predictor/engine.ts'
import { engineError } from '../../trials/predictor/llm/engine-profile.ts'
import type { LlmServer } from '../../trials/predictor/llm/serving-limits.ts'
import { weightsMiB } from '../../trials/predictor/llm/step-costs.ts'
import { percent } from '../format.ts'
import { unroutedRps } from './buckets.ts'
import { type RequestBucket, requestBuckets } from './length-buckets.ts'
import { FleetError, type FleetModel, type GpuKind, type Segment, whole } from './packing.ts'
import { poolOf } from './rules.ts'

interface EstimatedModel {
  readonly name: string
  readonly architecture: Decoder
  readonly slo: Slo
  readonly requests: readonly LlmRequest[]
  /** Of every server, by the names of the experiment file. */
  readonly settings?: Configuration
}

/** GPUs that share a model's layers. */
const groups = [1, 2, 4, 8]
/**
 * Of the rate that a play keeps: near the end a long one tips over, its cache full and its answers
 * begun anew, where a short one does not yet.
 */
const reserved = 0.9
/**
 * Requests of one play that count: nine of ten within a limit are known to 2 %. Those before them
 * find a server that is not yet full.
 */
const [countedRequests, warmUpRequests] = [300, 200]
const playedRequests = countedRequests + warmUpRequests
/**
 * Mixtures that are played; of others the least that any of the same replicas carried, beside what
 * its parts add up to, is taken.
 */
const mostMixtures = 40

/**
 * Every bucket keeps the SLO by itself, and every pool of replicas over all of its requests
 * together.
 * @param perNode GPUs of a node of a kind, over which a replica may stand
 * @throws FleetError where no kind can serve it, or a request is longer than the model's context
 */
export function estimatedModel(
  of: EstimatedModel,
  kinds: readonly GpuKind[],
  perNode: (kind: string) => number,
): Required<Omit<FleetModel, 'turning' | 'overDay' | 'asked'>> {
  const longest = Math.max(...of.requests.map(lengthOf))
  if (longest > of.architecture.maxSequenceLength)
    throw new FleetError(
      `${of.name}: a request of ${longest} tokens is longer than the context of ${of.architecture.name}, ${of.architecture.maxSequenceLength}`,
      'leave such requests out of its lengths',
    )
  const buckets = requestBuckets(of.requests)
  const servers = new Map<string, LlmServer>()
  const segments = kinds.flatMap(({ name: gpu }) =>
    groups
      .filter((gpus) => gpus <= perNode(gpu))
      .flatMap((gpus): Segment[] => {
        const server = serverOn(of, buckets, gpu, gpus)
        if (server === undefined) return []
        const bucketRps = buckets.map((bucket) =>
          longestOf(bucket) > server.maxModelLength ? 0 : aloneRps(server, bucket.requests, of.slo),
        )
        const segment: Segment = {
          gpu,
          slice: whole,
          gpus,
          rateRps: unroutedRps(buckets, bucketRps),
          bucketRps,
          label: labelOf(server, of, gpus),
          loadS: loadSecondsOf(server),
        }
        servers.set(poolOf(segment), server)
        return [segment]
      }),
  )
  if (segments.length === 0)
    throw new FleetError(
      `${of.name}: ${of.architecture.name} fits on none of ${kinds.map(({ name }) => name).join(', ')}`,
      'add larger GPUs, or perNode: GPUs of a node that share it',
    )
  const errors = [...servers.values()].map(({ engine, device }) => engineError(engine, device))
  return {
    name: of.name,
    segments,
    buckets: buckets.map(({ requests: _, ...bucket }) => bucket),
    mixedRps: mixtures(servers, buckets, of.slo),
    estimated: `simulated: ${of.architecture.name} played in virtual time, its steps known to ± ${percent(Math.min(...errors))}${Math.max(...errors) > Math.min(...errors) ? ` to ${percent(Math.max(...errors))}` : ''}; nothing was measured`,
  }
}

const lengthOf = ({ promptTokens, outputTokens }: LlmRequest): number => promptTokens + outputTokens
const longestOf = ({ requests }: RequestBucket): number => Math.max(...requests.map(lengthOf))

/**
 * With the longest context that fits of those that buckets need; undefined where none does, or the
 * GPU has not what it asks for.
 */
function serverOn(
  { architecture, settings }: EstimatedModel,
  buckets: readonly RequestBucket[],
  gpu: string,
  gpus: number,
): LlmServer | undefined {
  const lengths = [...new Set(buckets.map(longestOf))].sort((a, b) => b - a)
  for (const maxModelLen of lengths) {
    try {
      return modelledLlm(architecture, { ...settings, gpu, gpus, maxModelLen })
    } catch (error) {
      if (error instanceof DeviceModelError) return undefined
      if (!(error instanceof OutOfMemoryError)) throw error
    }
  }
  return undefined
}

/**
 * Until a server that starts with its image on the node serves, at the slow end of what is
 * published of vLLM: a 35B model in 4 bits (21.8 GiB) took 142 s to read its weights from a local
 * disk (route179.dev, 2026), and elsewhere 269 s for all but that: container, compilation, profile
 * of the cache and warm-up (vllm-project/vllm, issue 44881).
 */
const [readGBs, engineS] = [0.15, 270]
const loadSecondsOf = ({ device }: LlmServer): number =>
  Math.ceil(engineS + (weightsMiB(device) * 2 ** 20) / (readGBs * 1e9))

const labelOf = (
  { maxModelLength }: LlmServer,
  { settings = {} }: EstimatedModel,
  gpus: number,
): string =>
  [
    ...(gpus > 1 ? [`gpus ${gpus}`] : []),
    ...Object.entries(settings).map(([name, value]) => `${name} ${value}`),
    `maxModelLen ${maxModelLength}`,
  ].join(', ')

/**
 * What a closed form says, or less where that does not keep the SLO when it is played. What a cache
 * of beginnings would find is not counted on.
 */
function aloneRps(server: LlmServer, requests: readonly LlmRequest[], slo: Slo): number {
  const { capacityRps } = llmCapacities({ server, load: llmLoad(requests, false) }, slo)()
  return playedRps(server, requests, reserved * capacityRps, slo)
}

/**
 * At most `rps`, found by halving: of it a fifteenth less at the most than is kept. 0 where a fifth
 * is not kept either.
 */
function playedRps(
  server: LlmServer,
  requests: readonly LlmRequest[],
  rps: number,
  slo: Slo,
): number {
  if (rps === 0 || keeps(server, requests, rps, slo)) return rps
  let [low, high] = [0.2 * rps, rps]
  if (!keeps(server, requests, low, slo)) return 0
  while (high / low > 16 / 15) {
    const middle = Math.sqrt(low * high)
    if (keeps(server, requests, middle, slo)) low = middle
    else high = middle
  }
  return low
}

function keeps(
  server: LlmServer,
  requests: readonly LlmRequest[],
  rateRps: number,
  slo: Slo,
): boolean {
  const playedRate = rateRps / reserved
  const played = new SimulatedLlmServer({ server, requests })
  const { stream } = played.play({
    kind: 'open',
    rateRps: playedRate,
    arrivals: { kind: 'poisson' },
    durationS: playedRequests / playedRate,
    seed: 3,
  })
  const { ttft, tpot, e2e } = stream!.latenciesMs
  let [kept, all] = [0, 0]
  for (let i = warmUpRequests; i < ttft.length; i++, all++)
    if (countedMs({ ttft: ttft[i]!, tpot: tpot[i]!, e2e: e2e[i]! }, slo) <= slo.limitMs) kept++
  return kept >= slo.percentile * all
}

/** What is known of mixtures, each played once. */
function mixtures(
  servers: ReadonlyMap<string, LlmServer>,
  buckets: readonly RequestBucket[],
  slo: Slo,
): NonNullable<FleetModel['mixedRps']> {
  const known = new Map<string, number>()
  const least = new Map<string, number>()
  return (segment, parts, addedRps) => {
    const pool = poolOf(segment)
    if (parts.filter((part) => part > leastPart).length < 2) return addedRps
    const rounded = parts.map((part) => Math.ceil(part * 50) / 50)
    const key = `${pool}\n${rounded.join()}`
    let factor = known.get(key)
    if (factor === undefined) {
      if (known.size >= mostMixtures) return addedRps * (least.get(pool) ?? 1)
      factor = playedRps(servers.get(pool)!, mixed(buckets, rounded), addedRps, slo) / addedRps
      known.set(key, factor)
      least.set(pool, Math.min(factor, least.get(pool) ?? 1))
    }
    return addedRps * factor
  }
}

const leastPart = 1e-3

/** As many of each bucket as its part of the mixture, spread evenly. */
function mixed(buckets: readonly RequestBucket[], parts: readonly number[]): LlmRequest[] {
  const all = buckets.reduce((sum, { share }, b) => sum + share * parts[b]!, 0)
  const placed = buckets.flatMap(({ share, requests }, b) => {
    const count = Math.round((playedRequests * share * parts[b]!) / all)
    return Array.from({ length: count }, (_, i) => ({
      request: requests[i % requests.length]!,
      at: (i + 0.5) / count,
    }))
  })
  return placed.sort((a, b) => a.at - b.at).map(({ request }) => request)
}
