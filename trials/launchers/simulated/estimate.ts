/**
 * Predictions of the device model before any trial: for the prior of the search and for `tune
 * estimate`.
 */
import type { Slo } from '../../../profiler/model/slo.ts'
import { configurationKey } from '../../../search/space/space.ts'
import type { Configuration, PriorFactors, ShiftedPrior } from '../../../search/types.ts'
import type { Architecture } from '../../devices/architecture.ts'
import { findGpu, type Gpu } from '../../devices/catalogue.ts'
import { type CalibratedServer, predictDeviceLatency } from '../../devices/device-model.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import type { Resources } from '../../resources.ts'
import type { BatchQueueOptions } from './batch-queue.ts'
import { createCalibratedFactors, shareExponentSd } from './calibrated-factors.ts'
import {
  type CpuStage,
  createCalibratedStage,
  createCpuStage,
  type MachineCores,
} from './cpu-stage.ts'
import { cpuError, type ModelledServer, modelServer } from './device.ts'
import {
  type PredictedCapacity,
  predictCapacity,
  predictTimedCapacity,
  softenCapacity,
  type TimedModel,
  tabulateDeviceTimes,
} from './estimated-capacity.ts'

interface EstimatorOptions {
  readonly architecture: Architecture
  readonly slo: Pick<Slo, 'percentile' | 'limitMs'>
  /** Values of parameters that configurations do not name. */
  readonly defaults?: Configuration
  readonly ownGpus?: readonly Gpu[]
  /** The fit of a server other than the built-in one. */
  readonly calibratedServer?: CalibratedServer
  readonly cores?: MachineCores
}

export type Estimated =
  | ({
      readonly serves: true
      /** The true capacity is within ± this share of it with a probability of about two thirds. */
      readonly relativeError: number
      /** Probability that the memory does not suffice. */
      readonly outOfMemory: number
      readonly neededMiB?: number
      readonly availableMiB?: number
    } & PredictedCapacity)
  | {
      readonly serves: false
      readonly reason: string
      /** Where memory is the reason: available over needed memory, below 1. */
      readonly memoryShare?: number
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
  /** Whether it certainly cannot serve: for memory beyond the model's error, or a missing feature. */
  cannotServe(configuration: Configuration): boolean
  /** Probability that the memory suffices, by the model's error; 1 where that is unknown. */
  memoryFitProbability(configuration: Configuration): number
  /** The full prediction, with errors. */
  estimate(configuration: Configuration): Estimated
}

/** Ratio of needed to available memory beyond which an error of the model cannot explain it. */
const computeCertainShortage = ({ memoryError = 0 }: ModelledServer): number =>
  1 + 2.35 * memoryError

interface Known {
  readonly modelled?: ModelledServer
  readonly model?: TimedModel
  readonly capacity?: PredictedCapacity
  readonly reason?: string
}

/** A memoising estimator. */
export function createEstimator(options: EstimatorOptions): Estimator {
  const { architecture, slo } = options
  const capacities = new Map<string, Known>()
  /** The same by object: one suggestion looks up each configuration several times. */
  const ofObject = new WeakMap<Configuration, Known>()

  const read = (configuration: Configuration) => {
    const asked = ofObject.get(configuration)
    if (asked) return asked
    const key = configurationKey(configuration)
    const known = capacities.get(key)
    if (known) {
      ofObject.set(configuration, known)
      return known
    }
    let found: Known
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
      found = { modelled, model, capacity: predictTimedCapacity(model, slo) }
    } catch (error) {
      if (!(error instanceof DeviceModelError)) throw error
      found = { reason: error.message }
    }
    capacities.set(key, found)
    ofObject.set(configuration, found)
    return found
  }

  return {
    priorLogRate(configuration) {
      const { capacity } = read(configuration)
      return capacity && Math.log(softenCapacity(capacity, slo))
    },
    priorFactors: (gpus) =>
      options.calibratedServer
        ? createCalibratedFactors(options.calibratedServer, {
            architecture,
            ownGpus: options.ownGpus,
            gpus,
            read,
            slo,
          })
        : {
            sd: [
              createCpuStage(architecture).relativeError,
              batchSlopeSd,
              shareExponentSd,
              coreExponentSd,
              ...gpus.map((gpu) => combineDeviceError(architecture, gpu, options.ownGpus)),
            ],
            applyFactors: (logFactors) => shiftPrior(logFactors, gpus, read, slo),
          },
    priorLogConstraint(configuration) {
      const { capacity } = read(configuration)
      return capacity && Math.log(capacity.unloadedMs)
    },
    cannotServe(configuration) {
      const { modelled, reason } = read(configuration)
      return (
        reason !== undefined ||
        (modelled !== undefined && isShort(modelled, computeCertainShortage(modelled)))
      )
    },
    memoryFitProbability(configuration) {
      const { modelled } = read(configuration)
      return modelled ? 1 - computeShortageProbability(modelled) : 1
    },
    estimate(configuration) {
      const { modelled, capacity, reason } = read(configuration)
      if (!modelled || !capacity) return { serves: false, reason: reason! }
      const { neededMiB, availableMiB } = modelled
      if (neededMiB !== undefined && availableMiB !== undefined && isShort(modelled, 1))
        return {
          serves: false,
          reason: `needs ${Math.ceil(neededMiB)} MiB of GPU memory, but has ${Math.floor(availableMiB)} MiB`,
          memoryShare: availableMiB / neededMiB,
        }
      return {
        serves: true,
        ...capacity,
        ...(modelled.resources.gpu === undefined &&
          capacity.binding === 'gpu' && { binding: 'cpu' }),
        relativeError: propagateErrors(modelled, capacity, slo),
        outOfMemory: computeShortageProbability(modelled),
        neededMiB,
        availableMiB,
      }
    },
  }
}

