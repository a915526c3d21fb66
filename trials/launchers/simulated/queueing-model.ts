/** Converts a modelled server into the queueing model of the closed form and of the simulation. */
import type { BatchQueueOptions } from './batch-queue.ts'
import { type CpuStage, createCalibratedStage, createCpuStage } from './cpu-stage.ts'
import type { ModelledServer } from './modelled-server.ts'

/** Creates the queueing model of a server, for the closed form and for the simulation. */
export const createQueueingModel = (
  modelled: ModelledServer,
  cpu: CpuStage = deriveCpuStage(modelled),
) => ({
  cpu,
  cpuCores: modelled.resources.cpuCores,
  maxBatchSize: modelled.serving.batchSize,
  maxDelayMs: modelled.serving.maxDelayMs,
  devices: countQueues(modelled),
  batchMs: (batch: number) => modelled.predictBatchLatency(batch).ms,
})

/** Creates the options of a simulated server's queue. */
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
 * already include waiting for the other processes on the GPU.
 */
const hasOwnQueues = ({ resources, calibration }: ModelledServer): boolean =>
  calibration !== undefined || resources.gpu === undefined

/** Counts the servers that take batches from the queue. */
const countQueues = (modelled: ModelledServer): number =>
  Math.max(1, modelled.resources.gpus) * (hasOwnQueues(modelled) ? modelled.serving.instances : 1)

/** Counts the concurrent batches on each of these servers. */
const countInstancesPerQueue = (modelled: ModelledServer): number =>
  hasOwnQueues(modelled) ? 1 : modelled.serving.instances

/** Derives the CPU stage; the batch times of a calibrated server include it. */
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
