/**
 * Prefill and decode on separate servers: a prefill server computes the prompt, its keys and values
 * move to a decode server, which generates the answer (DistServe, Zhong et al., OSDI 2024,
 * sections 2 and 3; Splitwise, Patel et al., ISCA 2024). How fast they move is assumed, not
 * measured.
 */
import { countKvElementsPerToken, type Decoder } from '../../devices/architecture.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import type { LlmEngineName } from '../../predictor/llm/engine-profile.ts'
import type { LlmServer } from '../../predictor/llm/serving-limits.ts'
import {
  countCacheBytes,
  hasNvlink,
  type LlmDevice,
  links,
} from '../../predictor/llm/step-model.ts'
import type { Resources } from '../../resources.ts'
import type { KvTransfer } from '../template.ts'

/** Defaults without figures from the user. */
export const assumedTransfers = {
  /** In one machine over NVLink, as its all-reduces go. */
  nvlink: { gbPerS: links.nvlink.gbPerS, latencyMs: 2 },
  /** PCIe 4 x16, or a network of 200 Gb/s a GPU, as Splitwise's machines with A100 have it. */
  network: { gbPerS: 25, latencyMs: 2 },
} as const satisfies Record<string, KvTransfer>
/** GPUs of one machine, as in HGX systems. */
export const gpusOfMachine = 8

/** NVLink if the GPUs have it and fit in one machine, else the network. */
const assumeTransfer = (gpu: Gpu, gpus: number): KvTransfer =>
  assumedTransfers[hasNvlink(gpu) && gpus <= gpusOfMachine ? 'nvlink' : 'network']

export const formatTransfer = ({ gbPerS, latencyMs }: KvTransfer): string =>
  `KV cache transfer at ${gbPerS} GB/s per GPU plus ${latencyMs} ms per request (assumed)`

/**
 * How requests pass from prefill to decode, by server. vLLM 0.11 (NixlConnector): the router
 * forwards the prompt after prefill; the decode server fetches the cache and generates the first
 * token. SGLang 0.5: the router sends to both at once; the first token is transferred with the
 * cache. In both, the decode server sends the first token, so the time to first token includes the
 * transfer.
 */
const handOvers: Readonly<Partial<Record<LlmEngineName, 'fetched' | 'pushed'>>> = {
  vllm: 'fetched',
  sglang: 'pushed',
}
/** Engines that support pools. */
export const pooledEngines = Object.keys(handOvers) as readonly LlmEngineName[]

export interface LlmPools {
  readonly prefill: number
  readonly decode: number
  /** One of the decode servers. */
  readonly decoder: LlmServer
  readonly handOver: 'fetched' | 'pushed'
  readonly transfer: KvTransfer
  /** Transfer time of the tokens, ms, without the latency. */
  transferMs(tokens: number): number
}

/** A server as configured; with pools, one of the prefill servers. */
export interface ModelledLlm extends LlmServer {
  readonly pools?: LlmPools
}

/**
 * @param server a prefill server
 * @param decoder a decode server, as it would be without pools
 * @throws DeviceModelError for an engine without pools, or with unsupported numbers of GPUs
 */
export function createLlmPools(
  architecture: Decoder,
  server: LlmServer,
  decoder: LlmServer,
  resources: Resources & { readonly pools: NonNullable<Resources['pools']> },
  userTransfer: Partial<KvTransfer> = {},
): LlmPools {
  const { engine, device } = server
  const handOver = handOvers[engine]
  if (handOver === undefined)
    throw new DeviceModelError(
      `prefill and decode pools are not modelled for ${engine}`,
      `use ${pooledEngines.join(' or ')}`,
    )
  const { prefill, decode, prefillGpus, decodeGpus } = resources.pools
  const fault = findSplitFault(engine, prefillGpus, decodeGpus)
  if (fault !== undefined)
    throw new DeviceModelError(
      `decode servers with ${decodeGpus} GPUs cannot continue requests of prefill servers with ${prefillGpus}`,
      fault,
    )
  const transfer = { ...assumeTransfer(device.gpu, resources.gpus), ...userTransfer }
  // The end with fewer GPUs has fewer links.
  const bytesEach = countKvBytes(architecture, device) / Math.min(prefillGpus, decodeGpus)
  const transferMs = (tokens: number) => (tokens * bytesEach) / (transfer.gbPerS * 1e6)
  return { prefill, decode, decoder: decodeServer(decoder), handOver, transfer, transferMs }
}

/**
 * Engines whose decode servers may have fewer GPUs than their prefill servers, and then gather
 * attention heads. SGLang 0.5 warns that it is slower
 * (python/sglang/srt/disaggregation/common/conn.py); vLLM's NixlConnector does so after 0.11
 * (vllm-project/vllm pull request 27274).
 */
const gathering: ReadonlySet<LlmEngineName> = new Set(['sglang'])

/** Explains why servers with these numbers of GPUs cannot transfer to each other, if so. */
function findSplitFault(
  engine: LlmEngineName,
  prefillGpus: number,
  decodeGpus: number,
): string | undefined {
  if (Math.max(prefillGpus, decodeGpus) % Math.min(prefillGpus, decodeGpus) !== 0)
    return 'one number of GPUs must be a multiple of the other'
  if (decodeGpus >= prefillGpus || gathering.has(engine)) return undefined
  return `the supported version of ${engine} does not allow decode servers with fewer GPUs: raise decodeGpus, or use ${[...gathering].join(', ')}`
}

/** Formats the rule of `findSplitFault` as a condition of the search space. */
export const formatSplitCondition = (engine: LlmEngineName): string =>
  `decodeReplicas == 0 or decodeGpus % gpus == 0${gathering.has(engine) ? ' or gpus % decodeGpus == 0' : ''}`

/** Bytes of keys and values of a token, over all GPUs of a server. */
const countKvBytes = (architecture: Decoder, device: LlmDevice): number =>
  countKvElementsPerToken(architecture) * countCacheBytes(device)

/** GPUs of a tensor-parallel group: of the server, or with pools of a prefill server. */
export const getTensorParallel = ({ gpus, pools }: Resources): number => pools?.prefillGpus ?? gpus

/** A decode server has no separate prefill steps. */
function decodeServer(server: LlmServer): LlmServer {
  const { separatePrefill: _, ...limits } = server.limits
  return { ...server, limits }
}
