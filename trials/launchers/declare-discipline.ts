/** Derives the service discipline from a predictor's template and configuration. */
import type { DeclaredDiscipline } from '../../profiler/model/declared-discipline.ts'
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../search/types.ts'
import type { Gpu } from '../devices/catalogue.ts'
import { DeviceModelError } from '../devices/device-model-error.ts'
import { countCpuInstances, parseResources } from '../resources.ts'
import { Knobs } from '../servers/knobs.ts'
import { createServingEnvironment, getBuiltinProtocol } from './builtin.ts'
import type { BuiltinTemplate, PredictorTemplate } from './template.ts'
import { applyVariant } from './variants.ts'

/**
 * The discipline that a configuration declares: of the built-in predictor, and of Triton where its
 * batch size and instances are tuned. Undefined for other servers, for language models, and for a
 * configuration that cannot be launched.
 */
export function declareDiscipline(
  given: PredictorTemplate,
  values: Configuration,
  ownGpus: readonly Gpu[] = [],
): DeclaredDiscipline | undefined {
  const { template, configuration } = applyVariant(given, values)
  if (template.kind === 'builtin')
    try {
      return declareBuiltin(template, configuration, ownGpus)
    } catch (error) {
      if (error instanceof DeviceModelError) return undefined
      throw error
    }
  return template.kind === 'command' && template.server?.kind === 'triton'
    ? declareTriton(new Knobs(configuration))
    : undefined
}

function declareBuiltin(
  template: BuiltinTemplate,
  configuration: Configuration,
  ownGpus: readonly Gpu[],
): DeclaredDiscipline | undefined {
  if (protocolTable[getBuiltinProtocol(template)].streams) return undefined
  const { cpuCores, gpu } = parseResources(configuration, {}, ownGpus)
  // Any engine that is not emulated: an emulated one would set INSTANCES.
  const {
    INSTANCES = gpu === undefined ? countCpuInstances(cpuCores) : 1,
    BATCH_SIZE,
    MAX_DELAY_MS,
    QUEUE_LIMIT,
  } = createServingEnvironment(template, configuration, 'tfjs')
  return {
    workers: Number(INSTANCES),
    maxBatch: Number(BATCH_SIZE),
    maxDelayMs: Number(MAX_DELAY_MS),
    queueLimit: Number(QUEUE_LIMIT),
  }
}

function declareTriton(knobs: Knobs): DeclaredDiscipline | undefined {
  const maxBatch = knobs.number('maxBatchSize', 'batchSize')
  const workers = knobs.number('instances', 'instanceCount')
  if (maxBatch === undefined || workers === undefined) return undefined
  const maxDelayMs = knobs.number('maxDelayMs', 'maxQueueDelayMs', 'batchDelayMs') ?? 0
  return { workers, maxBatch, maxDelayMs, queueLimit: knobs.number('queueLimit', 'maxQueueSize') }
}
