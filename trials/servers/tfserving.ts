/** TensorFlow Serving: how it is started, and its batching_parameters_file. */
import type { Knobs } from './knobs.ts'
import { OwnSettings, SettingsFileError } from './own-settings.ts'
import {
  limitShare,
  type ServerPlace,
  type ServerPreset,
  type ServerStart,
} from './server-start.ts'
import {
  formatTextProto,
  mergeTextProto,
  type ProtoMessage,
  readFieldMessages,
  readFieldNumbers,
  readFieldText,
  TextProtoError,
} from './text-proto.ts'

/** Name of the batching file. */
export const batchingFile = 'batching_parameters.txt'
export const batchingFlag = '--batching_parameters_file'

/** @throws SettingsFileError */
export function startTfserving(
  { modelPath, grpc = false }: ServerPreset,
  knobs: Knobs,
  place: ServerPlace,
  own: OwnSettings,
): ServerStart {
  const { flags, batching } = createTfservingTuning(knobs, place.dir, own)
  const share = limitShare(place)
  const args = [
    `--port=${grpc ? place.port : 0}`,
    `--rest_api_port=${grpc ? 0 : place.port}`,
    // The user's own file names its models.
    ...(own.has('--model_config_file')
      ? []
      : [`--model_name=${place.model}`, `--model_base_path=${modelPath}`]),
    ...flags,
    ...(share === undefined ? [] : [`--per_process_gpu_memory_fraction=${share}`]),
  ]
  return {
    args,
    files: batching === undefined ? [] : [{ path: batchingFile, contents: batching }],
    replaced: batching === undefined ? [] : [batchingFlag],
  }
}

/**
 * Creates flags for the tuned parameters only, and the text of the batching parameters if batching
 * is tuned, merged into the file that the user's own command names.
 * @throws SettingsFileError if that file cannot be merged
 */
export function createTfservingTuning(
  knobs: Knobs,
  folder: string,
  own = new OwnSettings(),
): { readonly flags: readonly string[]; readonly batching?: string } {
  const batching = formatBatching(knobs, own)
  const flag = (name: string, value: number | string | undefined) =>
    value === undefined ? [] : [`--${name}=${value}`]
  const flags = [
    ...(batching ? ['--enable_batching=true', `${batchingFlag}=${folder}/${batchingFile}`] : []),
    ...flag(
      'tensorflow_intra_op_parallelism',
      knobs.number('tensorflowIntraOpParallelism', 'intraOpParallelism', 'intraOpThreads'),
    ),
    ...flag(
      'tensorflow_inter_op_parallelism',
      knobs.number('tensorflowInterOpParallelism', 'interOpParallelism', 'interOpThreads'),
    ),
    ...flag('rest_api_num_threads', knobs.number('restApiNumThreads')),
  ]
  return { flags, ...(batching !== undefined && { batching }) }
}

/** A model of TensorFlow Serving's configuration. */
interface ServedModel {
  readonly name: string
  readonly folder?: string
}

/**
 * Lists the models that the user's command or its model_config_file configures; none if the tuner
 * configures the model. A name with a placeholder belongs to the tuner.
 * @throws SettingsFileError for a file that cannot be read
 */
export function listTfservingModels(own: OwnSettings): readonly ServedModel[] {
  const file = own.file('--model_config_file')
  const name = own.value('--model_name')
  if (file === undefined)
    return name === undefined || name === '' || name.includes('${')
      ? []
      : [{ name, folder: own.value('--model_base_path') }]
  try {
    return readFieldMessages(file.text, 'model_config_list', 'config').flatMap((config) => {
      const of = (field: string) => readFieldText(config, field)
      return of('name') === undefined ? [] : [{ name: of('name')!, folder: of('base_path') }]
    })
  } catch (error) {
    if (!(error instanceof TextProtoError)) throw error
    throw new SettingsFileError(`${file.path}: ${error.message}`)
  }
}

function formatBatching(knobs: Knobs, own: OwnSettings): string | undefined {
  const file = own.file(batchingFlag)
  if (file === undefined) {
    const parameters = createBatchingParameters(knobs, own.has('--enable_batching'))
    return parameters && formatTextProto(parameters)
  }
  try {
    const ownSizes = readFieldNumbers(file.text, 'allowed_batch_sizes')
    const parameters = createBatchingParameters(knobs, true, ownSizes)
    return parameters && mergeTextProto(file.text, parameters)
  } catch (error) {
    if (!(error instanceof TextProtoError)) throw error
    throw new SettingsFileError(
      `${file.path}: ${error.message}, so tune cannot set max_batch_size and similar fields in it`,
    )
  }
}

/**
 * BatchingParameters of tensorflow_serving/servables/tensorflow/session_bundle_config.proto, or
 * undefined if no batching knob was tuned. `allowedBatchSizes`: 'powers' (the default: batches
 * are padded to powers of two) or 'any'.
 * @param isBatchingEnabled the user's command enables batching
 * @param ownSizes allowed batch sizes of the user's file; those below the largest batch are
 * preserved
 */
function createBatchingParameters(
  knobs: Knobs,
  isBatchingEnabled: boolean,
  ownSizes?: readonly number[],
): ProtoMessage | undefined {
  const batch = knobs.number('maxBatchSize', 'batchSize')
  const delayMs = knobs.number('maxDelayMs', 'maxQueueDelayMs', 'batchDelayMs')
  const delayMicros =
    knobs.number('batchTimeoutMicros') ??
    (delayMs === undefined ? undefined : Math.round(delayMs * 1000))
  // The other settings have no effect without batches.
  if (batch === undefined && delayMicros === undefined && !isBatchingEnabled) return undefined
  const threads = knobs.number('numBatchThreads', 'instances')
  const queue = knobs.number('queueLimit', 'queueSize')
  const enqueued =
    knobs.number('maxEnqueuedBatches') ??
    (queue === undefined ? undefined : Math.max(1, Math.ceil(queue / (batch ?? 1))))
  const sizes = knobs.value('allowedBatchSizes')
  if ([batch, delayMicros, threads, enqueued].every((value) => value === undefined))
    return undefined
  const wrapped = (value: number | undefined): ProtoMessage | undefined =>
    value === undefined ? undefined : { value }
  return {
    max_batch_size: wrapped(batch),
    batch_timeout_micros: wrapped(delayMicros),
    num_batch_threads: wrapped(threads),
    max_enqueued_batches: wrapped(enqueued),
    allowed_batch_sizes: batch === undefined ? undefined : listAllowedSizes(batch, sizes, ownSizes),
  }
}

/**
 * Lists the allowed batch sizes; undefined if any size is allowed.
 * @param own sizes of the user's file
 */
function listAllowedSizes(
  batch: number,
  tuned: number | string | undefined,
  own: readonly number[] | undefined,
): number[] | undefined {
  if (tuned === 'any') return undefined
  if (tuned !== undefined || own === undefined) return listPowersOfTwo(batch)
  return own.length === 0 ? undefined : [...own.filter((size) => size < batch), batch]
}

/** Increasing, the last one the largest batch, as TensorFlow Serving demands. */
function listPowersOfTwo(batch: number): number[] {
  const sizes: number[] = []
  for (let size = 1; size < batch; size *= 2) sizes.push(size)
  return [...sizes, batch]
}
