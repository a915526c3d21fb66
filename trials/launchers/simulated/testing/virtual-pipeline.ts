/** Pipelines of servers whose physics a test knows and a prediction does not. */
import type { Slo } from '../../../../profiler/model/slo.ts'
import type { Configuration } from '../../../../search/types.ts'
import type { Pipeline } from '../../../pipeline/pipeline.ts'
import { splitConfiguration } from '../../../pipeline/stage-configuration.ts'
import type { FinishedTrial, StageUsage } from '../../../types.ts'
import { createStretchedSchedule } from '../arrival-times.ts'
import type { BatchQueueOptions } from '../batch-queue.ts'
import { PipelineServer } from '../pipeline-server.ts'

/** The true queue of a replica, by stage and configuration. */
export type StagePhysics = (stage: string, configuration: Configuration) => BatchQueueOptions

const quotaPeriodMs = 100
const base = {
  maxDelayMs: 0,
  queueLimit: 1e9,
  instances: 1,
  devices: 1,
  deviceJitter: 0.05,
  uniform: () => 0.3,
}

/** A server that computes each visit on a core of its own. */
export const visits = (of: {
  readonly cpuMs: number
  readonly cores: number
  readonly jitter: number
}): BatchQueueOptions => ({
  ...base,
  cpu: { acceptMs: 0, prepareMs: of.cpuMs, jitter: of.jitter, overheadMs: 0.5, relativeError: 0 },
  cpuCores: of.cores,
  ...(of.cores < 1 && { quota: { periodMs: quotaPeriodMs, usedBy: 'requests' } }),
  maxBatchSize: 1,
  batchMs: () => 0,
})

/** A server that computes whatever waits as one batch. */
export const batches = (of: {
  readonly fixedMs: number
  readonly perItemMs: number
  readonly cores: number
  readonly maxBatch: number
}): BatchQueueOptions => ({
  ...base,
  cpu: { acceptMs: 0, prepareMs: 0, jitter: 0, overheadMs: 0.5, relativeError: 0 },
  cpuCores: of.cores,
  ...(of.cores < 1 && { quota: { periodMs: quotaPeriodMs, usedBy: 'batches' } }),
  maxBatchSize: of.maxBatch,
  batchMs: (batch) => (of.fixedMs + of.perItemMs * batch) / Math.max(1, of.cores),
})

const schedule = createStretchedSchedule()
const requestsPerLoad = 5000
const bisections = 14
/** Loads that a trial plays, as shares of its capacity. */
const loadShares = [0.1, 0.3, 0.6, 0.85, 0.95, 1, 1.1] as const

const createLoad = (rateRps: number) =>
  ({
    kind: 'open',
    rateRps,
    arrivals: { kind: 'poisson' },
    durationS: requestsPerLoad / rateRps,
    seed: 1,
  }) as const

/** Measures a configuration by simulation: its capacity, and the load curves of its stages. */
export function simulateTrial(
  pipeline: Pipeline,
  physics: StagePhysics,
  slo: Pick<Slo, 'percentile' | 'limitMs'>,
  configuration: Configuration,
): { readonly capacityRps: number; readonly trial: FinishedTrial } {
  const stages = new Map(
    splitConfiguration(configuration)!.map(({ stage, replicas, configuration }) => [
      stage,
      { queue: physics(stage, configuration), replicas },
    ]),
  )
  const server = new PipelineServer({
    pipeline,
    stages,
    schedule,
    predictCapacity: () => ({ capacityRps: 0, saturationRps: 1, unloadedMs: 1 }),
  })
  let [low, high] = [Math.log(1), Math.log(20_000)]
  for (let i = 0; i < bisections; i++) {
    const middle = (low + high) / 2
    const load = createLoad(Math.exp(middle))
    const allowed = Math.floor((1 - slo.percentile) * requestsPerLoad)
    const { violations } = server.countViolations(load, slo.limitMs, allowed)
    if (violations <= allowed) low = middle
    else high = middle
  }
  const capacityRps = Math.exp(low)
  const usages = loadShares.map((share) => {
    server.play(createLoad(share * capacityRps))
    const { elapsedMs, requests, stages: played } = server.lastPlay
    return played.map(({ stage, visits, visitMs, cpuBusyMs, deviceBusyMs }) => {
      const { queue, replicas } = stages.get(stage)!
      return {
        visitRps: (1000 * visits) / elapsedMs / replicas,
        visits: visits / requests,
        meanMs: visitMs / visits,
        // Batches compute on all cores.
        cpuMs: (cpuBusyMs + deviceBusyMs * Math.max(1, queue.cpuCores)) / visits,
        gpuMs: 0,
        isOpen: true,
        seconds: elapsedMs / 1000,
      }
    })
  })
  const stageUsages = pipeline.stages.map(({ name }, i): StageUsage => {
    const loads = usages.map((played) => played[i]!)
    const { visits, meanMs } = loads.at(-1)!
    return { stage: name, visits, meanMs, busyShare: 1, busier: 'cpu', loads }
  })
  return {
    capacityRps,
    trial: {
      number: 1,
      configuration,
      why: '',
      startedAt: '',
      state: 'complete',
      measurement: { outcome: 'converged', capacityRps, capacityCi90Rps: [low, high] },
      seconds: 1,
      usage: { stages: stageUsages },
    } as unknown as FinishedTrial,
  }
}
