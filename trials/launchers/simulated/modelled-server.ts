/**
 * Models a configured server: device times, memory and limits, for capacity models and simulation.
 */
import type { Configuration } from '../../../search/types.ts'
import { type Architecture, getInputKind } from '../../devices/architecture.ts'
import { countFlops } from '../../devices/call-work.ts'
import { computeUsableMemoryMiB, findGpu, type Gpu } from '../../devices/catalogue.ts'
import {
  type CalibratedServer,
  type DeviceCall,
  type DeviceLatency,
  predictDeviceLatency,
  predictGpuMemory,
} from '../../devices/device-model.ts'
import { findMigProfile } from '../../devices/mig.ts'
import { countWork, isConvolutional } from '../../devices/work.ts'
import {
  countCpuInstances,
  parseResources,
  type Resources,
  readServingParameters,
  type ServingParameters,
} from '../../resources.ts'
import { type MachineCores, referenceCores } from './cpu-stage.ts'

export interface ModelledServer {
  readonly architecture: Architecture
  readonly resources: Resources
  readonly serving: ServingParameters
  /** Predicts the device time of one batch of this size. */
  readonly predictBatchLatency: (batch: number) => DeviceLatency
  readonly cores: MachineCores
  /** Calibration of the server, and the uncalibrated device time of a batch, ms. */
  readonly calibration?: {
    readonly calibratedServer: CalibratedServer
    readonly deviceMs: (batch: number) => number
  }
  /** GPU memory of all instances at their largest batch; undefined without a GPU. */
  readonly neededMiB?: number
  /** Relative error of the memory, like `DeviceLatency.relativeError`. */
  readonly memoryError?: number
  readonly availableMiB?: number
  /** Power limit of the GPUs, times the share; undefined without a GPU. */
  readonly gpuWatts?: number
}

/** Relative error of the predicted GPU memory of the built-in server. */
const modelledMemoryError = 0.15
/** Relative error for a server whose memory was measured at several batch sizes. */
const measuredMemoryError = 0.06
/** Relative error for a framework server without memory measurements. */
const unmeasuredMemoryError = 0.5

/**
 * Models the server of a configuration.
 * @param defaults values of parameters that the configuration does not name
 * @throws DeviceModelError for values that the model cannot parse
 */
export function modelServer(
  architecture: Architecture,
  configuration: Configuration,
  defaults: Configuration = {},
  ownGpus: readonly Gpu[] = [],
  calibratedServer?: CalibratedServer,
  cores = referenceCores,
): ModelledServer {
  const resources = parseResources(configuration, defaults, ownGpus)
  // Calibrated latencies already include the batching delay.
  const serving = readServingParameters(configuration, {
    ...(calibratedServer && { maxDelayMs: 0 }),
    ...(resources.gpu === undefined && { instances: countCpuInstances(resources.cpuCores) }),
    ...defaults,
  })
  if (resources.gpu === undefined)
    return {
      architecture,
      resources,
      serving,
      cores,
      predictBatchLatency: modelCpuInference(architecture, resources, serving, cores.speed),
    }
  const gpu = findGpu(resources.gpu, ownGpus)
  const mig =
    resources.migProfile === undefined ? undefined : findMigProfile(gpu, resources.migProfile)
  const createCall = (batch: number): DeviceCall => ({
    architecture,
    gpu,
    batch,
    precision: serving.precision,
    sequenceLength: getInputKind(architecture) === 'text' ? serving.sequenceLength : undefined,
    imageSize: serving.imageSize,
    // A MIG slice is a device of its own.
    share: mig ? 1 : resources.gpuShare,
    sharing: serving.sharing,
    mig,
  })
  const { precision, sequenceLength, imageSize, sharing } = serving
  const latenciesByBatch = findLatencyCache(
    architecture,
    gpu,
    [precision, sequenceLength, imageSize, mig?.name, resources.gpuShare, sharing].join(),
  )
  const predictUncalibrated = (batch: number): DeviceLatency => {
    let latency = latenciesByBatch.get(batch)
    if (latency === undefined) {
      latency = predictDeviceLatency(createCall(batch))
      latenciesByBatch.set(batch, latency)
    }
    return latency
  }
  const processes = serving.instances
  return {
    architecture,
    resources,
    serving,
    cores,
    predictBatchLatency: calibratedServer
      ? (batch) => predictDeviceLatency({ ...createCall(batch), calibratedServer, processes })
      : predictUncalibrated,
    ...(calibratedServer && {
      calibration: { calibratedServer, deviceMs: (batch: number) => predictUncalibrated(batch).ms },
    }),
    neededMiB:
      serving.instances *
      predictGpuMemory({
        ...createCall(serving.batchSize),
        calibratedServer,
        isEager: calibratedServer !== undefined,
      }).mib,
    memoryError:
      calibratedServer === undefined
        ? modelledMemoryError
        : calibratedServer.memory === undefined
          ? unmeasuredMemoryError
          : measuredMemoryError,
    availableMiB: mig?.memoryMiB ?? computeUsableMemoryMiB(gpu) * resources.gpuShare,
    gpuWatts:
      resources.gpus *
      gpu.tdpWatts *
      (mig ? mig.multiprocessors / gpu.multiprocessors : resources.gpuShare),
  }
}

