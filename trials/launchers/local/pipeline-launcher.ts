/**
 * Launches pipelines as processes of this machine. The steps of a launch:
 *
 * 1. Check that all stages together fit in the cores of this machine.
 * 2. Launch the stages one after the other, the called ones before their callers: each replica as a
 *    single predictor (`local-launcher.ts`), in a folder of its own.
 * 3. Start a relay before each called stage (`stage-relay.ts`), whose address its callers receive.
 * 4. Return a predictor whose requests go to the replicas of the entry.
 */
import type { Configuration } from '../../../search/types.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import type { MachineFacts } from '../../machine/machine-facts.ts'
import type { Pipeline } from '../../pipeline/pipeline.ts'
import { findStage } from '../../pipeline/stage-configuration.ts'
import { addStageToError } from '../../pipeline/stage-error.ts'
import { readResources } from '../../resources.ts'
import { LaunchError, type Launcher, type OnWaiting, type Predictor } from '../../types.ts'
import { Cleanup } from '../cleanup.ts'
import {
  getHttpTarget,
  joinStages,
  nameReplicaFolder,
  readUsages,
  requireStage,
  sumUsages,
} from '../stage-predictors.ts'
import type { LocalLauncherOptions } from './launch.ts'
import { createLocalLauncher } from './local-launcher.ts'
import { countCores, createResourcePool, type ResourcePool } from './resource-pool.ts'
import { startStageRelay } from './stage-relay.ts'
import { type ServingStage, StageUsageMeter } from './stage-usage.ts'

export interface LocalPipelineOptions {
  readonly pipeline: Pipeline
  /** How each stage is launched, by name. */
  readonly stages: ReadonlyMap<string, Omit<LocalLauncherOptions, 'stage'>>
  readonly machine: MachineFacts
  readonly ownGpus?: readonly Gpu[]
}

export function createLocalPipelineLauncher(options: LocalPipelineOptions): Launcher {
  const { pipeline, stages, machine, ownGpus } = options
  const pool = createResourcePool(machine, ownGpus)
  const entry = createLocalLauncher(stages.get(pipeline.stages[0]!.name)!)
  return {
    name: 'local',
    launch: async (configuration, trialNumber, signal, onWaiting) => {
      checkCores(options, configuration)
      const startedMs = performance.now()
      const cleanup = new Cleanup()
      const launched: ServingStage[] = []
      try {
        for (const { name } of pipeline.stages.toReversed())
          launched.unshift(
            await launchStage(name, configuration, {
              options,
              pool,
              trialNumber,
              signal,
              onWaiting,
              callable: launched,
              cleanup,
            }),
          )
      } catch (error) {
        await cleanup.run()
        signal.throwIfAborted()
        throw error
      }
      const launchSeconds = (performance.now() - startedMs) / 1000
      return createPredictor(pipeline, launched, launchSeconds, cleanup)
    },
    // All stages note their predictors in the same folder.
    sweep: entry.sweep,
  }
}

/** Cores that a configuration reserves, in the order of the launch. */
export function countPipelineCores(
  { pipeline, stages }: Pick<LocalPipelineOptions, 'pipeline' | 'stages'>,
  configuration: Configuration,
): number {
  return countCores(
    pipeline.stages.toReversed().flatMap(({ name }) => {
      const stageConfiguration = findStage(configuration, name)
      if (stageConfiguration === undefined) return []
      const { defaults, ownGpus } = stages.get(name)!
      const { cpuCores } = readResources(stageConfiguration.configuration, defaults, ownGpus)
      return Array.from({ length: stageConfiguration.replicas }, () => cpuCores)
    }),
  )
}

/** Otherwise the launch would wait for cores that the pipeline itself has reserved. */
function checkCores(options: LocalPipelineOptions, configuration: Configuration): void {
  const cores = countPipelineCores(options, configuration)
  const available = options.machine.affinity.length
  if (cores <= available) return
  throw new LaunchError(
    `the stages need ${cores} cores together, but this process may use only ${available}`,
    'list fewer cores or replicas in the spaces of the stages; fractions such as 0.5 share a core',
    undefined,
    'configuration',
  )
}

interface StageLaunch {
  readonly options: LocalPipelineOptions
  readonly pool: ResourcePool
  readonly trialNumber: number
  readonly signal: AbortSignal
  readonly onWaiting: OnWaiting | undefined
  /** The stages that serve already. */
  readonly callable: readonly ServingStage[]
  readonly cleanup: Cleanup
}

async function launchStage(
  name: string,
  configuration: Configuration,
  launch: StageLaunch,
): Promise<ServingStage> {
  const { options, pool, trialNumber, signal, onWaiting, callable, cleanup } = launch
  const stageOptions = options.stages.get(name)!
  const stageConfiguration = requireStage(configuration, name)
  const urls = new Map(callable.map((stage) => [stage.name, stage.relay!.url]))
  const replicas: Predictor[] = []
  for (let number = 1; number <= stageConfiguration.replicas; number++) {
    const folder = nameReplicaFolder(name, stageConfiguration.replicas, number)
    const launcher = createLocalLauncher({ ...stageOptions, stage: { folder, pool, urls } })
    try {
      const predictor = await launcher.launch(
        stageConfiguration.configuration,
        trialNumber,
        signal,
        onWaiting,
      )
      cleanup.add(() => predictor.stop())
      replicas.push(predictor)
    } catch (error) {
      throw addStageToError(error, name)
    }
  }
  const resources = readResources(
    stageConfiguration.configuration,
    stageOptions.defaults,
    stageOptions.ownGpus,
  )
  if (name === options.pipeline.stages[0]!.name) return { name, replicas, resources }
  const relay = await startStageRelay(replicas.map((one) => getHttpTarget(one).url))
  cleanup.add(relay.close)
  return { name, replicas, resources, relay }
}

function createPredictor(
  pipeline: Pipeline,
  stages: readonly ServingStage[],
  launchSeconds: number,
  cleanup: Cleanup,
): Predictor {
  const meter = new StageUsageMeter(pipeline, stages)
  const joined = joinStages(stages)
  const targets = stages.flatMap(({ replicas }) => replicas.map(getHttpTarget))
  return {
    ...joined,
    target: {
      ...joined.target,
      serverPids: () => targets.flatMap(({ serverPids }) => serverPids?.() ?? []),
      observeLoad: () => meter.observeLoad(),
    },
    usage: async () => {
      const usages = await readUsages(stages)
      const stageUsages = await meter.computeUsage()
      return {
        ...sumUsages(usages),
        launchSeconds,
        ...(stageUsages.length > 0 && { stages: stageUsages }),
      }
    },
    stop: () => cleanup.run(),
  }
}
