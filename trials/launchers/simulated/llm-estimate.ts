/** Predicts configurations of a language model by step model and closed form, before any trial. */
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
  buildLlmModel,
  explainRejection,
  type LlmModelOptions,
  type LlmRequest,
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
 * Standard deviation of ln(closed form / simulation) over GPUs, limits, lengths and SLOs. Larger
 * for TGI, whose prompts wait for each other.
 */
const getClosedFormError = (engine: LlmEngineName): number => (engine === 'tgi' ? 0.25 : 0.13)
/** Step of the finite differences, of ln(time). */
const differenceStep = 0.02

/** A configuration as a modelled server, or the reason why it cannot serve. */
type ModelResult =
  | { readonly server: ModelledLlm; readonly capacityAt: ReturnType<typeof predictLlmCapacities> }
  | {
      readonly reason: string
      /** Whether it is infeasible beyond the model's error. */
      readonly isCertain: boolean
    }

export function createLlmEstimator(options: LlmEstimatorOptions): Estimator {
  const { architecture, slo, ownGpus, engine = llmDefaults.engine } = options
  const resultsByKey = new Map<string, ModelResult>()
  let cachedRequests: readonly LlmRequest[] | undefined
  const requests = () => (cachedRequests ??= options.requests())
  const loads = new Map<boolean, LlmLoad>()
  const getLoad = ({ prefixCaching }: ModelledLlm): LlmLoad => {
    const load = loads.get(prefixCaching) ?? summariseLlmLoad(requests(), prefixCaching)
    loads.set(prefixCaching, load)
    return load
  }
  const modelCached = (configuration: Configuration): ModelResult => {
    const key = configurationKey(configuration)
    const cached = resultsByKey.get(key)
    if (cached !== undefined) return cached
    const result = modelConfiguration(configuration)
    resultsByKey.set(key, result)
    return result
  }
  const modelConfiguration = (configuration: Configuration): ModelResult => {
    try {
      const server = buildLlmModel(architecture, configuration, options)
      const rejection = options.keepOverlongPrompts
        ? explainRejection(requests(), server)
        : undefined
      if (rejection !== undefined) return { reason: rejection, isCertain: true }
      return { server, capacityAt: predictLlmCapacities({ server, load: getLoad(server) }, slo) }
    } catch (error) {
      if (error instanceof OutOfMemoryError)
        return {
          reason: error.message.replace(' (emulated)', ''),
          isCertain: doWeightsExceedMemory(architecture, configuration, options),
        }
      if (error instanceof DeviceModelError) return { reason: error.message, isCertain: true }
      throw error
    }
  }
  /** A logarithm needs a positive rate. */
  const logRate = (capacity: PredictedCapacity) =>
    Math.log(Math.max(softenCapacity(capacity, slo), 1e-6))
  return {
    priorLogRate(configuration) {
      const result = modelCached(configuration)
      return 'server' in result ? logRate(result.capacityAt()) : undefined
    },
    priorFactors: (gpus) => ({
      sd: gpus.map((gpu) =>
        gpu === 'none'
          ? differenceStep
          : Math.log1p(getEngineError(engine, { gpu: findGpu(gpu, ownGpus), tensorParallel: 1 })),
      ),
      applyFactors: (logFactors) => {
        const computeShiftedLogRate = (
          configuration: Configuration,
          further = 0,
        ): number | undefined => {
          const result = modelCached(configuration)
          if (!('server' in result)) return undefined
          const logSlowdown =
            (logFactors[gpus.indexOf(result.server.device.gpu.name)] ?? 0) + further
          return logRate(result.capacityAt(Math.exp(logSlowdown)))
        }
        return {
          predictLogRate: (configuration) => computeShiftedLogRate(configuration),
          computeSensitivities: (configuration) => {
            const result = modelCached(configuration)
            const gpuIndex = 'server' in result ? gpus.indexOf(result.server.device.gpu.name) : -1
            return gpus.map((_, i) =>
              i === gpuIndex
                ? (computeShiftedLogRate(configuration, differenceStep)! -
                    computeShiftedLogRate(configuration)!) /
                  differenceStep
                : 0,
            )
          },
        }
      },
    }),
    priorLogConstraint(configuration) {
      const result = modelCached(configuration)
      if (!('server' in result)) return undefined
      const { unloadedMs } = result.capacityAt()
      return Number.isFinite(unloadedMs) ? Math.log(unloadedMs) : undefined
    },
    cannotServe(configuration) {
      const result = modelCached(configuration)
      return 'reason' in result && result.isCertain
    },
    memoryFitProbability: () => 1,
    estimate(configuration) {
      const result = modelCached(configuration)
      if ('reason' in result) return { isFeasible: false, reason: result.reason }
      const { server, capacityAt } = result
      const capacity = capacityAt()
      const { gpu, tensorParallel } = server.device
      const split = Math.max(tensorParallel, server.pools?.decoder.device.tensorParallel ?? 1)
      const error = 1 + getEngineError(server.engine, { gpu, tensorParallel: split })
      const part = (slowdown: number) => capacityAt(slowdown).capacityRps / capacity.capacityRps
      const steps = capacity.capacityRps > 0 ? Math.max(1 - part(error), part(1 / error) - 1) : 1
      return {
        isFeasible: true,
        ...capacity,
        relativeError: Math.hypot(steps, getClosedFormError(server.engine)),
        outOfMemoryProbability: 0,
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
