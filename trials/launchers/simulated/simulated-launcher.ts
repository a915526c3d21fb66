/**
 * The `simulated` launcher: a trial is a discrete-event simulation in virtual time over the device
 * model.
 */
import { createRng } from '../../../search/index.ts'
import type { Configuration } from '../../../search/types.ts'
import type { Architecture } from '../../devices/architecture.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import type { AnchoredOn } from '../../devices/device-model.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import { spoken } from '../../predictor/protocol/spoken.ts'
import { describeConfiguration } from '../../resources.ts'
import { InfeasibleError, type Launcher, type Predictor } from '../../types.ts'
import { stretching } from './arrival-times.ts'
import { SimulatedServer } from './batch-server.ts'
import type { CpuStage } from './cpu-stage.ts'
import { type ModelledServer, modelledServer } from './device.ts'
import { queuesOf, stageOf, turnsOf } from './estimate.ts'

interface SimulatedLauncherOptions {
  readonly architecture: Architecture
  /** Values of parameters that configurations do not name. */
  readonly defaults?: Configuration
  readonly ownGpus?: readonly Gpu[]
  /** What is known of a server that is not the built-in one. */
  readonly anchored?: AnchoredOn
  /** Each trial draws from a stream of its own, by this and its number. */
  readonly seed: number
  /** Standard deviation of ln(device time) from batch to batch; 0.01 unless said. */
  readonly deviceJitter?: number
  /** What a request costs on this CPU, of what the device model expects; 1 unless said. */
  readonly cpuCostFactor?: number
}

export function createSimulatedLauncher(options: SimulatedLauncherOptions): Launcher {
  const schedule = stretching()
  return {
    name: 'simulated',
    async launch(configuration, trialNumber, signal) {
      signal.throwIfAborted()
      const modelled = serverOrInfeasible(options, configuration)
      const { serving, resources } = modelled
      const server = new SimulatedServer({
        cpu: costing(options.cpuCostFactor, stageOf(modelled)),
        cpuCores: resources.cpuCores,
        maxBatchSize: serving.batchSize,
        maxDelayMs: serving.maxDelayMs,
        queueLimit: serving.queueLimit,
        instances: turnsOf(modelled),
        devices: queuesOf(modelled),
        batchMs: (batch) => modelled.batchLatency(batch).ms,
        deviceJitter: options.deviceJitter ?? 0.01,
        schedule,
        uniform: uniformOf(options.seed, trialNumber),
      })
      const words = describeConfiguration(configuration, options.defaults, options.ownGpus)
      return {
        target: { kind: 'virtual', server },
        protocol: spoken.tensors[0],
        provenance: 'simulated',
        isolation: `simulated in virtual time: ${words}`,
        logTail: () => '',
        usage: async () => usageOf(server, modelled),
        stop: async () => undefined,
      } satisfies Predictor
    },
    async sweep() {},
  }
}

const costing = (factor = 1, cpu: CpuStage): CpuStage => ({
  ...cpu,
  acceptMs: factor * cpu.acceptMs,
  prepareMs: factor * cpu.prepareMs,
})

function uniformOf(seed: number, trialNumber: number): () => number {
  const rng = createRng(seed).fork(`simulation-${trialNumber}`)
  return () => 1 - rng.next()
}

function serverOrInfeasible(
  { architecture, defaults, ownGpus, anchored }: SimulatedLauncherOptions,
  configuration: Configuration,
): ModelledServer {
  try {
    const modelled = modelledServer(architecture, configuration, defaults, ownGpus, anchored)
    const { neededMiB, availableMiB, serving } = modelled
    if (neededMiB !== undefined && availableMiB !== undefined && neededMiB > availableMiB)
      throw new InfeasibleError(
        'out-of-memory',
        `${architecture.name}, batch ${serving.batchSize}, ${serving.instances} instance(s) need ${Math.ceil(neededMiB)} MiB of GPU memory, but the share has ${Math.floor(availableMiB)} MiB (simulated)`,
      )
    modelled.batchLatency(serving.batchSize)
    return modelled
  } catch (error) {
    if (error instanceof DeviceModelError)
      throw new InfeasibleError(error.kind ?? 'crashed', error.message)
    throw error
  }
}

function usageOf(server: SimulatedServer, { neededMiB, gpuWatts, resources }: ModelledServer) {
  const { elapsedMs, cpuBusyMs, deviceBusyMs, batches, batched } = server.usage
  const played = elapsedMs > 0
  const onGpu = resources.gpu !== undefined
  return {
    ...(played && { cpuCores: cpuBusyMs / elapsedMs }),
    ...(onGpu && played && { gpuUtilization: deviceBusyMs / elapsedMs / resources.gpus }),
    ...(onGpu && { gpuMemoryMiB: neededMiB, gpuWatts }),
    ...(batches > 0 && { realisedBatch: batched / batches }),
    launchSeconds: 0,
  }
}
