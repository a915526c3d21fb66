/** Predictors as processes of this machine. */
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
import { loadFromHere } from './load-from-here.ts'
import { answersChecked, protocolOf } from './predictor-protocol.ts'

export function localBackend(
  experiment: Experiment,
  template: BuiltinTemplate | CommandTemplate,
  experimentId: string,
  machine: MachineFacts,
): Backend {
  const launcher = launcherOf(experiment, template, experimentId, machine)
  const load = loadFromHere(experiment)
  return {
    launcher,
    space: experiment.space,
    notices: [],
    measure: load.measure,
    ...(startsBeside(experiment, launcher, machine) && {
      launchesBeside: (measured, next) =>
        coresHeld([...measured, next], experiment) + generatorCores <= machine.affinity.length,
    }),
    close: async () => {
      await launcher.close?.()
      await load.close()
    },
  }
}

/** Left to the load generator. */
const generatorCores = 1

/**
 * Where cores hold a server apart from another. Not on GPUs of this machine, whose servers fill its
 * memory as they load, nor where one that runs is to serve the next trial.
 */
const startsBeside = (
  { devicesUsed }: Experiment,
  { changesRunning }: Launcher,
  { taskset }: MachineFacts,
): boolean => devicesUsed !== 'gpu' && taskset !== undefined && changesRunning === undefined

const coresHeld = (configurations: readonly Configuration[], { own }: Experiment): number =>
  configurations.reduce(
    (sum, configuration) => sum + Math.ceil(parseResources(configuration, {}, own.gpus).cpuCores),
    0,
  )

/**
 * The built-in server with an emulated GPU and Triton load models while they run, and a server of
 * the user's own may take values so: one of its processes serves trial after trial.
 */
function launcherOf(
  experiment: Experiment,
  template: BuiltinTemplate | CommandTemplate,
  experimentId: string,
  machine: MachineFacts,
): Launcher {
  const { protocol } = protocolOf(experiment)
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
  const kept = keptWhere(local, template, { parameters, protocol, payload, machine, ownGpus })
  return answersChecked(kept, experiment, template, runDirectory)
}

function keptWhere(
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
