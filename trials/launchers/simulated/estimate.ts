/**
 * Predicts configurations with the device model before any trial, for the prior of the search and
 * for `tune estimate`.
 */
import type { Slo } from '../../../profiler/model/slo.ts'
import { configurationKey } from '../../../search/space/space.ts'
import type { Configuration, PriorFactors, ShiftedPrior } from '../../../search/types.ts'
import type { Architecture } from '../../devices/architecture.ts'
import { findGpu, type Gpu } from '../../devices/catalogue.ts'
import { type CalibratedServer, predictDeviceLatency } from '../../devices/device-model.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import type { Resources } from '../../resources.ts'
import { createCalibratedFactors, shareExponentSd } from './calibrated-factors.ts'
import { createCpuStage, type MachineCores } from './cpu-stage.ts'
import {
  type PredictedCapacity,
  predictCapacity,
  predictTimedCapacity,
  softenCapacity,
  type TimedModel,
  tabulateDeviceTimes,
} from './estimated-capacity.ts'
import { cpuError, type ModelledServer, modelServer } from './modelled-server.ts'
import { createQueueingModel } from './queueing-model.ts'

interface EstimatorOptions {
  readonly architecture: Architecture
  readonly slo: Pick<Slo, 'percentile' | 'limitMs'>
  /** Values of parameters that configurations do not name. */
  readonly defaults?: Configuration
  readonly ownGpus?: readonly Gpu[]
  /** Fit of a server other than the built-in one. */
  readonly calibratedServer?: CalibratedServer
  readonly cores?: MachineCores
}

export type ConfigurationEstimate =
  | ({
      readonly isFeasible: true
      /** With a probability of about two thirds, the true capacity is within ± this share of it. */
      readonly relativeError: number
      /** Probability that the memory does not suffice. */
      readonly outOfMemoryProbability: number
      readonly neededMiB?: number
      readonly availableMiB?: number
    } & PredictedCapacity)
  | {
      readonly isFeasible: false
      readonly reason: string
      /** If memory is the reason: available over needed memory, below 1. */
      readonly availableOverNeededMemory?: number
    }

export interface Estimator {
  /** ln of the predicted capacity, req/s; undefined without a prediction. */
  priorLogRate(configuration: Configuration): number | undefined
  /**
   * Uncertain factors of the prior: CPU costs, the speed of each GPU, the slope over the batch, the
   * exponent of a GPU share and, for inference on CPU ('none' among the GPUs), of the cores.
   */
  priorFactors(gpus: readonly string[]): PriorFactors
  /** ln of the predicted unloaded latency at the SLO's percentile, ms. */
  priorLogConstraint(configuration: Configuration): number | undefined
  /**
   * Whether it is infeasible beyond doubt: it needs more memory than the model's error can explain,
   * or the model rejects a value, such as an unknown GPU.
   */
  cannotServe(configuration: Configuration): boolean
  /** Probability that the memory suffices, by the model's error; 1 where that is unknown. */
  memoryFitProbability(configuration: Configuration): number
  /** The full prediction, with errors. */
  estimate(configuration: Configuration): ConfigurationEstimate
}

/**
 * z-score from which a shortage of memory counts as certain: a normal error exceeds it with a
 * probability of 0.9 %.
 */
const certainShortageZScore = 2.35

/** Ratio of needed to available memory from which a shortage counts as certain. */
const computeCertainShortageRatio = ({ memoryError = 0 }: ModelledServer): number =>
  1 + certainShortageZScore * memoryError

/** Prediction for one configuration; `reason` if the model rejects it. */
interface CachedPrediction {
  readonly modelled?: ModelledServer
  readonly model?: TimedModel
  readonly capacity?: PredictedCapacity
  readonly reason?: string
}

