/** A configuration as the device model sees it: model, devices and limits. */
import type { Configuration } from '../../../search/types.ts'
import { type Architecture, takesOf } from '../../devices/architecture.ts'
import { flopsOf } from '../../devices/call-work.ts'
import { findGpu, type Gpu, usableMemoryMiB } from '../../devices/catalogue.ts'
import {
  type AnchoredOn,
  type DeviceCall,
  type DeviceLatency,
  deviceLatencyMs,
  gpuMemoryMiB,
} from '../../devices/device-model.ts'
import { findMigProfile } from '../../devices/mig.ts'
import { isConvolutional, workOf } from '../../devices/work.ts'
import {
  instancesOnCores,
  type Resources,
  resourcesOf,
  type ServingParameters,
  servingParametersOf,
} from '../../resources.ts'
import { coresElsewhere, type MachineCores } from './cpu-stage.ts'

export interface ModelledServer {
  readonly architecture: Architecture
  readonly resources: Resources
  readonly serving: ServingParameters
  /** Device time of one batch of this size. */
  readonly batchLatency: (batch: number) => DeviceLatency
  readonly cores: MachineCores
  /** The fit of the server, and the device time of a batch without it, ms. */
  readonly anchor?: { readonly anchored: AnchoredOn; readonly deviceMs: (batch: number) => number }
  /** GPU memory of all instances at their largest batch; undefined without a GPU. */
  readonly neededMiB?: number
  /** As `DeviceLatency.relativeError`, of the memory. */
  readonly memoryError?: number
  readonly availableMiB?: number
  /** Power limit of the GPUs, times the share; undefined without a GPU. */
  readonly gpuWatts?: number
}

/**
 * Relative errors of the memory: of the built-in server, of one measured at several batches, and of a
 * framework without measurements.
 */
const modelledMemoryError = 0.15
const measuredMemoryError = 0.06
const unmeasuredMemoryError = 0.5

/**
 * @param defaults values of parameters that the configuration does not name
 * @throws DeviceModelError for values that the model cannot read
 */
export function modelledServer(
  architecture: Architecture,
  configuration: Configuration,
  defaults: Configuration = {},
  ownGpus: readonly Gpu[] = [],
  anchored?: AnchoredOn,
  cores = coresElsewhere,
): ModelledServer {
  const resources = resourcesOf(configuration, defaults, ownGpus)
  // The measured latencies of a server include its delay.
  const serving = servingParametersOf(configuration, {
    ...(anchored && { maxDelayMs: 0 }),
    ...(resources.gpu === undefined && { instances: instancesOnCores(resources.cpuCores) }),
    ...defaults,
  })
  if (resources.gpu === undefined)
    return {
      architecture,
      resources,
      serving,
      cores,
      batchLatency: onCores(architecture, resources, serving, cores.speed),
    }
  const gpu = findGpu(resources.gpu, ownGpus)
  const mig =
    resources.migProfile === undefined ? undefined : findMigProfile(gpu, resources.migProfile)
  const call = (batch: number): DeviceCall => ({
    architecture,
    gpu,
    batch,
    precision: serving.precision,
    sequenceLength: takesOf(architecture) === 'text' ? serving.sequenceLength : undefined,
    imageSize: serving.imageSize,
    share: mig ? 1 : resources.gpuShare,
    sharing: serving.sharing,
    mig,
  })
  const { precision, sequenceLength, imageSize, sharing } = serving
  const known = latenciesOf(
    architecture,
    gpu,
    [precision, sequenceLength, imageSize, mig?.name, resources.gpuShare, sharing].join(),
  )
  const bare = (batch: number): DeviceLatency => {
    let found = known.get(batch)
    if (found === undefined) {
      found = deviceLatencyMs(call(batch))
      known.set(batch, found)
    }
    return found
  }
  const processes = serving.instances
  return {
    architecture,
    resources,
    serving,
    cores,
    batchLatency: anchored
      ? (batch) => deviceLatencyMs({ ...call(batch), anchored, processes })
      : bare,
    ...(anchored && { anchor: { anchored, deviceMs: (batch: number) => bare(batch).ms } }),
    neededMiB:
      serving.instances *
      gpuMemoryMiB({ ...call(serving.batchSize), anchored, framework: anchored !== undefined }).mib,
    memoryError:
      anchored === undefined
        ? modelledMemoryError
        : anchored.memory === undefined
          ? unmeasuredMemoryError
          : measuredMemoryError,
    availableMiB: mig?.memoryMiB ?? usableMemoryMiB(gpu) * resources.gpuShare,
    gpuWatts:
      resources.gpus *
      gpu.tdpWatts *
      (mig ? mig.multiprocessors / gpu.multiprocessors : resources.gpuShare),
  }
}

const latencies = new WeakMap<Architecture, WeakMap<Gpu, Map<string, Map<number, DeviceLatency>>>>()

/** Memoised device times by batch: thousands of configurations share a few devices. */
function latenciesOf(
  architecture: Architecture,
  gpu: Gpu,
  rest: string,
): Map<number, DeviceLatency> {
  const ofArchitecture =
    latencies.get(architecture) ?? new WeakMap<Gpu, Map<string, Map<number, DeviceLatency>>>()
  latencies.set(architecture, ofArchitecture)
  const ofGpu = ofArchitecture.get(gpu) ?? new Map<string, Map<number, DeviceLatency>>()
  ofArchitecture.set(gpu, ofGpu)
  const found = ofGpu.get(rest) ?? new Map<number, DeviceLatency>()
  ofGpu.set(rest, found)
  return found
}

/**
 * Operations that one core of a server does per ms in the WebAssembly backend; 26-29 GFLOP/s on
 * large products, measured.
 */
const coreFlopsPerMs = 27e6
/**
 * Activation bytes that it reads and writes per ms between products, always on one core.
 * Convolutions fuse theirs into the products.
 */
const serialBytesPerMs = 2.3e6
/** Fixed cost of a batch. */
const callMs = 0.2
/**
 * Cost of each request beside its batch: in the process that receives it, in that of the instance,
 * and between them; 2 to 3 ms (`npm run bench:predictor -- cpu`).
 */
const handOverMs = 2.5
/** Relative error of such a time, in two cases of three. */
export const cpuError = 0.4

/**
 * Inference on the CPU: concurrent instances, by default one per core, that divide the cores. An
 * instance with several cores does part of its work on one of them (`npm run bench:predictor --
 * inference`).
 */
function onCores(
  architecture: Architecture,
  { cpuCores }: Resources,
  { sequenceLength, imageSize, instances }: ServingParameters,
  coreSpeed: number,
) {
  const known = new Map<number, DeviceLatency>()
  return (batch: number): DeviceLatency => {
    const found = known.get(batch) ?? { ms: batchMs(batch) / coreSpeed, relativeError: cpuError }
    known.set(batch, found)
    return found
  }
  function batchMs(batch: number): number {
    const work = workOf(architecture, { batch, sequenceLength, imageSize }, 'fp32')
    const serialBytes = isConvolutional(architecture) ? 0 : work.activationBytes
    const coresEach = Math.max(0.5, cpuCores / instances)
    return (
      callMs +
      batch * handOverMs +
      flopsOf(work) / (coreFlopsPerMs * coresEach ** 0.9) +
      serialBytes / serialBytesPerMs
    )
  }
}