const latencyCaches = new WeakMap<
  Architecture,
  WeakMap<Gpu, Map<string, Map<number, DeviceLatency>>>
>()

/**
 * Finds the device times by batch. They are shared, because thousands of configurations differ only
 * in settings that do not affect them.
 */
function findLatencyCache(
  architecture: Architecture,
  gpu: Gpu,
  settings: string,
): Map<number, DeviceLatency> {
  const byGpu =
    latencyCaches.get(architecture) ?? new WeakMap<Gpu, Map<string, Map<number, DeviceLatency>>>()
  latencyCaches.set(architecture, byGpu)
  const bySettings = byGpu.get(gpu) ?? new Map<string, Map<number, DeviceLatency>>()
  byGpu.set(gpu, bySettings)
  const latenciesByBatch = bySettings.get(settings) ?? new Map<number, DeviceLatency>()
  bySettings.set(settings, latenciesByBatch)
  return latenciesByBatch
}

/**
 * FLOP per ms of one server core in the WebAssembly backend. Measured on large matrix products:
 * 26 to 29 GFLOP/s.
 */
const coreFlopsPerMs = 27e6
/** n cores speed up a matrix product n^0.9 times. */
const coreScalingExponent = 0.9
/**
 * Activation bytes per ms of element-wise operations, which run on a single core. Convolutional
 * models fuse them into the products.
 */
const serialBytesPerMs = 2.3e6
/** Fixed cost of a batch, ms. */
const fixedBatchMs = 0.2
/**
 * Overhead of each request in addition to its batch, ms: in the receiving process, in the instance
 * process, and between them. Measured: 2 to 3 ms (`npm run bench:predictor -- cpu`).
 */
const perItemOverheadMs = 2.5
/** Relative error (standard deviation) of CPU times. */
export const cpuError = 0.4

/**
 * Models inference on the CPU: concurrent instances, by default one per core, divide the cores. An
 * instance with several cores runs its element-wise operations on one of them (`npm run
 * bench:predictor -- inference`).
 */
function modelCpuInference(
  architecture: Architecture,
  { cpuCores }: Resources,
  { sequenceLength, imageSize, instances }: ServingParameters,
  coreSpeed: number,
) {
  const latenciesByBatch = new Map<number, DeviceLatency>()
  return (batch: number): DeviceLatency => {
    const latency = latenciesByBatch.get(batch) ?? {
      ms: computeBatchMs(batch) / coreSpeed,
      relativeError: cpuError,
    }
    latenciesByBatch.set(batch, latency)
    return latency
  }
  function computeBatchMs(batch: number): number {
    const work = countWork(architecture, { batch, sequenceLength, imageSize }, 'fp32')
    const serialBytes = isConvolutional(architecture) ? 0 : work.activationBytes
    const coresEach = Math.max(0.5, cpuCores / instances)
    return (
      fixedBatchMs +
      batch * perItemOverheadMs +
      countFlops(work) / (coreFlopsPerMs * coresEach ** coreScalingExponent) +
      serialBytes / serialBytesPerMs
    )
  }
}
