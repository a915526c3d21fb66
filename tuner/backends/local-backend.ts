/** Predictors as processes of this machine. */
import { join } from 'node:path'
import { createLocalLauncher } from '../../trials/launchers/local/local-launcher.ts'
import { reconfigured } from '../../trials/launchers/local/reconfigured.ts'
import type { BuiltinTemplate, CommandTemplate } from '../../trials/launchers/template.ts'
import { createTritonLauncher } from '../../trials/launchers/triton/triton-launcher.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
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
    close: async () => {
      await launcher.close?.()
      await load.close()
    },
  }
}

/** Triton loads models while it runs, and a server of the user's own may take values so: one of its processes serves trial after trial. */
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
  const triton = template.kind === 'command' && template.server?.kind === 'triton'
  const started = triton
    ? createTritonLauncher(local, { template, parameters, protocol, payload })
    : template.kind === 'command'
      ? reconfigured(local, { template, parameters, protocol, payload })
      : local
  return answersChecked(started, experiment, template, runDirectory)
}
