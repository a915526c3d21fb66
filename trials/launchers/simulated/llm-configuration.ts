/** A configuration of a language model's server as the simulation and the closed form see it: read as the built-in predictor would. */
import type { Configuration } from '../../../search/types.ts'
import type { Decoder } from '../../devices/architecture.ts'
import { findGpu, type Gpu } from '../../devices/catalogue.ts'
import { DeviceModelError, namesNear } from '../../devices/device-model-error.ts'
import { type LlmServer, llmDefaults, llmServer } from '../../predictor/llm/serving-limits.ts'
import { type Quantization, quantizations } from '../../predictor/llm/step-model.ts'
import { resourcesOf, servingParametersOf } from '../../resources.ts'

/** A request of the load: what the scheduler needs to know of it. */
export interface LlmRequest {
  readonly promptTokens: number
  readonly outputTokens: number
  /** Hashes of the prompt's whole blocks: see the scheduler. */
  readonly prefix: readonly number[]
  /** Name of its class, where it has one. */
  readonly requestClass?: string
}

/**
 * @throws DeviceModelError for values that the model cannot read, or that the GPU does not have
 * @throws OutOfMemoryError where weights and one sequence do not fit
 */
export function modelledLlm(
  architecture: Decoder,
  configuration: Configuration,
  defaults: Configuration = {},
  ownGpus: readonly Gpu[] = [],
): LlmServer {
  const resources = resourcesOf(configuration, defaults, ownGpus)
  const { precision, queueLimit } = servingParametersOf(configuration, { precision: llmDefaults.precision, ...defaults })
  if (resources.gpu === undefined)
    throw new DeviceModelError(`${architecture.name} without a GPU is not modelled`, 'give the space GPUs, e.g. --gpus L4,H100')
  if (resources.migProfile !== undefined)
    throw new DeviceModelError('MIG slices are not modelled for language models', 'use whole GPUs, or gpuMemoryPercent')
  const all: Configuration = { ...llmDefaults, ...defaults, ...configuration }
  return llmServer(architecture, {
    gpu: findGpu(resources.gpu, ownGpus),
    precision,
    quantization: quantizationOf(all.quantization!),
    tensorParallel: resources.gpus,
    maxSequences: Number(all.maxNumSeqs),
    maxBatchedTokens: Number(all.maxNumBatchedTokens),
    maxModelLength: Number(all.maxModelLen),
    memoryShare: Number(all.gpuMemoryUtilization) * resources.gpuShare,
    queueLimit,
  })
}

function quantizationOf(value: number | string): Quantization {
  const found = quantizations.find((name) => name === value)
  if (found === undefined) throw new DeviceModelError(`quantization is '${value}'`, namesNear(String(value), quantizations))
  return found
}
