/** The launched stages of a pipeline as one predictor. */
import { mean, sum } from 'simple-statistics'
import type { HttpTarget } from '../../profiler/model/target.ts'
import type { Configuration } from '../../search/types.ts'
import { findStage, type StageConfiguration } from '../pipeline/stage-configuration.ts'
import type { Resources } from '../resources.ts'
import {
  LaunchError,
  type Predictor,
  type PredictorDeath,
  type StageUsage,
  type Usage,
} from '../types.ts'

/** A stage that serves. */
export interface StagePredictors {
  readonly name: string
  readonly replicas: readonly Predictor[]
}

/**
 * Joins stages into one predictor, without its usage and its end.
 * @param stages the entry first
 */
export function joinStages(stages: readonly StagePredictors[]): Pick<
  Predictor,
  'protocol' | 'provenance' | 'isolation' | 'logPath' | 'logTail' | 'died'
> & {
  readonly target: HttpTarget
} {
  const all = stages.flatMap(({ name, replicas }) => replicas.map((replica) => ({ name, replica })))
  const [entry] = stages as [StagePredictors]
  const [first] = entry.replicas as [Predictor]
  return {
    target: joinReplicas(entry.replicas.map(getHttpTarget)),
    protocol: first.protocol,
    provenance: all.some(({ replica }) => replica.provenance === 'emulated')
      ? 'emulated'
      : 'measured',
    isolation: all.map(({ name, replica }) => `${name}: ${replica.isolation}`).join('; '),
    logPath: first.logPath,
    logTail: () =>
      all.map(({ name, replica }) => `stage ${name}:\n${replica.logTail()}`).join('\n'),
    died: Promise.race(all.map(({ name, replica }) => describeStageDeath(name, replica))),
  }
}

/** Resolves when the replica ends by itself, with its stage. */
export const describeStageDeath = async (
  name: string,
  { died }: Predictor,
): Promise<PredictorDeath> => {
  const death = await died!
  return { ...death, what: `stage ${name}: ${death.what}` }
}

export function getHttpTarget({ target }: Predictor): HttpTarget {
  if (target.kind !== 'http') throw new TypeError('not a server')
  return target
}

/** Divides load over equal servers. */
const joinReplicas = (targets: readonly HttpTarget[]): HttpTarget => ({
  ...targets[0]!,
  ...(targets.length > 1 && {
    replicas: targets.map(({ url, path, headers }) => ({ url, path, headers, weight: 1 })),
  }),
})

/**
 * The configuration of a stage to launch, with its number of replicas.
 * @throws LaunchError if there is none
 */
export function requireStage(configuration: Configuration, name: string): StageConfiguration {
  const found = findStage(configuration, name)
  if (found === undefined)
    throw new LaunchError(`the configuration has no stage ${name}, which the pipeline has`)
  return found
}

/**
 * Names the log folder of a replica, below that of its trial.
 * @param number from 1
 */
export const nameReplicaFolder = (stage: string, replicas: number, number: number): string =>
  replicas === 1 ? stage : `${stage}-${number}`

/** The usage of each replica, by the name of its stage. */
export type StageUsages = ReadonlyMap<string, readonly Usage[]>

export const readUsages = async (stages: readonly StagePredictors[]): Promise<StageUsages> =>
  new Map(
    await Promise.all(
      stages.map(
        async ({ name, replicas }) =>
          [name, await Promise.all(replicas.map((one) => one.usage()))] as const,
      ),
    ),
  )

/** Sums over all replicas; unknown without a known value. */
export function sumUsages(usages: StageUsages): Pick<Usage, 'cpuCores' | 'peakRssMiB'> {
  const total = (read: (usage: Usage) => number | undefined): number | undefined => {
    const known = [...usages.values()].flat().flatMap((usage) => read(usage) ?? [])
    return known.length > 0 ? sum(known) : undefined
  }
  return {
    cpuCores: total(({ cpuCores }) => cpuCores),
    peakRssMiB: total(({ peakRssMiB }) => peakRssMiB),
  }
}

/**
 * Computes the busier resource of a stage.
 * @param resources of one replica
 */
export function computeBusyShare(
  usages: readonly Usage[],
  resources: Pick<Resources, 'cpuCores'>,
): Pick<StageUsage, 'busyShare' | 'busier'> {
  const cpuShare = computeMeanCores(usages) / resources.cpuCores
  const gpuShare = computeMeanGpuShare(usages)
  return {
    busyShare: Math.max(cpuShare, gpuShare),
    busier: gpuShare > cpuShare ? 'gpu' : 'cpu',
  }
}

export const computeMeanCores = (usages: readonly Usage[]): number =>
  mean(usages.map(({ cpuCores = 0 }) => cpuCores))

/** 0 to 1. */
export const computeMeanGpuShare = (usages: readonly Usage[]): number =>
  mean(usages.map(({ gpuUtilization = 0 }) => gpuUtilization))
