/** Predictions of the step model and the closed form for a language model, before any trial. */
import type { Slo } from '../../../profiler/model/slo.ts'
import { configurationKey } from '../../../search/space/space.ts'
import type { Configuration } from '../../../search/types.ts'
import type { Decoder } from '../../devices/architecture.ts'
import { computeUsableMemoryMiB, findGpu } from '../../devices/catalogue.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import { OutOfMemoryError } from '../../predictor/engine.ts'
import { getEngineError, type LlmEngineName } from '../../predictor/llm/engine-profile.ts'
import { llmDefaults } from '../../predictor/llm/serving-limits.ts'
import { countLayerWeights, resolveArithmetic } from '../../predictor/llm/step-model.ts'
import { parseResources, readServingParameters } from '../../resources.ts'
import type { Estimator } from './estimate.ts'
import { type PredictedCapacity, softenCapacity } from './estimated-capacity.ts'
import { predictLlmCapacities } from './llm-capacity.ts'
import {
  explainRefusal,
  type LlmModelOptions,
  type LlmRequest,
  modelLlm,
} from './llm-configuration.ts'
import { type LlmLoad, summariseLlmLoad } from './llm-load.ts'
import { getTensorParallel, type ModelledLlm } from './llm-pools.ts'

interface LlmEstimatorOptions extends LlmModelOptions {
  readonly architecture: Decoder
  readonly slo: Slo
  /** Called once, when first needed. */
  readonly requests: () => readonly LlmRequest[]
  /** Whether requests longer than the server accepts are sent uncut. */
  readonly keepOverlongPrompts?: boolean
}

/**
 * Standard deviation of ln(closed form / simulation) over GPUs, limits, lengths and SLOs. Larger for
 * TGI, whose prompts wait for each other.
 */
const getClosedFormError = (engine: LlmEngineName): number => (engine === 'tgi' ? 0.25 : 0.13)
/** Step of the finite differences, of ln. */
const step = 0.02

type Read =
  | { readonly server: ModelledLlm; readonly capacityAt: ReturnType<typeof predictLlmCapacities> }
  | { readonly reason: string; readonly certain: boolean }

export function createLlmEstimator(options: LlmEstimatorOptions): Estimator {
  const { architecture, slo, ownGpus, engine = llmDefaults.engine } = options
  const known = new Map<string, Read>()
  let cachedRequests: readonly LlmRequest[] | undefined
  const requests = () => (cachedRequests ??= options.requests())
  const loads = new Map<boolean, LlmLoad>()
  const getLoad = ({ prefixCaching }: ModelledLlm): LlmLoad => {
    const load = loads.get(prefixCaching) ?? summariseLlmLoad(requests(), prefixCaching)
    loads.set(prefixCaching, load)
    return load
  }
  const read = (configuration: Configuration): Read => {
    const key = configurationKey(configuration)
    let found = known.get(key)
    if (found === undefined) {
      found = modelled(configuration)
      known.set(key, found)
    }
    return found
  }
  const modelled = (configuration: Configuration): Read => {
    try {
      const server = modelLlm(architecture, configuration, options)
      const refused = options.keepOverlongPrompts ? explainRefusal(requests(), server) : undefined
      if (refused !== undefined) return { reason: refused, certain: true }
      return { server, capacityAt: predictLlmCapacities({ server, load: getLoad(server) }, slo) }
    } catch (error) {
      if (error instanceof OutOfMemoryError)
        return {
          reason: error.message.replace(' (emulated)', ''),
          certain: doWeightsExceedMemory(architecture, configuration, options),
        }
      if (error instanceof DeviceModelError) return { reason: error.message, certain: true }
      throw error
    }
  }
  /** A logarithm needs a positive rate. */
  const logRate = (capacity: PredictedCapacity) =>
    Math.log(Math.max(softenCapacity(capacity, slo), 1e-6))
  return {
    priorLogRate(configuration) {
      const found = read(configuration)
      return 'server' in found ? logRate(found.capacityAt()) : undefined
    },
    priorFactors: (gpus) => ({
      sd: gpus.map((gpu) =>
        gpu === 'none'
          ? step
          : Math.log1p(getEngineError(engine, { gpu: findGpu(gpu, ownGpus), tensorParallel: 1 })),
      ),
      applyFactors: (logFactors) => {
        const moved = (configuration: Configuration, further = 0): number | undefined => {
          const found = read(configuration)
          if (!('server' in found)) return undefined
          const level = (logFactors[gpus.indexOf(found.server.device.gpu.name)] ?? 0) + further
          return logRate(found.capacityAt(Math.exp(level)))
        }
        return {
          predictLogRate: (configuration) => moved(configuration),
          computeSensitivities: (configuration) => {
            const found = read(configuration)
            const own = 'server' in found ? gpus.indexOf(found.server.device.gpu.name) : -1
            return gpus.map((_, i) =>
              i === own ? (moved(configuration, step)! - moved(configuration)!) / step : 0,
            )
          },
        }
      },
    }),
    priorLogConstraint(configuration) {
      const found = read(configuration)
      if (!('server' in found)) return undefined
      const { unloadedMs } = found.capacityAt()
      return Number.isFinite(unloadedMs) ? Math.log(unloadedMs) : undefined
    },
    cannotServe(configuration) {
      const found = read(configuration)
      return 'reason' in found && found.certain
    },
    memoryFitProbability: () => 1,
    estimate(configuration) {
      const found = read(configuration)
      if ('reason' in found) return { serves: false, reason: found.reason }
      const { server, capacityAt } = found
      const capacity = capacityAt()
      const { gpu, tensorParallel } = server.device
      const split = Math.max(tensorParallel, server.pools?.decoder.device.tensorParallel ?? 1)
      const error = 1 + getEngineError(server.engine, { gpu, tensorParallel: split })
      const part = (slowdown: number) => capacityAt(slowdown).capacityRps / capacity.capacityRps
      const steps = capacity.capacityRps > 0 ? Math.max(1 - part(error), part(1 / error) - 1) : 1
      return {
        serves: true,
        ...capacity,
        relativeError: Math.hypot(steps, getClosedFormError(server.engine)),
        outOfMemory: 0,
      }
    },
  }
}

/** Whether the weights alone exceed the memory, whatever the error of the model. */
function doWeightsExceedMemory(
  architecture: Decoder,
  configuration: Configuration,
  { defaults, ownGpus }: LlmEstimatorOptions,
): boolean {
  const resources = parseResources(configuration, defaults, ownGpus)
  const gpu = findGpu(resources.gpu!, ownGpus)
  const { precision } = readServingParameters(configuration, { precision: 'fp16', ...defaults })
  const quantization = (configuration.quantization ?? defaults?.quantization) as 'awq' | undefined
  const weightsMiB =
    (countLayerWeights(architecture) *
      resolveArithmetic({ gpu, precision, quantization }).weightBytes) /
    2 ** 20
  return (
    weightsMiB >
    computeUsableMemoryMiB(gpu) *
      Math.min(
        getTensorParallel(resources),
        resources.pools?.decodeGpus ?? Number.POSITIVE_INFINITY,
      )
  )
}
