/**
 * Configurations of a pipeline: the parameters of each stage under `stage.parameter`, with
 * `stage.replicas` for every stage. By these names a configuration says itself whether it is one of
 * a pipeline.
 */
import type { Configuration } from '../../search/types.ts'

export const replicasParameter = 'replicas'

export interface StageConfiguration {
  readonly stage: string
  readonly replicas: number
  /** Parameters of one replica, by their own names. */
  readonly configuration: Configuration
}

export const nameStageParameter = (stage: string, parameter: string): string =>
  `${stage}.${parameter}`

/** The stages of a configuration, in its order; undefined for that of a single predictor. */
export function splitConfiguration(
  configuration: Configuration,
): readonly StageConfiguration[] | undefined {
  const stages = new Map<string, Record<string, number | string>>()
  for (const [name, value] of Object.entries(configuration)) {
    const dot = name.indexOf('.')
    if (dot <= 0) continue
    const stage = name.slice(0, dot)
    const parameters = stages.get(stage) ?? {}
    parameters[name.slice(dot + 1)] = value
    stages.set(stage, parameters)
  }
  const split = [...stages].flatMap(
    ([stage, { [replicasParameter]: replicas, ...configuration }]): StageConfiguration[] =>
      typeof replicas === 'number' ? [{ stage, replicas, configuration }] : [],
  )
  return split.length > 0 && split.length === stages.size ? split : undefined
}

/** Configuration and replicas of one stage; undefined if the configuration does not have it. */
export const findStage = (
  configuration: Configuration,
  stage: string,
): StageConfiguration | undefined =>
  splitConfiguration(configuration)?.find((found) => found.stage === stage)

export const joinConfiguration = (stages: readonly StageConfiguration[]): Configuration =>
  Object.fromEntries(
    stages.flatMap(({ stage, replicas, configuration }) =>
      Object.entries({ ...configuration, [replicasParameter]: replicas }).map(([name, value]) => [
        nameStageParameter(stage, name),
        value,
      ]),
    ),
  )

/**
 * The parameters of a server, and those of each stage that it runs, such as the models of a Triton
 * ensemble: `embed.batchSize`.
 */
export function splitServerConfiguration(configuration: Configuration): {
  readonly server: Configuration
  readonly stages: readonly { readonly stage: string; readonly configuration: Configuration }[]
} {
  const isServers = (name: string) => name.indexOf('.') <= 0
  const names = Object.keys(configuration)
  const stages = new Set(
    names.filter((name) => !isServers(name)).map((name) => name.slice(0, name.indexOf('.'))),
  )
  return {
    server: Object.fromEntries(Object.entries(configuration).filter(([name]) => isServers(name))),
    stages: [...stages].map((stage) => ({
      stage,
      configuration: pickStage(configuration, stage),
    })),
  }
}

/** The parameters of one stage, by their own names, `replicas` included. */
export const pickStage = (configuration: Configuration, stage: string): Configuration =>
  Object.fromEntries(
    Object.entries(configuration).flatMap(([name, value]) =>
      name.startsWith(`${stage}.`) ? [[name.slice(stage.length + 1), value]] : [],
    ),
  )

/** The sum over stages of replicas × value; of a single predictor its value. */
export function sumOverStages(
  configuration: Configuration,
  evaluate: (configuration: Configuration) => number,
): number {
  const stages = splitConfiguration(configuration)
  return stages === undefined
    ? evaluate(configuration)
    : stages.reduce((sum, stage) => sum + stage.replicas * evaluate(stage.configuration), 0)
}
