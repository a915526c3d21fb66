/** Launches whole pipelines in virtual time. */
import { sum } from 'simple-statistics'
import type { Slo } from '../../../profiler/model/slo.ts'
import type { Configuration } from '../../../search/types.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import type { Pipeline } from '../../pipeline/pipeline.ts'
import { pickStage, splitConfiguration } from '../../pipeline/stage-configuration.ts'
import { addStageToError } from '../../pipeline/stage-error.ts'
import { spoken } from '../../predictor/protocol/spoken.ts'
import { describeConfiguration } from '../../resources.ts'
import {
  LaunchError,
  type Launcher,
  type Predictor,
  type StageUsage,
  type Usage,
} from '../../types.ts'
import { createStretchedSchedule } from './arrival-times.ts'
import { modelServer } from './modelled-server.ts'
import { createPipelinePredictor, type PredictedPipeline } from './pipeline-estimate.ts'
import { PipelineServer, type SimulatedStage } from './pipeline-server.ts'
import { createBatchQueueOptions } from './queueing-model.ts'
import {
  createServerOrThrow,
  createTrialUniform,
  type ServerModelOptions,
} from './simulated-launcher.ts'

export interface SimulatedPipelineOptions {
  readonly pipeline: Pipeline
  /** The model of each stage, by name. */
  readonly stages: ReadonlyMap<string, ServerModelOptions>
  readonly slo: Pick<Slo, 'percentile' | 'limitMs'>
  readonly seed: number
}

/** Predicts configurations; undefined if the device model does not know a stage. */
export function createModelledPipelinePredictor({
  pipeline,
  stages,
  slo,
  seed,
}: SimulatedPipelineOptions): (configuration: Configuration) => PredictedPipeline | undefined {
  return createPipelinePredictor(pipeline, slo, (stage, configuration) => {
    const { architecture, defaults, ownGpus, calibratedServer } = stages.get(stage)!
    try {
      return createBatchQueueOptions(
        modelServer(architecture, configuration, defaults, ownGpus, calibratedServer),
        createTrialUniform(seed, 0),
      )
    } catch (error) {
      if (error instanceof DeviceModelError) return undefined
      throw error
    }
  })
}

export function createSimulatedPipelineLauncher(options: SimulatedPipelineOptions): Launcher {
  const { pipeline, seed } = options
  const schedule = createStretchedSchedule()
  const predict = createModelledPipelinePredictor(options)
  return {
    name: 'simulated',
    async launch(configuration, trialNumber, signal) {
      signal.throwIfAborted()
      const uniform = createTrialUniform(seed, trialNumber)
      const stages = createStages(options, configuration, uniform)
      const server = new PipelineServer({
        pipeline,
        stages,
        schedule,
        predictCapacity: () => predict(configuration) ?? unknownCapacity,
      })
      return {
        target: { kind: 'virtual', server },
        protocol: spoken.tensors[0],
        provenance: 'simulated',
        isolation: `simulated in virtual time: ${describeConfiguration(configuration)}`,
        logTail: () => '',
        usage: async () => readUsage(server, stages, configuration),
        stop: async () => undefined,
      } satisfies Predictor
    },
    async sweep() {},
  }
}

const unknownCapacity = { capacityRps: 0, saturationRps: 1000, unloadedMs: 1 }

/** @throws InfeasibleError naming the stage that cannot serve */
function createStages(
  { stages }: SimulatedPipelineOptions,
  configuration: Configuration,
  uniform: () => number,
): ReadonlyMap<string, SimulatedStage> {
  return new Map(
    (splitConfiguration(configuration) ?? []).map(({ stage, replicas, configuration }) => {
      const model = stages.get(stage)
      if (model === undefined)
        throw new LaunchError(`the configuration has a stage ${stage}, the pipeline has none`)
      try {
        const queue = createBatchQueueOptions(createServerOrThrow(model, configuration), uniform)
        return [stage, { queue, replicas }]
      } catch (error) {
        throw addStageToError(error, stage)
      }
    }),
  )
}

/** Reads the usage during the last load, which is at the capacity, or the confirmation. */
function readUsage(
  { lastPlay: { elapsedMs, requests, stages: played } }: PipelineServer,
  stages: ReadonlyMap<string, SimulatedStage>,
  configuration: Configuration,
): Usage {
  if (elapsedMs === 0) return { launchSeconds: 0 }
  return {
    cpuCores: sum(played.map(({ cpuBusyMs }) => cpuBusyMs)) / elapsedMs,
    launchSeconds: 0,
    stages: played.map(({ stage, visits, visitMs, cpuBusyMs, deviceBusyMs }): StageUsage => {
      const { queue, replicas } = stages.get(stage)!
      const cpuShare = cpuBusyMs / (elapsedMs * replicas * queue.cpuCores)
      const deviceShare = deviceBusyMs / (elapsedMs * replicas * queue.devices)
      const { gpu = 'none' } = pickStage(configuration, stage)
      return {
        stage,
        visits: visits / requests,
        meanMs: visits === 0 ? 0 : visitMs / visits,
        busyShare: Math.max(cpuShare, deviceShare),
        busier: gpu !== 'none' && deviceShare > cpuShare ? 'gpu' : 'cpu',
      }
    }),
  }
}