/** Creates an estimator that memoises predictions. */
export function createEstimator(options: EstimatorOptions): Estimator {
  const { architecture, slo } = options
  const byKey = new Map<string, CachedPrediction>()
  /**
   * A second cache by object identity, which saves the key: one suggestion looks up each
   * configuration several times.
   */
  const byObject = new WeakMap<Configuration, CachedPrediction>()

  const predictCached = (configuration: Configuration): CachedPrediction => {
    const cachedByObject = byObject.get(configuration)
    if (cachedByObject) return cachedByObject
    const key = configurationKey(configuration)
    const cachedByKey = byKey.get(key)
    if (cachedByKey) {
      byObject.set(configuration, cachedByKey)
      return cachedByKey
    }
    let prediction: CachedPrediction
    try {
      const modelled = modelServer(
        architecture,
        configuration,
        options.defaults,
        options.ownGpus,
        options.calibratedServer,
        options.cores,
      )
      const model = tabulateDeviceTimes(createQueueingModel(modelled))
      prediction = { modelled, model, capacity: predictTimedCapacity(model, slo) }
    } catch (error) {
      if (!(error instanceof DeviceModelError)) throw error
      prediction = { reason: error.message }
    }
    byKey.set(key, prediction)
    byObject.set(configuration, prediction)
    return prediction
  }

  return {
    priorLogRate(configuration) {
      const { capacity } = predictCached(configuration)
      return capacity && Math.log(softenCapacity(capacity, slo))
    },
    priorFactors: (gpus) =>
      options.calibratedServer
        ? createCalibratedFactors(options.calibratedServer, {
            architecture,
            ownGpus: options.ownGpus,
            gpus,
            predictCached,
            slo,
          })
        : {
            sd: [
              createCpuStage(architecture).relativeError,
              batchSlopeSd,
              shareExponentSd,
              coreExponentSd,
              ...gpus.map((gpu) => computeDeviceError(architecture, gpu, options.ownGpus)),
            ],
            applyFactors: (logFactors) => shiftPrior(logFactors, gpus, predictCached, slo),
          },
    priorLogConstraint(configuration) {
      const { capacity } = predictCached(configuration)
      return capacity && Math.log(capacity.unloadedMs)
    },
    cannotServe(configuration) {
      const { modelled, reason } = predictCached(configuration)
      return (
        reason !== undefined ||
        (modelled !== undefined && isShortOfMemory(modelled, computeCertainShortageRatio(modelled)))
      )
    },
    memoryFitProbability(configuration) {
      const { modelled } = predictCached(configuration)
      return modelled ? 1 - computeShortageProbability(modelled) : 1
    },
    estimate(configuration) {
      const { modelled, capacity, reason } = predictCached(configuration)
      if (!modelled || !capacity) return { isFeasible: false, reason: reason! }
      const { neededMiB, availableMiB } = modelled
      if (neededMiB !== undefined && availableMiB !== undefined && isShortOfMemory(modelled, 1))
        return {
          isFeasible: false,
          reason: `needs ${Math.ceil(neededMiB)} MiB of GPU memory, but has ${Math.floor(availableMiB)} MiB`,
          availableOverNeededMemory: availableMiB / neededMiB,
        }
      return {
        isFeasible: true,
        ...capacity,
        ...(modelled.resources.gpu === undefined &&
          capacity.binding === 'gpu' && { binding: 'cpu' }),
        relativeError: propagateErrors(modelled, capacity, slo),
        outOfMemoryProbability: computeShortageProbability(modelled),
        neededMiB,
        availableMiB,
      }
    },
  }
}

/** Prior standard deviation of d ln(time) / d ln(batch). */
const batchSlopeSd = 0.03
/**
 * Prior standard deviation of the exponent of the cores, for inference on CPU. Wide, because a load
 * generator on the same machine shares them.
 */
const coreExponentSd = 0.25
/** Batch size at which the slope changes no time, and for which device errors are computed. */
const typicalBatch = 8
/** Minimum relative error of a GPU in the tables, for another host and other software versions. */
const minDeviceError = 0.05

const computeDeviceError = (
  architecture: Architecture,
  gpu: string,
  ownGpus: readonly Gpu[] = [],
): number =>
  gpu === 'none'
    ? cpuError
    : Math.max(
        minDeviceError,
        predictDeviceLatency({ architecture, gpu: findGpu(gpu, ownGpus), batch: typicalBatch })
          .relativeError,
      )

/**
 * Shifts the prior by factors of the CPU cost, the slope over the batch, the exponents of share and
 * cores, and the time of each GPU. Sensitivities are forward differences.
 */
