/** Predictors and load in virtual time. */
import { measureSimulatedCapacity } from '../../profiler/index.ts'
import { type Architecture, findArchitecture } from '../../trials/devices/architecture.ts'
import type { LlmRequest } from '../../trials/launchers/simulated/llm-configuration.ts'
import { createSimulatedLlmLauncher } from '../../trials/launchers/simulated/llm-launcher.ts'
import { createSimulatedLauncher } from '../../trials/launchers/simulated/simulated-launcher.ts'
import { applyVariant } from '../../trials/launchers/variants.ts'
import type { Launcher } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import type { Backend } from './backend.ts'
import { anchoredServer, llmModelOf } from './estimators.ts'
import { llmRequests } from './llm-requests.ts'
import { doWork, workOf } from './load-work.ts'

export function simulatedBackend(experiment: Experiment): Backend {
  const { slo, seed, load } = experiment
  return {
    launcher: simulatedLauncher(experiment),
    space: experiment.space,
    notices: [],
    measure: async ({ target }, task, { number, onStep }, signal) => {
      if (target.kind !== 'virtual') throw new TypeError('not a predictor in virtual time')
      if (task.kind !== 'trial')
        return doWork(workOf(experiment, task, number), { target, slo, signal, onStep })
      // Time costs nothing here, so that long windows take the place of the search made for real
      // servers. Every trial plays the same arrivals: chance does not rank configurations.
      return measureSimulatedCapacity({
        target,
        slo,
        seed,
        signal,
        arrivals: load.arrivals,
        onStep,
      })
    },
    close: async () => {},
  }
}

/** One launcher for each architecture: variants of a model may differ in it. */
function simulatedLauncher(experiment: Experiment): Launcher {
  const { predictor, seed, own, load } = experiment
  let known: LlmRequest[] | undefined
  const requests = () => {
    known ??= llmRequests(load.payload)
    return known
  }
  const create = (architecture: Architecture): Launcher =>
    architecture.kind === 'decoder'
      ? createSimulatedLlmLauncher({
          architecture,
          requests: requests(),
          ...llmModelOf(experiment),
        })
      : createSimulatedLauncher({
          architecture,
          ownGpus: own.gpus,
          seed,
          calibratedServer: anchoredServer(experiment, architecture),
        })
  const launchers = new Map<Architecture, Launcher>()
  return {
    name: 'simulated',
    sweep: async () => undefined,
    launch: async (given, trialNumber, signal) => {
      const { template, configuration } = applyVariant(predictor, given)
      const architecture = findArchitecture(template.model, own.architectures)
      const launcher = launchers.get(architecture) ?? create(architecture)
      launchers.set(architecture, launcher)
      return launcher.launch(configuration, trialNumber, signal)
    },
  }
}
