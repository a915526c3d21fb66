/** The modelled stages of a pipeline: for its simulation, and for the prior of its search. */
import { modelsCapacityOrLatency } from '../../search/objective.ts'
import type { Pricing } from '../../search/replica-price.ts'
import { sampleRepresentatives } from '../../search/space/candidates.ts'
import { satisfiesConstraints } from '../../search/space/space.ts'
import type { Configuration, Parameter, Problem } from '../../search/types.ts'
import { softenCapacity } from '../../trials/launchers/simulated/estimated-capacity.ts'
import { createLearnedPipelinePredictor } from '../../trials/launchers/simulated/learned-pipeline.ts'
import type { PredictedPipeline } from '../../trials/launchers/simulated/pipeline-estimate.ts'
import {
  createModelledPipelinePredictor,
  type SimulatedPipelineOptions,
} from '../../trials/launchers/simulated/pipeline-launcher.ts'
import { joinConfiguration, splitConfiguration } from '../../trials/pipeline/stage-configuration.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment, ExperimentStage } from '../config/types.ts'
import { chooseDefaultConfiguration } from './default-configuration.ts'
import { createEstimatorLookup, findArchitectures, resolveAnchor } from './estimators.ts'

type Stages = readonly ExperimentStage[]

/** Undefined if the device model does not know the model of a stage. */
export function modelStages(
  { slo, seed }: Pick<Experiment, 'slo' | 'seed'>,
  stages: Stages,
): SimulatedPipelineOptions | undefined {
  const modelled = stages.flatMap(({ name, experiment }) => {
    const { model, own, predictor } = experiment
    const [architecture] = findArchitectures([model.architecture], own)
    return architecture === undefined || predictor.kind !== 'builtin'
      ? []
      : [
          [
            name,
            {
              architecture,
              ownGpus: own.gpus,
              calibratedServer: resolveAnchor(experiment, architecture),
            },
          ] as const,
        ]
  })
  return modelled.length < stages.length
    ? undefined
    : { pipeline: { stages }, stages: new Map(modelled), slo, seed }
}

const createPrior = (
  predict: (configuration: Configuration) => PredictedPipeline | undefined,
  slo: Experiment['slo'],
): Required<Pick<Problem, 'priorLogRate' | 'priorLogConstraint'>> => ({
  priorLogRate: (configuration) => {
    const predicted = predict(configuration)
    return predicted && Math.log(softenCapacity(predicted, slo))
  },
  priorLogConstraint: (configuration) => {
    const predicted = predict(configuration)
    return predicted && Math.log(predicted.unloadedMs)
  },
})

/** Creates the prediction of the pipeline, which the search corrects by its trials. */
export function createPipelinePrior(
  experiment: Experiment,
  stages: Stages,
): Pick<Problem, 'priorLogRate' | 'priorLogConstraint' | 'cannotServe' | 'memoryFitProbability'> {
  const modelled = modelStages(experiment, stages)
  if (modelled === undefined) return {}
  const prior = createPrior(createModelledPipelinePredictor(modelled), experiment.slo)
  const lookups = new Map(
    stages.map(({ name, experiment }) => [name, createEstimatorLookup(experiment)!]),
  )
  /** Values of the estimators of all stages. */
  const evaluate = <T>(
    configuration: Configuration,
    read: (at: ReturnType<NonNullable<ReturnType<typeof createEstimatorLookup>>>) => T,
  ): T[] =>
    (splitConfiguration(configuration) ?? []).map(({ stage, configuration }) =>
      read(lookups.get(stage)!(configuration)),
    )
  return {
    ...prior,
    cannotServe: (configuration) =>
      evaluate(configuration, ({ estimator, configuration }) =>
        estimator.cannotServe(configuration),
      ).includes(true),
    memoryFitProbability: (configuration) =>
      evaluate(configuration, ({ estimator, configuration }) =>
        estimator.memoryFitProbability(configuration),
      ).reduce((product, probability) => product * probability, 1),
  }
}

/**
 * Creates what the search knows of a pipeline after some trials: they have measured all its stages,
 * and the queues of these predict the other configurations, as soon as they predict all. Undefined
 * where the device model knows the stages.
 * @param earlier trials of earlier experiments with equal stages
 */
export function createPipelineLearner(
  experiment: Experiment,
  stages: Stages,
  earlier: readonly FinishedTrial[],
): ((problem: Problem, trials: readonly FinishedTrial[]) => Problem) | undefined {
  const { slo, objective } = experiment
  if (!modelsCapacityOrLatency(objective) || modelStages(experiment, stages) !== undefined)
    return undefined
  const parameters = new Map(
    stages.map(({ name, experiment }) => [name, experiment.space.parameters]),
  )
  return (problem, trials) => {
    const predict = createLearnedPipelinePredictor({ stages }, parameters, slo, [
      ...earlier,
      ...trials,
    ])
    const all = sampleRepresentatives(problem.space)
    const isPredicted = all.every((one) => predict(one) !== undefined)
    return isPredicted ? { ...problem, ...createPrior(predict, slo) } : problem
  }
}

/** Chooses the baseline of a pipeline: one replica of that of each stage. */
export function choosePipelineDefault(
  problem: Problem,
  stages: Stages,
  pricePerHour: Pricing<Configuration>,
): Configuration | undefined {
  const stageDefaults = stages.flatMap(({ name, experiment }) => {
    const { space, objective } = experiment
    const configuration = chooseDefaultConfiguration({ space, objective, pricePerHour })
    const replicas = problem.space.parameters.find((one) => one.name === `${name}.replicas`)
    return configuration === undefined || replicas === undefined
      ? []
      : [{ stage: name, replicas: findMinimum(replicas), configuration }]
  })
  if (stageDefaults.length < stages.length) return undefined
  const joined = joinConfiguration(stageDefaults)
  return satisfiesConstraints(problem.space, joined) && !problem.cannotServe?.(joined)
    ? joined
    : undefined
}

const findMinimum = (parameter: Parameter): number =>
  'min' in parameter ? parameter.min : Math.min(...parameter.values.map(Number))
