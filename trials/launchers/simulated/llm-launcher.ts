/**
 * The `simulated` launcher of language models: a trial is continuous batching in virtual time. The
 * steps of a launch:
 *
 * 1. Parse the configuration for the step model (`llm-configuration.ts`), with its pools
 *    (`llm-pools.ts`); infeasible if weights and one sequence do not fit.
 * 2. Refuse loads with requests longer than the server's longest sequence.
 * 3. Create a virtual server (`llm-server.ts`) of one replica, or of a pool each for prefill and decode
 *    (`llm-replica.ts`).
 */
import type { Configuration } from '../../../search/types.ts'
import type { Decoder } from '../../devices/architecture.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import { OutOfMemoryError } from '../../predictor/engine.ts'
import { spoken } from '../../predictor/protocol/spoken.ts'
import { describeConfiguration } from '../../resources.ts'
import { InfeasibleError, type Launcher, type Predictor } from '../../types.ts'
import { buildLlmModel, explainRejection, type LlmModelOptions } from './llm-configuration.ts'
import { formatTransfer, type ModelledLlm } from './llm-pools.ts'
import { type SimulatedLlmOptions, SimulatedLlmServer } from './llm-server.ts'

interface SimulatedLlmLauncherOptions
  extends Omit<SimulatedLlmOptions, 'server'>,
    Omit<LlmModelOptions, 'defaults'> {
  readonly architecture: Decoder
}

export function createSimulatedLlmLauncher(options: SimulatedLlmLauncherOptions): Launcher {
  const { architecture, ownGpus, ownArchitectures, engine, acceptance, kvTransfer, ...load } =
    options
  return {
    name: 'simulated',
    async launch(configuration, _trialNumber, signal) {
      signal.throwIfAborted()
      const modelled = createServerOrThrow(architecture, configuration, {
        ownGpus,
        ownArchitectures,
        engine,
        acceptance,
        kvTransfer,
      })
      const rejection = explainRejection(load.requests, modelled)
      if (rejection !== undefined) throw new InfeasibleError('crashed', rejection)
      const server = new SimulatedLlmServer({ ...load, server: modelled })
      return {
        target: { kind: 'virtual', server },
        protocol: spoken.prompts[0],
        provenance: 'simulated',
        isolation: `simulated in virtual time: ${describeConfiguration(configuration, {}, ownGpus)}${describePools(modelled)}`,
        logTail: () => '',
        usage: async () => readUsage(server, modelled),
        stop: async () => undefined,
      } satisfies Predictor
    },
    async sweep() {},
  }
}

function createServerOrThrow(
  architecture: Decoder,
  configuration: Configuration,
  options: LlmModelOptions,
): ModelledLlm {
  try {
    return buildLlmModel(architecture, configuration, options)
  } catch (error) {
    if (error instanceof OutOfMemoryError)
      throw new InfeasibleError('out-of-memory', error.message.replace('(emulated)', '(simulated)'))
    if (error instanceof DeviceModelError)
      throw new InfeasibleError(error.kind ?? 'crashed', error.message)
    throw error
  }
}

/** GPUs of all its servers. */
const countGpus = (
  { tensorParallel }: ModelledLlm['device'],
  pools: ModelledLlm['pools'],
): number =>
  pools === undefined
    ? tensorParallel
    : pools.prefill * tensorParallel + pools.decode * pools.decoder.device.tensorParallel

const describePools = ({ pools }: ModelledLlm): string =>
  pools === undefined ? '' : `; ${formatTransfer(pools.transfer)}`

function readUsage(server: SimulatedLlmServer, { memoryMiB, device, pools }: ModelledLlm) {
  const {
    elapsedMs,
    busyMs,
    poolsBusyMs: pooled,
    steps,
    stepSequences,
    accepted,
    draftings,
    ...engine
  } = server.usage
  return {
    ...(elapsedMs > 0 && { gpuUtilization: busyMs / elapsedMs }),
    ...(elapsedMs > 0 &&
      pooled && {
        prefillUtilization: pooled.prefill / elapsedMs,
        decodeUtilization: pooled.decode / elapsedMs,
      }),
    gpuMemoryMiB: memoryMiB * countGpus(device, pools),
    ...(steps > 0 && { realisedBatch: stepSequences / steps, ...engine }),
    ...(draftings > 0 && { acceptedTokens: accepted / draftings }),
    launchSeconds: 0,
  }
}
