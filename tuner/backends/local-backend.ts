/** Backend of trials on this machine: predictors are processes. */
import { join } from 'node:path'
import type { Configuration } from '../../search/types.ts'
import { createLocalLauncher } from '../../trials/launchers/local/local-launcher.ts'
import { reuseByReconfigure } from '../../trials/launchers/local/reconfigure.ts'
import { canReuseBuiltin, reuseBuiltin } from '../../trials/launchers/local/reuse-builtin.ts'
import type { BuiltinTemplate, CommandTemplate } from '../../trials/launchers/template.ts'
import { createTritonLauncher } from '../../trials/launchers/triton/triton-launcher.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import { parseResources } from '../../trials/resources.ts'
import type { Launcher } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import type { Backend } from './backend.ts'
import { createLocalLoad } from './local-load.ts'
import { addAnswerChecks, createProtocol } from './predictor-protocol.ts'

export function createLocalBackend(
  experiment: Experiment,
  template: BuiltinTemplate | CommandTemplate,
  experimentId: string,
  machine: MachineFacts,
): Backend {
  const launcher = createLauncher(experiment, template, experimentId, machine)
  const load = createLocalLoad(experiment)
  return {
    launcher,
    space: experiment.space,
    notices: [],
    measure: load.measure,
    ...(separatesByCores(experiment, launcher, machine) && {
      canLaunchBeside: (measured, next) =>
        countReservedCores([...measured, next], experiment) + generatorCores <=
        machine.affinity.length,
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

const countReservedCores = (
  configurations: readonly Configuration[],
  { own }: Experiment,
): number =>
  configurations.reduce(
    (sum, configuration) => sum + Math.ceil(parseResources(configuration, {}, own.gpus).cpuCores),
    0,
  )

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
  const { protocol } = createProtocol(experiment)
  const { parameters } = experiment.space
  const { payload } = experiment.load
  const runDirectory = join(experiment.dbPath, '..', experimentId)
  const { gpus: ownGpus } = experiment.own
  const local = createLocalLauncher({
    template,
    parameters,
    ownGpus,
    protocol,
    payload,
    runDirectory,
    machine,
  })
  const kept = addServerReuse(local, template, { parameters, protocol, payload, machine, ownGpus })
  return addAnswerChecks(kept, experiment, template, runDirectory)
}

function addServerReuse(
  local: Launcher,
  template: BuiltinTemplate | CommandTemplate,
  asked: Omit<Parameters<typeof reuseBuiltin>[1], 'template'>,
): Launcher {
  if (template.kind === 'builtin')
    return canReuseBuiltin({ template, ...asked })
      ? reuseBuiltin(local, { template, ...asked })
      : local
  return template.server?.kind === 'triton'
    ? createTritonLauncher(local, { template, ...asked })
    : reuseByReconfigure(local, { template, ...asked })
}
