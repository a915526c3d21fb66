/** Backend of simulated trials: predictors and load in virtual time. */
import { measureSimulatedCapacity } from '../../profiler/index.ts'
import { type Architecture, findArchitecture } from '../../trials/devices/architecture.ts'
import type { LlmRequest } from '../../trials/launchers/simulated/llm-configuration.ts'
import { createSimulatedLlmLauncher } from '../../trials/launchers/simulated/llm-launcher.ts'
import { createSimulatedPipelineLauncher } from '../../trials/launchers/simulated/pipeline-launcher.ts'
import { createSimulatedLauncher } from '../../trials/launchers/simulated/simulated-launcher.ts'
import { applyVariant } from '../../trials/launchers/variants.ts'
import type { Launcher } from '../../trials/types.ts'
import type { Experiment, ExperimentStage } from '../config/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { resolveAnchor, resolveLlmModel } from '../problem/estimators.ts'
import { createLlmRequests } from '../problem/llm-requests.ts'
import { modelStages } from '../problem/pipeline-model.ts'
import type { Backend } from './backend.ts'
import { createLoadWork, runLoadWork } from './load-work.ts'

export function createSimulatedBackend(experiment: Experiment): Backend {
  const { slo, seed, load } = experiment
  return {
    launcher:
      experiment.stages === undefined
        ? createLauncher(experiment)
        : createPipelineLauncher(experiment, experiment.stages),
    space: experiment.space,
    notices: [],
    measure: async ({ target }, task, { number, onStep }, signal) => {
      if (target.kind !== 'virtual') throw new TypeError('not a predictor in virtual time')
      if (task.kind !== 'trial')
        return runLoadWork(createLoadWork(experiment, task, number), {
          target,
          slo,
          signal,
          onStep,
        })
      // Virtual time is free, so long windows replace the search that real servers need. Every
      // trial
      // uses the same arrivals (common random numbers).
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

function createPipelineLauncher(
  experiment: Experiment,
  stages: readonly ExperimentStage[],
): Launcher {
  const modelled = modelStages(experiment, stages)
  if (modelled !== undefined) return createSimulatedPipelineLauncher(modelled)
  const unknown = stages.filter((stage) => modelStages(experiment, [stage]) === undefined)
  throw new UserError(
    `cannot simulate ${unknown.map(({ name }) => `stage ${name}`).join(', ')}: the architecture is unknown`,
    'set the most similar one: model: {path: ..., architecture: bert-base}',
    exitCodes.usage,
  )
}

/** One launcher per architecture, because variants may differ in it. */
function createLauncher(experiment: Experiment): Launcher {
  const { predictor, seed, own, load } = experiment
  let cachedRequests: LlmRequest[] | undefined
  const requests = () => {
    cachedRequests ??= createLlmRequests(load.payload)
    return cachedRequests
  }
  const create = (architecture: Architecture): Launcher =>
    architecture.kind === 'decoder'
      ? createSimulatedLlmLauncher({
          architecture,
          requests: requests(),
          ...resolveLlmModel(experiment),
        })
      : createSimulatedLauncher({
          architecture,
          ownGpus: own.gpus,
          seed,
          calibratedServer: resolveAnchor(experiment, architecture),
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
