/**
 * The `simulated` launcher: a trial is a discrete-event simulation in virtual time over the device
 * model. The steps of a launch:
 *
 * 1. Parse the configuration for the device model (`device.ts`); infeasible if memory does not
 *    suffice.
 * 2. Derive the stages of the server: its CPU costs (`cpu-stage.ts`), queues and instances.
 * 3. Create a virtual server of them (`batch-server.ts`), which runs any load.
 */
import { createRng } from '../../../search/index.ts'
import type { Configuration } from '../../../search/types.ts'
import type { Architecture } from '../../devices/architecture.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import type { CalibratedServer } from '../../devices/device-model.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import { spoken } from '../../predictor/protocol/spoken.ts'
import { describeConfiguration } from '../../resources.ts'
import { InfeasibleError, type Launcher, type Predictor } from '../../types.ts'
import { createStretchedSchedule } from './arrival-times.ts'
import { SimulatedServer } from './batch-server.ts'
import type { CpuStage } from './cpu-stage.ts'
import { type ModelledServer, modelServer } from './modelled-server.ts'
import { createBatchQueueOptions } from './queueing-model.ts'

interface SimulatedLauncherOptions {
  readonly architecture: Architecture
  /** Values of parameters that configurations do not name. */
  readonly defaults?: Configuration
  readonly ownGpus?: readonly Gpu[]
  /** The fit of a server other than the built-in one. */
  readonly calibratedServer?: CalibratedServer
  /** Seeds the random stream of each trial, with the trial's number. */
  readonly seed: number
  /** Standard deviation of ln(device time) from batch to batch. Default 0.01. */
  readonly deviceJitter?: number
  /** CPU cost of a request, relative to the device model. Default 1. */
  readonly cpuCostFactor?: number
}

/** Inputs of the model of a server, in addition to its configuration. */
export type ServerModelOptions = Pick<
  SimulatedLauncherOptions,
  'architecture' | 'defaults' | 'ownGpus' | 'calibratedServer'
>

export function createSimulatedLauncher(options: SimulatedLauncherOptions): Launcher {
  const schedule = createStretchedSchedule()
  return {
    name: 'simulated',
    async launch(configuration, trialNumber, signal) {
      signal.throwIfAborted()
      const modelled = createServerOrThrow(options, configuration)
      const queue = createBatchQueueOptions(
        modelled,
        createTrialUniform(options.seed, trialNumber),
        options.deviceJitter,
      )
      const server = new SimulatedServer({
        ...queue,
        cpu: scaleCpuCosts(options.cpuCostFactor, queue.cpu),
        schedule,
      })
      const words = describeConfiguration(configuration, options.defaults, options.ownGpus)
      return {
        target: { kind: 'virtual', server },
        protocol: spoken.tensors[0],
        provenance: 'simulated',
        isolation: `simulated in virtual time: ${words}`,
        logTail: () => '',
        usage: async () => readUsage(server, modelled),
        stop: async () => undefined,
      } satisfies Predictor
    },
    async sweep() {},
  }
}

const scaleCpuCosts = (factor = 1, cpu: CpuStage): CpuStage => ({
  ...cpu,
  acceptMs: factor * cpu.acceptMs,
  prepareMs: factor * cpu.prepareMs,
})

export function createTrialUniform(seed: number, trialNumber: number): () => number {
  const rng = createRng(seed).fork(`simulation-${trialNumber}`)
  return () => 1 - rng.next()
}

/** @throws InfeasibleError for a configuration that cannot serve */
export function createServerOrThrow(
  { architecture, defaults, ownGpus, calibratedServer }: ServerModelOptions,
  configuration: Configuration,
): ModelledServer {
  try {
    const modelled = modelServer(architecture, configuration, defaults, ownGpus, calibratedServer)
    const { neededMiB, availableMiB, serving } = modelled
    if (neededMiB !== undefined && availableMiB !== undefined && neededMiB > availableMiB)
      throw new InfeasibleError(
        'out-of-memory',
        `${architecture.name}, batch ${serving.batchSize}, ${serving.instances} instance(s) need ${Math.ceil(neededMiB)} MiB of GPU memory, but the share has ${Math.floor(availableMiB)} MiB (simulated)`,
      )
    modelled.predictBatchLatency(serving.batchSize)
    return modelled
  } catch (error) {
    if (error instanceof DeviceModelError)
      throw new InfeasibleError(error.kind ?? 'crashed', error.message)
    throw error
  }
}

function readUsage(server: SimulatedServer, { neededMiB, gpuWatts, resources }: ModelledServer) {
  const { elapsedMs, cpuBusyMs, deviceBusyMs, batches, batchedRequests } = server.usage
  const played = elapsedMs > 0
  const onGpu = resources.gpu !== undefined
  return {
    ...(played && { cpuCores: cpuBusyMs / elapsedMs }),
    ...(onGpu && played && { gpuUtilization: deviceBusyMs / elapsedMs / resources.gpus }),
    ...(onGpu && { gpuMemoryMiB: neededMiB, gpuWatts }),
    ...(batches > 0 && { realisedBatch: batchedRequests / batches }),
    launchSeconds: 0,
  }
}
