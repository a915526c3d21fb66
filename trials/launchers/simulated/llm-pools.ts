/**
 * Prompts and answers on servers of their own: a prefill server computes the prompt, its keys and values move to a decode server, which makes the answer
 * (DistServe, Zhong et al., OSDI 2024, sections 2 and 3; Splitwise, Patel et al., ISCA 2024). How fast they move is assumed, not measured.
 */
import { type Decoder, kvElementsPerToken } from '../../devices/architecture.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import type { LlmEngineName } from '../../predictor/llm/engine-profile.ts'
import type { LlmServer } from '../../predictor/llm/serving-limits.ts'
import { cacheBytes, hasNvlink, type LlmDevice, links } from '../../predictor/llm/step-model.ts'
import { type Resources, serversOf } from '../../resources.ts'

/** The way from a prefill server to a decode server: GB/s of each GPU, one after the other, and ms of each request beside. */
export interface KvTransfer {
  readonly gbPerS: number
  readonly latencyMs: number
}

/** What is assumed where nothing is said. */
export const assumedTransfers = {
  /** In one machine over NVLink, as its all-reduces go. */
  nvlink: { gbPerS: links.nvlink.gbPerS, latencyMs: 2 },
  /** PCIe 4 x16, or a network of 200 Gb/s a GPU, as Splitwise's machines with A100 have it. */
  network: { gbPerS: 25, latencyMs: 2 },
} as const satisfies Record<string, KvTransfer>
export const gpusOfMachine = 8

/** NVLink where the GPUs have it and one machine holds all of them, else the network. */
const assumedTransfer = (gpu: Gpu, gpus: number): KvTransfer =>
  assumedTransfers[hasNvlink(gpu) && gpus <= gpusOfMachine ? 'nvlink' : 'network']

export const transferText = ({ gbPerS, latencyMs }: KvTransfer): string =>
  `keys and values move at ${gbPerS} GB/s a GPU and ${latencyMs} ms a request (assumed)`

/**
 * What hands a request over, by server. vLLM 0.11 (NixlConnector): its router sends the prompt on once it is computed, the decode server fetches what
 * was computed and makes the first token of its last one. SGLang 0.5: its router sends to both at once, the first token comes along. Of either the first
 * token reaches the client from the decode server, so that the time to it has the transfer in it.
 */
const handOvers: Readonly<Partial<Record<LlmEngineName, 'fetched' | 'pushed'>>> = { vllm: 'fetched', sglang: 'pushed' }
/** Servers that have pools. */
export const pooledEngines = Object.keys(handOvers) as readonly LlmEngineName[]

export interface LlmPools {
  readonly prefill: number
  readonly decode: number
  readonly handOver: 'fetched' | 'pushed'
  readonly transfer: KvTransfer
  /** ms that so many tokens are on their way, without the latency. */
  transferMs(tokens: number): number
}

/** A server as configured, and where it has them the pools that it is one of. */
export interface ModelledLlm extends LlmServer {
  readonly pools?: LlmPools
}

/** @throws DeviceModelError for a server that has no pools */
export function llmPools(
  architecture: Decoder,
  server: LlmServer,
  resources: Resources & { readonly pools: NonNullable<Resources['pools']> },
  said: Partial<KvTransfer> = {},
): LlmPools {
  const { engine, device } = server
  const handOver = handOvers[engine]
  if (handOver === undefined)
    throw new DeviceModelError(`${engine} has no pools of prefill and decode servers here`, `${pooledEngines.join(' and ')} have`)
  const transfer = { ...assumedTransfer(device.gpu, resources.gpus), ...said }
  const bytesEach = kvBytesOf(architecture, device) / device.tensorParallel
  const { prefill, decode } = resources.pools
  return { prefill, decode, handOver, transfer, transferMs: (tokens) => (tokens * bytesEach) / (transfer.gbPerS * 1e6) }
}

/** Of one token, over all GPUs of a server. */
const kvBytesOf = (architecture: Decoder, device: LlmDevice): number => kvElementsPerToken(architecture) * cacheBytes(device)

/** GPUs that share every layer: those of one server. */
export const tensorParallelOf = (resources: Resources): number => resources.gpus / serversOf(resources)

/** Of a decode server: no prompts are computed in steps of their own there. */
export function decodeServer<Server extends Pick<LlmServer, 'limits'>>(server: Server): Server {
  const { promptsApart: _, ...limits } = server.limits
  return { ...server, limits }
}
