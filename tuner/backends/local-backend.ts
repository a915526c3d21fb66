/** Predictors as processes of this machine. */
import { join } from 'node:path'
import type { Configuration } from '../../search/types.ts'
import { createLocalLauncher } from '../../trials/launchers/local/local-launcher.ts'
import type { BuiltinTemplate, CommandTemplate } from '../../trials/launchers/template.ts'
import { createTritonLauncher } from '../../trials/launchers/triton/triton-launcher.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import { resourcesOf } from '../../trials/resources.ts'
import type { Launcher } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
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
    ...(startsBeside(experiment, template, machine) && {
      launchesBeside: (measured, next) => coresHeld([...measured, next], experiment) + generatorCores <= machine.affinity.length,
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
 * Where cores hold a server apart from another. Not on GPUs of this machine, whose servers fill its memory as they load; one Triton serves all trials.
 */
const startsBeside = ({ devicesUsed }: Experiment, template: BuiltinTemplate | CommandTemplate, { taskset }: MachineFacts): boolean =>
  devicesUsed !== 'gpu' && taskset !== undefined && !isTriton(template)

const coresHeld = (configurations: readonly Configuration[], { own }: Experiment): number =>
  configurations.reduce((sum, configuration) => sum + Math.ceil(resourcesOf(configuration, {}, own.gpus).cpuCores), 0)

const isTriton = (template: BuiltinTemplate | CommandTemplate): template is CommandTemplate =>
  template.kind === 'command' && template.server?.kind === 'triton'

/** Triton loads models while it runs: one of its processes serves trial after trial. */
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
  const local = createLocalLauncher({ template, parameters, ownGpus, protocol, payload, runDirectory, machine })
  const launcher = isTriton(template) ? createTritonLauncher(local, { template, parameters, protocol, payload }) : local
  return answersChecked(launcher, experiment, template, runDirectory)
}