/**
 * Standard deviations of d ln(time) / d ln(batch), and of the exponent of the cores, which a load
 * generator on the same machine shares.
 */
const batchSlopeSd = 0.03
const coreExponentSd = 0.25
const typicalBatch = 8
/** Of the GPUs of the tables, in another host and with other versions. */
const minDeviceError = 0.05

const combineDeviceError = (
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
 * The prior with CPU cost, batch slope, exponents of share and cores, and the time of each GPU
 * shifted; its sensitivities are forward differences.
 */
function shiftPrior(
  [cpu, slope, share, cores, ...devices]: readonly number[],
  gpus: readonly string[],
  read: (configuration: Configuration) => Known,
  slo: EstimatorOptions['slo'],
): ShiftedPrior {
  /** exp(slope × ln(batch / typical)), by batch. */
  const sloped = new Map<number, number>()
  const slopeAt = (batch: number): number => {
    const found = sloped.get(batch) ?? Math.exp(slope! * Math.log(batch / typicalBatch))
    sloped.set(batch, found)
    return found
  }
  const logRate = (
    { resources }: ModelledServer,
    model: TimedModel,
    extraCpu = 0,
    extraDevice = 0,
  ) => {
    const moved = share! * logShare(resources) + cores! * logCores(resources)
    const level = Math.exp(
      (devices[gpus.indexOf(resources.gpu ?? 'none')] ?? 0) - moved + extraDevice,
    )
    const costlier = Math.exp(cpu! + extraCpu)
    const { sizes, times } = model
    const movedTimes = new Float64Array(sizes.length)
    for (let i = 0; i < sizes.length; i++) movedTimes[i] = times[i]! * level * slopeAt(sizes[i]!)
    const costs = {
      ...model.cpu,
      acceptMs: costlier * model.cpu.acceptMs,
      prepareMs: costlier * model.cpu.prepareMs,
    }
    return Math.log(
      softenCapacity(predictTimedCapacity({ ...model, cpu: costs, times: movedTimes }, slo), slo),
    )
  }
  const step = 0.05
  const known = new Map<ModelledServer, number>()
  const remembered = (modelled: ModelledServer, model: TimedModel) => {
    const value = known.get(modelled) ?? logRate(modelled, model)
    known.set(modelled, value)
    return value
  }
  return {
    predictLogRate: (configuration) => {
      const { modelled, model } = read(configuration)
      return modelled && model && remembered(modelled, model)
    },
    computeSensitivities(configuration) {
      const { modelled, model } = read(configuration)
      if (!modelled || !model) return [0, 0, 0, 0, ...gpus.map(() => 0)]
      const { resources, serving } = modelled
      const base = remembered(modelled, model)
      const byCpu = (logRate(modelled, model, step, 0) - base) / step
      const byDevice = (logRate(modelled, model, 0, step) - base) / step
      const bySlope = byDevice * Math.log(serving.batchSize / typicalBatch)
      const device = resources.gpu ?? 'none'
      const ofDevices = gpus.map((name) => (name === device ? byDevice : 0))
      return [
        byCpu,
        bySlope,
        -byDevice * logShare(resources),
        -byDevice * logCores(resources),
        ...ofDevices,
      ]
    },
  }
}

/** ln of the GPU share, and of the cores without a GPU. */
const logShare = ({ gpuShare }: Resources): number => (gpuShare > 0 ? Math.log(gpuShare) : 0)
const logCores = ({ gpu, cpuCores }: Resources): number =>
  gpu === undefined ? Math.log(cpuCores) : 0

export const createQueueingModel = (
  modelled: ModelledServer,
  cpu: CpuStage = deriveCpuStage(modelled),
) => ({
  cpu,
  cpuCores: modelled.resources.cpuCores,
  maxBatchSize: modelled.serving.batchSize,
  maxDelayMs: modelled.serving.maxDelayMs,
  devices: countQueues(modelled),
  batchMs: (batch: number) => modelled.batchLatency(batch).ms,
})

/** The queue of a simulated server. */
export const createBatchQueueOptions = (
  modelled: ModelledServer,
  uniform: () => number,
  deviceJitter = defaultDeviceJitter,
): BatchQueueOptions => ({
  ...createQueueingModel(modelled),
  queueLimit: modelled.serving.queueLimit,
  instances: countInstancesPerQueue(modelled),
  deviceJitter,
  uniform,
})

/** Standard deviation of ln(device time) from batch to batch. */
const defaultDeviceJitter = 0.01

/**
 * Whether each instance has its own queue: on CPU, and for a calibrated server, whose batch times
 * include the turns of all processes on the GPU.
 */
const hasOwnQueues = ({ resources, calibration }: ModelledServer): boolean =>
  calibration !== undefined || resources.gpu === undefined

/** Number of servers that take batches from the queue. */
const countQueues = (modelled: ModelledServer): number =>
  Math.max(1, modelled.resources.gpus) * (hasOwnQueues(modelled) ? modelled.serving.instances : 1)

/** Concurrent batches on each of them. */
const countInstancesPerQueue = (modelled: ModelledServer): number =>
  hasOwnQueues(modelled) ? 1 : modelled.serving.instances

/** The CPU stage; the batch times of a calibrated server include it. */
const deriveCpuStage = ({
  architecture,
  resources,
  serving,
  calibration,
  cores,
}: ModelledServer): CpuStage =>
  calibration
    ? createCalibratedStage(
        calibration.calibratedServer.parameters,
        { instances: serving.instances, cpuCores: resources.cpuCores },
        calibration.calibratedServer.perRequest,
      )
    : createCpuStage(architecture, serving.sequenceLength, resources.cpuCores, cores)

/** Limit below 1, so that the slowest device time is finite. */
const maxDeviceError = 0.95

/**
 * Propagates the errors of device and CPU to the capacity: each input is shifted by its own error,
 * and the changes add up in squares. With a relative error e a batch takes up to 1 / (1 − e) as long,
 * so that the capacity of a limiting device has the same error.
 */
function propagateErrors(
  modelled: ModelledServer,
  capacity: PredictedCapacity,
  slo: EstimatorOptions['slo'],
): number {
  const model = createQueueingModel(modelled)
  const device = modelled.batchLatency(modelled.serving.batchSize).relativeError
  const change = (deviceFactor: number, cpuFactor: number) => {
    const moved = predictCapacity(
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
    return capacity.capacityRps > 0 ? moved.capacityRps / capacity.capacityRps - 1 : 1
  }
  return Math.hypot(
    change(1 / (1 - Math.min(device, maxDeviceError)), 1),
    change(1, 1 + model.cpu.relativeError),
  )
}

/** Whether needed memory exceeds the available by more than this factor. */
const isShort = (
  { neededMiB = 0, availableMiB = Number.POSITIVE_INFINITY }: ModelledServer,
  factor: number,
): boolean => neededMiB > factor * availableMiB

/**
 * P(need > share) for a need that is normal around its estimate (logistic approximation of the
 * normal distribution).
 */
function computeShortageProbability({
  neededMiB,
  availableMiB,
  memoryError,
}: ModelledServer): number {
  if (neededMiB === undefined || availableMiB === undefined || memoryError === undefined) return 0
  return 1 / (1 + Math.exp((-1.702 * (neededMiB / availableMiB - 1)) / memoryError))
}
