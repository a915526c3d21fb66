/**
 * Reuses the built-in server with an emulated GPU for the next trial with another configuration.
 * This saves its start, and thousands of warm-up requests until the JIT has compiled its code.
 * `reuseByReconfigure` does the same for users' servers.
 */
import { readAnswer } from '../../../profiler/bounded-reader.ts'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import { protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import { prepareOnceReady } from '../../../profiler/protocols/until-serving.ts'
import type { Parameter } from '../../../search/types.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import type { MachineFacts } from '../../machine/machine-facts.ts'
import { parseResources } from '../../resources.ts'
import { InfeasibleError, LaunchError, type Launcher } from '../../types.ts'
import { chooseEngine, createPredictorEnvironment, getBuiltinProtocol } from '../builtin.ts'
import { getModelLoadPath, readErrorMessage } from '../model-loading.ts'
import { reuseServers } from '../reuse-servers.ts'
import { type BuiltinTemplate, defaultReadyTimeoutS } from '../template.ts'
import { applyVariant } from '../variants.ts'

interface ReuseBuiltinOptions {
  readonly template: BuiltinTemplate
  readonly parameters: readonly Parameter[]
  readonly protocol: Protocol
  readonly payload: PayloadSource
  readonly machine: MachineFacts
  readonly ownGpus?: readonly Gpu[]
}

/** HTTP status for a model that does not fit the memory. */
const insufficientStorageStatus = 507

/**
 * Parameters of the device model and of the batcher that the predictor's model-load endpoint
 * (`explicit` model control) changes without a restart.
 */
const reconfigurableParameters: ReadonlySet<string> = new Set([
  'cpuCores',
  'gpu',
  'gpuMemoryPercent',
  'sharing',
  'batchSize',
  'maxDelayMs',
  'queueLimit',
  'instances',
  'precision',
  'sequenceLength',
])

/**
 * Whether one predictor can serve trial after trial: all its GPUs are emulated, and it serves
 * tensors over HTTP.
 */
export function canReuseBuiltin({
  template,
  parameters,
  machine,
  ownGpus,
}: Omit<ReuseBuiltinOptions, 'protocol' | 'payload'>): boolean {
  const { transport, streams: isStreaming } = protocolTable[getBuiltinProtocol(template)]
  const gpus = parameters.flatMap((parameter) =>
    parameter.name === 'gpu' && parameter.kind === 'categorical' ? parameter.values : [],
  )
  const isEmulated = (gpu: string) =>
    chooseEngine(template, parseResources({ gpu }, {}, ownGpus), machine, ownGpus) === 'emulated'
  return (
    transport === 'http' &&
    !isStreaming &&
    gpus.length > 0 &&
    gpus.every((gpu) => gpu !== 'none' && isEmulated(gpu))
  )
}

/**
 * Whether all values are whole cores. Fractions need a control group, which a process enters only
 * at its start.
 */
const hasWholeCores = (parameter: Parameter): boolean =>
  parameter.kind === 'ordinal' ? parameter.values.every(Number.isInteger) : parameter.kind === 'int'

/** @param inner starts predictors with `explicit` model control */
export function reuseBuiltin(inner: Launcher, options: ReuseBuiltinOptions): Launcher {
  const { parameters, protocol, payload, ownGpus } = options
  const timeoutMs = (options.template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000
  const reconfigurable = parameters.filter(
    (parameter) =>
      reconfigurableParameters.has(parameter.name) &&
      (parameter.name !== 'cpuCores' || hasWholeCores(parameter)),
  )
  return reuseServers<undefined>(inner, {
    parameterNames: new Set(reconfigurable.map(({ name }) => name)),
    changeDescription: 'reconfigured',
    // A rejected configuration leaves the server unchanged.
    survivesRejection: true,
    prepareServer: async () => undefined,
    reconfigure: async ({ predictor, url }, trialConfiguration, signal) => {
      const { template, configuration } = applyVariant(options.template, trialConfiguration)
      const isolation = await predictor.moveToCores?.(configuration, signal)
      const settings = createPredictorEnvironment(
        template,
        configuration,
        'emulated',
        parseResources(configuration, {}, ownGpus),
      )
      await loadConfiguration(
        url,
        template.model,
        settings,
        AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
        predictor.logPath,
      )
      return {
        target: await prepareOnceReady(
          { protocol, url, model: template.model, payload },
          timeoutMs,
          signal,
        ),
        isolation,
      }
    },
  })
}

/**
 * Sends a configuration to the predictor.
 * @throws InfeasibleError if the model does not fit, LaunchError for any other failure
 */
async function loadConfiguration(
  url: string,
  model: string,
  parameters: Readonly<Record<string, string>>,
  signal: AbortSignal,
  logPath: string | undefined,
): Promise<void> {
  const response = await fetch(new URL(getModelLoadPath(model), url), {
    method: 'POST',
    body: JSON.stringify({ parameters }),
    signal,
  })
  const answer = await readAnswer(response.body)
  if (response.ok) return
  if (response.status === insufficientStorageStatus)
    throw new InfeasibleError('out-of-memory', readErrorMessage(answer), logPath)
  throw new LaunchError(
    `the predictor rejects its configuration: ${readErrorMessage(answer)}`,
    undefined,
    logPath,
  )
}
