/**
 * Predicts capacity and feasibility of a language model's configurations before any trial: step
 * times by the device model, queueing in closed form.
 */
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
  /** Creates the requests of the load. Called once, at the first prediction. */
  readonly requests: () => readonly LlmRequest[]
  /**
   * Whether requests longer than the server accepts are sent as they are. Such a server is
   * infeasible.
   */
  readonly keepOverlongPrompts?: boolean
}

/**
 * Standard deviation of ln(closed form / simulation) over GPUs, server limits, request lengths and
 * SLOs (`npm run bench:devices -- --llm`). Larger for TGI, whose prompts wait for each other.
 */
const getClosedFormLogSd = (engine: LlmEngineName): number => (engine === 'tgi' ? 0.25 : 0.13)
/**
 * Step of the finite differences, in ln(step time). Also stands for the deviation of 'none', which
 * no language model uses.
 */
const logTimeStep = 0.02

/** A configuration as a modelled server, or the reason why it cannot serve. */
type ModelResult =
  | { readonly server: ModelledLlm; readonly capacityAt: ReturnType<typeof predictLlmCapacities> }
  | {
      readonly reason: string
      /** Whether no error of the memory model could make it feasible. */
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
          isCertain: hasTooLittleMemoryForWeights(architecture, configuration, options),
        }
      if (error instanceof DeviceModelError) return { reason: error.message, isCertain: true }
      throw error
    }
  }
  /** ln(capacity), req/s. Bounded below, because the logarithm of 0 has no slope. */
  const computeLogRate = (capacity: PredictedCapacity) =>
    Math.log(Math.max(softenCapacity(capacity, slo), 1e-6))
  return {
    priorLogRate(configuration) {
      const result = modelCached(configuration)
      return 'server' in result ? computeLogRate(result.capacityAt()) : undefined
    },
    priorFactors: (gpus) => ({
      sd: gpus.map((gpu) =>
        gpu === 'none'
          ? logTimeStep
          : Math.log1p(getEngineError(engine, { gpu: findGpu(gpu, ownGpus), tensorParallel: 1 })),
      ),
      applyFactors: (logFactors) => {
        /** ln(capacity) if step times are exp(logFactors) times longer. */
        const predictShiftedLogRate = (
          configuration: Configuration,
          extraLogSlowdown = 0,
        ): number | undefined => {
          const result = modelCached(configuration)
          if (!('server' in result)) return undefined
          const logSlowdown =
            (logFactors[gpus.indexOf(result.server.device.gpu.name)] ?? 0) + extraLogSlowdown
          return computeLogRate(result.capacityAt(Math.exp(logSlowdown)))
        }
        return {
          predictLogRate: (configuration) => predictShiftedLogRate(configuration),
          computeSensitivities: (configuration) => {
            const result = modelCached(configuration)
            const gpuIndex = 'server' in result ? gpus.indexOf(result.server.device.gpu.name) : -1
            return gpus.map((_, i) =>
              i === gpuIndex
                ? (predictShiftedLogRate(configuration, logTimeStep)! -
                    predictShiftedLogRate(configuration)!) /
                  logTimeStep
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
    // 1: the error of the memory model is unknown.
    memoryFitProbability: () => 1,
    estimate(configuration) {
      const result = modelCached(configuration)
      if ('reason' in result) return { isFeasible: false, reason: result.reason }
      const { server, capacityAt } = result
      const capacity = capacityAt()
      const { gpu, tensorParallel } = server.device
      // Of separate prefill and decode servers, the larger group has the larger error.
      const maxTensorParallel = Math.max(
        tensorParallel,
        server.pools?.decoder.device.tensorParallel ?? 1,
      )
      // One standard deviation: step times may be this many times longer or shorter.
      const errorFactor =
        1 + getEngineError(server.engine, { gpu, tensorParallel: maxTensorParallel })
      const computeCapacityRatio = (slowdown: number) =>
        capacityAt(slowdown).capacityRps / capacity.capacityRps
      // Relative error of the capacity that this causes, in the worse direction.
      const stepTimeError =
        capacity.capacityRps > 0
          ? Math.max(
              1 - computeCapacityRatio(errorFactor),
              computeCapacityRatio(1 / errorFactor) - 1,
            )
          : 1
      return {
        isFeasible: true,
        ...capacity,
        relativeError: Math.hypot(stepTimeError, getClosedFormLogSd(server.engine)),
        outOfMemoryProbability: 0,
      }
    },
  }
}

/** Whether the weights alone exceed the memory of a server's GPUs: no model error could change that. */
function hasTooLittleMemoryForWeights(
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
  // Separate prefill and decode servers each hold the weights: the smaller group decides.
  return (
    weightsMiB >
    computeUsableMemoryMiB(gpu) *
      Math.min(
        getTensorParallel(resources),
        resources.pools?.decodeGpus ?? Number.POSITIVE_INFINITY,
      )
  )
}
