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
  /** Device time of one batch of this size. */
  readonly batchLatency: (batch: number) => DeviceLatency
  readonly cores: MachineCores
  /** The fit of the server, and the device time of a batch without it, ms. */
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

/**
 * Relative errors of the memory: of the built-in server, of one measured at several batches, and of
 * a framework without measurements.
 */
const modelledMemoryError = 0.15
const measuredMemoryError = 0.06
const unmeasuredMemoryError = 0.5

/**
 * @param defaults values of parameters that the configuration does not name
 * @throws DeviceModelError for values that the model cannot read
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
  // The measured latencies of a server include its delay.
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
      batchLatency: modelCpuInference(architecture, resources, serving, cores.speed),
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
    batchLatency: calibratedServer
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
        framework: calibratedServer !== undefined,
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

const latencies = new WeakMap<Architecture, WeakMap<Gpu, Map<string, Map<number, DeviceLatency>>>>()

/** Finds the cache of device times by batch: thousands of configurations share a few devices. */
function findLatencyCache(
  architecture: Architecture,
  gpu: Gpu,
  settings: string,
): Map<number, DeviceLatency> {
  const ofArchitecture =
    latencies.get(architecture) ?? new WeakMap<Gpu, Map<string, Map<number, DeviceLatency>>>()
  latencies.set(architecture, ofArchitecture)
  const ofGpu = ofArchitecture.get(gpu) ?? new Map<string, Map<number, DeviceLatency>>()
  ofArchitecture.set(gpu, ofGpu)
  const found = ofGpu.get(settings) ?? new Map<number, DeviceLatency>()
  ofGpu.set(settings, found)
  return found
}

/**
 * Operations that one core of a server does per ms in the WebAssembly backend; 26-29 GFLOP/s on
 * large products, measured.
 */
const coreFlopsPerMs = 27e6
/** n cores multiply products as fast as n^0.9 of them. */
const coreScalingExponent = 0.9
/**
 * Activation bytes that it reads and writes per ms between products, always on one core.
 * Convolutions fuse theirs into the products.
 */
const serialBytesPerMs = 2.3e6
/** Fixed cost of a batch. */
const callMs = 0.2
/**
 * Overhead of each request in addition to its batch, in the receiving process, the instance's
 * process, and between them: 2 to 3 ms (`npm run bench:predictor -- cpu`).
 */
const handOverMs = 2.5
/** Relative error (standard deviation) of CPU times. */
export const cpuError = 0.4

/**
 * Inference on the CPU: concurrent instances, by default one per core, that divide the cores. An
 * instance with several cores does part of its work on one of them (`npm run bench:predictor --
 * inference`).
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
      callMs +
      batch * handOverMs +
      countFlops(work) / (coreFlopsPerMs * coresEach ** coreScalingExponent) +
      serialBytes / serialBytesPerMs
    )
  }
}
