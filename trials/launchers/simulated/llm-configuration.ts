/**
 * A configuration of a language-model server as input of the simulation and the closed form, parsed
 * as by the built-in predictor.
 */
import type { Configuration } from '../../../search/types.ts'
import type { Architecture, Decoder } from '../../devices/architecture.ts'
import { findGpu, type Gpu } from '../../devices/catalogue.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import type { LlmEngineName } from '../../predictor/llm/engine-profile.ts'
import { llmDefaults, planLlmServer, planSpeculation } from '../../predictor/llm/serving-limits.ts'
import { speculativeMethods } from '../../predictor/llm/speculative-methods.ts'
import { kvCacheDtypes, quantizations } from '../../predictor/llm/step-model.ts'
import { parseResources, readChoice, readServingParameters } from '../../resources.ts'
import type { KvTransfer } from '../template.ts'
import { createLlmPools, getTensorParallel, type ModelledLlm } from './llm-pools.ts'

/** A request of the load, as input of the scheduler. */
export interface LlmRequest {
  readonly promptTokens: number
  readonly outputTokens: number
  /** Hashes of the prompt's full blocks (see the scheduler). */
  readonly prefix: readonly number[]
  /** Name of its class, where it has one. */
  readonly requestClass?: string
}

export interface LlmModelOptions {
  readonly ownGpus?: readonly Gpu[]
  /** The server whose scheduling and host costs are modelled. Default: vLLM. */
  readonly engine?: LlmEngineName
  /** Transfers between pools, for configurations that have them. */
  readonly kvTransfer?: Partial<KvTransfer>
  /** Values of parameters that a configuration does not name. */
  readonly defaults?: Configuration
  /** The user's own architectures, which a draft model may have too. */
  readonly ownArchitectures?: readonly Architecture[]
  /** Probability that a draft token is accepted; absent: the assumption for its method. */
  readonly acceptance?: number
}

/**
 * @throws DeviceModelError for values that the model cannot read, or that the GPU does not have
 * @throws OutOfMemoryError if weights and one sequence do not fit
 */
export function modelLlm(
  architecture: Decoder,
  configuration: Configuration,
  {
    defaults = {},
    ownGpus = [],
    engine = llmDefaults.engine,
    ownArchitectures,
    acceptance,
    kvTransfer,
  }: LlmModelOptions = {},
): ModelledLlm {
  const resources = parseResources(configuration, defaults, ownGpus)
  const { precision, queueLimit } = readServingParameters(configuration, {
    precision: llmDefaults.precision,
    ...defaults,
  })
  if (resources.gpu === undefined)
    throw new DeviceModelError(
      `${architecture.name} without a GPU is not modelled`,
      'add GPUs to the search space, e.g. --gpus L4,H100',
    )
  if (resources.migProfile !== undefined)
    throw new DeviceModelError(
      'MIG slices are not modelled for language models',
      'use whole GPUs, or gpuMemoryPercent',
    )
  const all: Configuration = { ...llmDefaults, ...defaults, ...configuration }
  const drafting = {
    tokens: Number(all.speculativeTokens),
    method: readChoice(all, 'speculativeMethod', speculativeMethods),
    model: all.speculativeModel === undefined ? undefined : String(all.speculativeModel),
    acceptance,
  }
  const serving = {
    gpu: findGpu(resources.gpu, ownGpus),
    precision,
    engine,
    quantization: readChoice(all, 'quantization', quantizations),
    kvCacheDtype: readChoice(all, 'kvCacheDtype', kvCacheDtypes),
    tensorParallel: getTensorParallel(resources),
    maxSequences: Number(all.maxNumSeqs),
    maxBatchedTokens: Number(all.maxNumBatchedTokens),
    maxModelLength: Number(all.maxModelLen),
    memoryShare: Number(all.gpuMemoryUtilization) * resources.gpuShare,
    queueLimit,
    prefixCaching: readChoice(all, 'enablePrefixCaching', ['on', 'off']) === 'on',
    speculation: planSpeculation(drafting, architecture, ownArchitectures),
  }
  const server = planLlmServer(architecture, serving)
  const { pools } = resources
  if (pools === undefined) return server
  const decodePoolServer = planLlmServer(architecture, {
    ...serving,
    tensorParallel: pools.decodeGpus,
  })
  return {
    ...server,
    pools: createLlmPools(
      architecture,
      server,
      decodePoolServer,
      { ...resources, pools },
      kvTransfer,
    ),
  }
}

/** Why a server refuses requests longer than its longest sequence; undefined: it accepts all. */
export function explainRefusal(
  requests: readonly LlmRequest[],
  { maxModelLength }: ModelledLlm,
): string | undefined {
  const long = requests
    .map(({ promptTokens, outputTokens }) => promptTokens + outputTokens)
    .filter((tokens) => tokens > maxModelLength)
  if (long.length === 0) return undefined
  const longest = long.reduce((most, tokens) => Math.max(most, tokens), 0)
  return `rejects requests: ${long.length} of ${requests.length} are longer than max-model-len ${maxModelLength}; the longest has ${longest} tokens`
}