function shiftPrior(
  [cpu, slope, share, cores, ...devices]: readonly number[],
  gpus: readonly string[],
  predictCached: (configuration: Configuration) => CachedPrediction,
  slo: EstimatorOptions['slo'],
): ShiftedPrior {
  /** exp(slope × ln(batch / typical)), by batch. */
  const slopeFactors = new Map<number, number>()
  const getSlopeFactor = (batch: number): number => {
    const factor = slopeFactors.get(batch) ?? Math.exp(slope! * Math.log(batch / typicalBatch))
    slopeFactors.set(batch, factor)
    return factor
  }
  const computeLogRate = (
    { resources }: ModelledServer,
    model: TimedModel,
    extraCpu = 0,
    extraDevice = 0,
  ) => {
    const scalingShift = share! * computeLogShare(resources) + cores! * computeLogCores(resources)
    const deviceFactor = Math.exp(
      (devices[gpus.indexOf(resources.gpu ?? 'none')] ?? 0) - scalingShift + extraDevice,
    )
    const cpuFactor = Math.exp(cpu! + extraCpu)
    const { sizes, times } = model
    const shiftedTimes = new Float64Array(sizes.length)
    for (let i = 0; i < sizes.length; i++)
      shiftedTimes[i] = times[i]! * deviceFactor * getSlopeFactor(sizes[i]!)
    const costs = {
      ...model.cpu,
      acceptMs: cpuFactor * model.cpu.acceptMs,
      prepareMs: cpuFactor * model.cpu.prepareMs,
    }
    return Math.log(
      softenCapacity(predictTimedCapacity({ ...model, cpu: costs, times: shiftedTimes }, slo), slo),
    )
  }
  const differenceStep = 0.05
  const logRates = new Map<ModelledServer, number>()
  const getLogRate = (modelled: ModelledServer, model: TimedModel) => {
    const value = logRates.get(modelled) ?? computeLogRate(modelled, model)
    logRates.set(modelled, value)
    return value
  }
  return {
    predictLogRate: (configuration) => {
      const { modelled, model } = predictCached(configuration)
      return modelled && model && getLogRate(modelled, model)
    },
    computeSensitivities(configuration) {
      const { modelled, model } = predictCached(configuration)
      if (!modelled || !model) return [0, 0, 0, 0, ...gpus.map(() => 0)]
      const { resources, serving } = modelled
      const base = getLogRate(modelled, model)
      const byCpu = (computeLogRate(modelled, model, differenceStep, 0) - base) / differenceStep
      const byDevice = (computeLogRate(modelled, model, 0, differenceStep) - base) / differenceStep
      const bySlope = byDevice * Math.log(serving.batchSize / typicalBatch)
      const device = resources.gpu ?? 'none'
      const byGpu = gpus.map((name) => (name === device ? byDevice : 0))
      return [
        byCpu,
        bySlope,
        -byDevice * computeLogShare(resources),
        -byDevice * computeLogCores(resources),
        ...byGpu,
      ]
    },
  }
}

/** ln of the GPU share; 0 without a GPU. */
const computeLogShare = ({ gpuShare }: Resources): number => (gpuShare > 0 ? Math.log(gpuShare) : 0)
/** ln of the cores; 0 with a GPU. */
const computeLogCores = ({ gpu, cpuCores }: Resources): number =>
  gpu === undefined ? Math.log(cpuCores) : 0

/** Limit below 1, so that the slowest device time is finite. */
const maxDeviceError = 0.95

/**
 * Propagates the errors of device and CPU to the capacity: shifts each input by its own error, and
 * adds the changes in quadrature. With a relative error e a batch takes up to 1 / (1 − e) as long,
 * so that the capacity of a limiting device has the same error.
 */
function propagateErrors(
  modelled: ModelledServer,
  capacity: PredictedCapacity,
  slo: EstimatorOptions['slo'],
): number {
  const model = createQueueingModel(modelled)
  const deviceError = modelled.predictBatchLatency(modelled.serving.batchSize).relativeError
  const computeChange = (deviceFactor: number, cpuFactor: number) => {
    const shifted = predictCapacity(
      {
        ...model,
        batchMs: (batch) => deviceFactor * model.batchMs(batch),
        cpu: {
          ...model.cpu,
          acceptMs: cpuFactor * model.cpu.acceptMs,
          prepareMs: cpuFactor * model.cpu.prepareMs,
        },
      },
      slo,
    )
    return capacity.capacityRps > 0 ? shifted.capacityRps / capacity.capacityRps - 1 : 1
  }
  return Math.hypot(
    computeChange(1 / (1 - Math.min(deviceError, maxDeviceError)), 1),
    computeChange(1, 1 + model.cpu.relativeError),
  )
}

/** Whether the needed memory is more than this multiple of the available memory. */
const isShortOfMemory = (
  { neededMiB = 0, availableMiB = Number.POSITIVE_INFINITY }: ModelledServer,
  factor: number,
): boolean => neededMiB > factor * availableMiB

/**
 * Computes the probability that the needed memory exceeds the available memory, if the need is
 * normal around its estimate (logistic approximation of the normal distribution, factor 1.702).
 */
function computeShortageProbability({
  neededMiB,
  availableMiB,
  memoryError,
}: ModelledServer): number {
  if (neededMiB === undefined || availableMiB === undefined || memoryError === undefined) return 0
  return 1 / (1 + Math.exp((-1.702 * (neededMiB / availableMiB - 1)) / memoryError))
}
