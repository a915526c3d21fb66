/**
 * A configuration of a language-model server as the simulation and the closed form see it, read as
 * the built-in predictor reads it.
 */
import type { Configuration } from '../../../search/types.ts'
import type { Architecture, Decoder } from '../../devices/architecture.ts'
import { findGpu, type Gpu } from '../../devices/catalogue.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import { namesNear } from '../../near-names.ts'
import type { LlmEngineName } from '../../predictor/llm/engine-profile.ts'
import { llmDefaults, llmServer, speculationOf } from '../../predictor/llm/serving-limits.ts'
import { speculativeMethods } from '../../predictor/llm/speculative-methods.ts'
import { kvCacheDtypes, quantizations } from '../../predictor/llm/step-model.ts'
import { resourcesOf, servingParametersOf } from '../../resources.ts'
import type { KvTransfer } from '../template.ts'
import { llmPools, type ModelledLlm, tensorParallelOf } from './llm-pools.ts'

/** A request of the load, as the scheduler sees it. */
export interface LlmRequest {
  readonly promptTokens: number
  readonly outputTokens: number
  /** Hashes of the prompt's whole blocks: see the scheduler. */
  readonly prefix: readonly number[]
  /** Name of its class, where it has one. */
  readonly requestClass?: string
}

export interface LlmModelOptions {
  readonly ownGpus?: readonly Gpu[]
  /** The server whose schedule and host costs it has. Default: vLLM. */
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
 * @throws OutOfMemoryError where weights and one sequence do not fit
 */
export function modelledLlm(
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
  const resources = resourcesOf(configuration, defaults, ownGpus)
  const { precision, queueLimit } = servingParametersOf(configuration, {
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
    method: oneOf(speculativeMethods, 'speculativeMethod', all.speculativeMethod!),
    model: all.speculativeModel === undefined ? undefined : String(all.speculativeModel),
    acceptance,
  }
  const serving = {
    gpu: findGpu(resources.gpu, ownGpus),
    precision,
    engine,
    quantization: oneOf(quantizations, 'quantization', all.quantization!),
    kvCacheDtype: oneOf(kvCacheDtypes, 'kvCacheDtype', all.kvCacheDtype!),
    tensorParallel: tensorParallelOf(resources),
    maxSequences: Number(all.maxNumSeqs),
    maxBatchedTokens: Number(all.maxNumBatchedTokens),
    maxModelLength: Number(all.maxModelLen),
    memoryShare: Number(all.gpuMemoryUtilization) * resources.gpuShare,
    queueLimit,
    prefixCaching: oneOf(['on', 'off'], 'enablePrefixCaching', all.enablePrefixCaching!) === 'on',
    speculation: speculationOf(drafting, architecture, ownArchitectures),
  }
  const server = llmServer(architecture, serving)
  const { pools } = resources
  if (pools === undefined) return server
  const decoder = llmServer(architecture, { ...serving, tensorParallel: pools.decodeGpus })
  return {
    ...server,
    pools: llmPools(architecture, server, decoder, { ...resources, pools }, kvTransfer),
  }
}

/** Why a server refuses requests longer than its longest sequence; undefined: it accepts all. */
export function refusal(
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

function oneOf<T extends string>(
  names: readonly T[],
  parameter: string,
  value: number | string,
): T {
  const found = names.find((name) => name === value)
  if (found === undefined)
    throw new DeviceModelError(`${parameter} is '${value}'`, namesNear(String(value), names))
  return found
}
