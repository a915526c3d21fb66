/** The queue of a replica of a stage, from what its visits demand. */
import type { Configuration } from '../../../search/types.ts'
import type { BatchQueueOptions } from './batch-queue.ts'

/** Demand of visits to a replica. */
export interface StageDemand {
  /** Time of a batch: `fixedMs` + `perItemMs` × its size. Visits without batches take both. */
  readonly fixedMs: number
  readonly perItemMs: number
  /** What this time uses: the cores, or a GPU. */
  readonly usedBy: 'cpu' | 'gpu'
  /** CPU time of a visit beside its batch, ms. */
  readonly cpuMs: number
  /** Latency without load beyond these, ms. */
  readonly overheadMs: number
}

export const isBatchSize = (parameter: string): boolean => /batch/i.test(parameter)

export const readCores = ({ cpuCores = 1 }: Configuration): number => Number(cpuCores)

/** The largest batch; 1 where no parameter bounds it. */
export function readMaxBatch(configuration: Configuration): number {
  const [, size] = Object.entries(configuration).find(([name]) => isBatchSize(name)) ?? []
  return typeof size === 'number' ? Math.max(1, size) : 1
}

/** The kernel's default period of limits of CPU time, ms. */
const quotaPeriodMs = 100
/** Standard deviation of ln(time) from visit to visit, and from batch to batch. Assumed. */
const visitJitter = 0.5
const batchJitter = 0.1

/** Without batches each core serves one visit; a batch is computed by all cores. */
export function createStageQueue(
  { fixedMs, perItemMs, usedBy, cpuMs, overheadMs }: StageDemand,
  configuration: Configuration,
): BatchQueueOptions {
  const cpuCores = readCores(configuration)
  const maxBatchSize = readMaxBatch(configuration)
  const computesVisits = usedBy === 'cpu' && maxBatchSize === 1
  const speed = usedBy === 'gpu' ? 1 : Math.max(1, cpuCores)
  return {
    cpu: {
      acceptMs: 0,
      prepareMs: computesVisits ? fixedMs + perItemMs : cpuMs,
      jitter: visitJitter,
      overheadMs,
      relativeError: 0,
    },
    cpuCores,
    ...(!Number.isInteger(cpuCores) && {
      quota: {
        periodMs: quotaPeriodMs,
        usedBy: usedBy === 'gpu' || computesVisits ? 'requests' : 'batches',
      },
    }),
    maxBatchSize,
    maxDelayMs: 0,
    queueLimit: Number.POSITIVE_INFINITY,
    instances: 1,
    devices: 1,
    batchMs: computesVisits ? () => 0 : (batch) => (fixedMs + perItemMs * batch) / speed,
    deviceJitter: batchJitter,
    uniform: () => 0.5,
  }
}
