/**
 * Converts a configuration of a language-model server to the model that the simulation and the
 * closed form use. Values are parsed as by the built-in predictor.
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
  /** Hashes of the full blocks of the prompt, for prefix-cache hits. */
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
 * Builds the server model of a configuration. With pools it is that of the prefill servers, and also
 * has the decode servers.
 * @throws DeviceModelError for invalid values, and for features that the GPU does not have
 * @throws OutOfMemoryError if weights and one sequence do not fit
 */
export function buildLlmModel(
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
  const values: Configuration = { ...llmDefaults, ...defaults, ...configuration }
  const speculativeSettings = {
    tokens: Number(values.speculativeTokens),
    method: readChoice(values, 'speculativeMethod', speculativeMethods),
    model: values.speculativeModel === undefined ? undefined : String(values.speculativeModel),
    acceptance,
  }
  const serverSettings = {
    gpu: findGpu(resources.gpu, ownGpus),
    precision,
    engine,
    quantization: readChoice(values, 'quantization', quantizations),
    kvCacheDtype: readChoice(values, 'kvCacheDtype', kvCacheDtypes),
    tensorParallel: getTensorParallel(resources),
    maxSequences: Number(values.maxNumSeqs),
    maxBatchedTokens: Number(values.maxNumBatchedTokens),
    maxModelLength: Number(values.maxModelLen),
    memoryShare: Number(values.gpuMemoryUtilization) * resources.gpuShare,
    queueLimit,
    prefixCaching: readChoice(values, 'enablePrefixCaching', ['on', 'off']) === 'on',
    speculation: planSpeculation(speculativeSettings, architecture, ownArchitectures),
  }
  const server = planLlmServer(architecture, serverSettings)
  const { pools } = resources
  if (pools === undefined) return server
  const decodePoolServer = planLlmServer(architecture, {
    ...serverSettings,
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

/** Explains that a server rejects requests that are too long for it; undefined: it accepts all. */
export function explainRejection(
  requests: readonly LlmRequest[],
  { maxModelLength }: ModelledLlm,
): string | undefined {
  const tooLong = requests
    .map(({ promptTokens, outputTokens }) => promptTokens + outputTokens)
    .filter((tokens) => tokens > maxModelLength)
  if (tooLong.length === 0) return undefined
  const longest = tooLong.reduce((max, tokens) => Math.max(max, tokens), 0)
  return `rejects requests: ${tooLong.length} of ${requests.length} are longer than max-model-len ${maxModelLength}; the longest has ${longest} tokens`
}
