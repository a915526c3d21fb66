/** Backend of trials on this machine: predictors are processes. */
import { join } from 'node:path'
import { sum } from 'simple-statistics'
import type { Configuration, SearchSpace } from '../../search/types.ts'
import type { LocalLauncherOptions } from '../../trials/launchers/local/launch.ts'
import { createLocalLauncher } from '../../trials/launchers/local/local-launcher.ts'
import {
  countPipelineCores,
  createLocalPipelineLauncher,
  type LocalPipelineOptions,
} from '../../trials/launchers/local/pipeline-launcher.ts'
import { reuseByReconfigure } from '../../trials/launchers/local/reconfigure.ts'
import { canReuseBuiltin, reuseBuiltin } from '../../trials/launchers/local/reuse-builtin.ts'
import {
  type BuiltinTemplate,
  type CommandTemplate,
  isStarted,
} from '../../trials/launchers/template.ts'
import { createTritonLauncher } from '../../trials/launchers/triton/triton-launcher.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import { parseResources } from '../../trials/resources.ts'
import type { Launcher } from '../../trials/types.ts'
import type { Experiment, ExperimentStage } from '../config/types.ts'
import type { Backend } from './backend.ts'
import { createLocalLoad } from './local-load.ts'
import { addAnswerChecks, createProtocol } from './predictor-protocol.ts'

export function createLocalBackend(
  experiment: Experiment,
  template: BuiltinTemplate | CommandTemplate,
  experimentId: string,
  machine: MachineFacts,
): Backend {
  const { space, stages } = experiment
  const pipeline = stages && createPipelineOptions(experiment, stages, experimentId, machine)
  const launcher =
    pipeline === undefined
      ? createLauncher(experiment, template, experimentId, machine)
      : addAnswerChecks(
          createLocalPipelineLauncher(pipeline),
          experiment,
          template,
          resolveRunDirectory(experiment, experimentId),
        )
  const countCores = (configuration: Configuration): number =>
    pipeline === undefined
      ? Math.ceil(parseResources(configuration, {}, experiment.own.gpus).cpuCores)
      : countPipelineCores(pipeline, configuration)
  const load = createLocalLoad(experiment)
  const { length: availableCores } = machine.affinity
  return {
    launcher,
    space: pipeline === undefined ? space : limitCores(space, countCores, availableCores),
    notices: [],
    measure: load.measure,
    ...(separatesByCores(experiment, launcher, machine) && {
      canLaunchAlongside: (measured, next) =>
        sum([...measured, next].map(countCores)) + generatorCores <= availableCores,
    }),
    close: async () => {
      await launcher.close?.()
      await load.close()
    },
  }
}

/** Cores reserved for the load generator. */
const generatorCores = 1

/**
 * Whether core affinity separates two servers. Not on local GPUs, whose memory a loading server
 * fills, nor if a running server is reused for the next trial.
 */
const separatesByCores = (
  { devicesUsed }: Experiment,
  { changesRunning }: Launcher,
  { taskset }: MachineFacts,
): boolean => devicesUsed !== 'gpu' && taskset !== undefined && changesRunning === undefined

/** Excludes pipelines whose stages do not fit in the cores of this machine together. */
const limitCores = (
  space: SearchSpace,
  countCores: (configuration: Configuration) => number,
  availableCores: number,
): SearchSpace => ({
  ...space,
  constraints: [
    ...space.constraints,
    {
      text: `all stages fit in the ${availableCores} cores of this machine`,
      holds: (configuration) => countCores(configuration) <= availableCores,
    },
  ],
})

const resolveRunDirectory = ({ dbPath }: Experiment, experimentId: string): string =>
  join(dbPath, '..', experimentId)

function createPipelineOptions(
  { own }: Experiment,
  stages: readonly ExperimentStage[],
  experimentId: string,
  machine: MachineFacts,
): LocalPipelineOptions {
  return {
    pipeline: { stages },
    machine,
    ownGpus: own.gpus,
    stages: new Map(
      stages.map(({ name, experiment }) => [
        name,
        createLauncherOptions(experiment, requireStarted(experiment), experimentId, machine),
      ]),
    ),
  }
}

/** The configuration checks that each stage of a local pipeline is started by its trials. */
function requireStarted({ predictor }: Experiment): BuiltinTemplate | CommandTemplate {
  if (isStarted(predictor)) return predictor
  throw new TypeError(`a stage cannot be a predictor of kind ${predictor.kind}`)
}

function createLauncherOptions(
  experiment: Experiment,
  template: BuiltinTemplate | CommandTemplate,
  experimentId: string,
  machine: MachineFacts,
): LocalLauncherOptions {
  return {
    template,
    parameters: experiment.space.parameters,
    ownGpus: experiment.own.gpus,
    protocol: createProtocol(experiment).protocol,
    payload: experiment.load.payload,
    runDirectory: resolveRunDirectory(experiment, experimentId),
    machine,
  }
}

/**
 * The built-in server with an emulated GPU, Triton, and servers with a `reconfigure` command can
 * change values at run time, so one process serves several trials.
 */
function createLauncher(
  experiment: Experiment,
  template: BuiltinTemplate | CommandTemplate,
  experimentId: string,
  machine: MachineFacts,
): Launcher {
  const options = createLauncherOptions(experiment, template, experimentId, machine)
  const { protocol, payload, ownGpus, runDirectory } = options
  const { parameters } = experiment.space
  const local = createLocalLauncher(options)
  const reusingLauncher = addServerReuse(local, template, {
    parameters,
    protocol,
    payload,
    machine,
    ownGpus,
  })
  return addAnswerChecks(reusingLauncher, experiment, template, runDirectory)
}

function addServerReuse(
  local: Launcher,
  template: BuiltinTemplate | CommandTemplate,
  reuseOptions: Omit<Parameters<typeof reuseBuiltin>[1], 'template'>,
): Launcher {
  if (template.kind === 'builtin')
    return canReuseBuiltin({ template, ...reuseOptions })
      ? reuseBuiltin(local, { template, ...reuseOptions })
      : local
  return template.server?.kind === 'triton'
    ? createTritonLauncher(local, { template, ...reuseOptions })
    : reuseByReconfigure(local, { template, ...reuseOptions })
}
