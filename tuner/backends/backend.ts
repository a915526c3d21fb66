/** How trials come about on each backend: what launches a predictor, and what measures its capacity. */
import { join } from 'node:path'
import {
  type Measurement,
  measureCapacity,
  measureSimulatedCapacity,
  type ProtocolName,
  type ProtocolOptions,
  protocolFor,
} from '../../profiler/index.ts'
import { type Architecture, architectureOf } from '../../trials/devices/architecture.ts'
import { builtinProtocol } from '../../trials/launchers/builtin.ts'
import { createLocalLauncher } from '../../trials/launchers/local/local-launcher.ts'
import type { LlmRequest } from '../../trials/launchers/simulated/llm-configuration.ts'
import { createSimulatedLlmLauncher } from '../../trials/launchers/simulated/llm-launcher.ts'
import { createSimulatedLauncher } from '../../trials/launchers/simulated/simulated-launcher.ts'
import { createTritonLauncher } from '../../trials/launchers/triton/triton-launcher.ts'
import { createUrlLauncher } from '../../trials/launchers/url/url-launcher.ts'
import { withVariant } from '../../trials/launchers/variants.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { Launcher, Predictor } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
import type { TrialLoadOptions } from '../loop/parts.ts'
import type { ProtocolChoice } from './cluster.ts'
import { effortFor, type GeneratorPool } from './generator-pool.ts'
import { llmRequests } from './llm-requests.ts'

/** The launcher of the backends that need no connection. */
export function launcherOf(experiment: Experiment, experimentId: string, machine: MachineFacts): Launcher {
  const { predictor, backend, seed, own, load } = experiment
  if (backend === 'simulated') {
    let known: LlmRequest[] | undefined
    const requests = () => {
      known ??= llmRequests(load.payload)
      return known
    }
    const launchers = new Map<Architecture, Launcher>()
    return {
      name: 'simulated',
      sweep: async () => undefined,
      launch: async (given, trialNumber, signal) => {
        const { template, configuration } = withVariant(predictor, given)
        const architecture = architectureOf(template.model, own.architectures)
        const launcher =
          launchers.get(architecture) ??
          (architecture.kind === 'decoder'
            ? createSimulatedLlmLauncher({ architecture, ownGpus: own.gpus, requests: requests() })
            : createSimulatedLauncher({ architecture, ownGpus: own.gpus, seed }))
        launchers.set(architecture, launcher)
        return launcher.launch(configuration, trialNumber, signal)
      },
    }
  }
  const { protocol } = protocolOf(experiment)
  const { payload } = load
  if (predictor.kind === 'url') return createUrlLauncher({ template: predictor, protocol, payload })
  const runDirectory = join(experiment.dbPath, '..', experimentId)
  const { parameters } = experiment.space
  const local = createLocalLauncher({ template: predictor, parameters, ownGpus: own.gpus, protocol, payload, runDirectory, machine })
  if (predictor.kind !== 'command' || predictor.server?.kind !== 'triton') return local
  return createTritonLauncher(local, { template: predictor, parameters, protocol, payload })
}

/** The client side of what the predictor speaks, and what it was made from. */
export function protocolOf({ predictor, load: { timeoutMs } }: Experiment): ProtocolChoice {
  if (predictor.kind === 'builtin') return choice(builtinProtocol(predictor), { timeoutMs })
  const { path, healthPath, body } = predictor
  const server = predictor.kind === 'url' ? { headers: predictor.headers, http2: predictor.http2, tls: predictor.tls } : {}
  return choice(predictor.protocol, { ...server, timeoutMs, path, healthPath, template: body })
}

const choice = (name: ProtocolName, options: ProtocolOptions): ProtocolChoice => ({ name, options, protocol: protocolFor(name, options) })

/** Measures one trial's capacity. In virtual time long windows cost nothing, so the search made for real servers is not needed there. */
export function measureTrial(
  experiment: Experiment,
  generators: GeneratorPool,
  { target }: Predictor,
  { number, capacityToBeatRps, onStep }: TrialLoadOptions,
  signal: AbortSignal,
): Promise<Measurement> {
  const { slo, load } = experiment
  // In virtual time every trial plays the same arrivals, so that chance does not rank configurations.
  if (target.kind === 'virtual')
    return measureSimulatedCapacity({ target, slo, seed: experiment.seed, signal, arrivals: load.arrivals, onStep })
  const seed = experiment.seed + number
  return generators.use(target, (generator) =>
    measureCapacity({ target, slo, signal, seed, generator, capacityToBeatRps, onStep, effort: effortFor(load.trialSeconds) }),
  )
}
