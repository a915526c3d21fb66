/** TensorFlow Serving: how it is started, and its batching_parameters_file. */
import type { Knobs } from './knobs.ts'
import { OwnSettings, SettingsFileError } from './own-settings.ts'
import {
  limitedShare,
  type ServerPlace,
  type ServerPreset,
  type ServerStart,
} from './server-start.ts'
import {
  mergeTextProto,
  messagesIn,
  numbersIn,
  type ProtoMessage,
  TextProtoError,
  textIn,
  textProto,
} from './text-proto.ts'

/** Name of the file beside the flags. */
export const batchingFile = 'batching_parameters.txt'
export const batchingFlag = '--batching_parameters_file'

/** @throws SettingsFileError */
export function startTfserving(
  { modelPath, grpc = false }: ServerPreset,
  knobs: Knobs,
  place: ServerPlace,
  own: OwnSettings,
): ServerStart {
  const { flags, batching } = tfservingTuning(knobs, place.dir, own)
  const share = limitedShare(place)
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
 * Flags for the tuned parameters, none for others, and the text of the batching parameters where
 * batching is tuned: merged into the file that the user's own command names.
 * @throws SettingsFileError where that file cannot be merged
 */
export function tfservingTuning(
  knobs: Knobs,
  folder: string,
  own = new OwnSettings(),
): { readonly flags: readonly string[]; readonly batching?: string } {
  const batching = batchingText(knobs, own)
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

/** A model that TensorFlow Serving is told to serve. */
interface ServedModel {
  readonly name: string
  readonly folder?: string
}

/**
 * The models that the user's own command, or the file that it names, has TensorFlow Serving serve;
 * none where that is left to the tuner. A name with a placeholder is the tuner's.
 * @throws SettingsFileError for a file that cannot be read
 */
export function tfservingModels(own: OwnSettings): readonly ServedModel[] {
  const file = own.file('--model_config_file')
  const name = own.value('--model_name')
  if (file === undefined)
    return name === undefined || name === '' || name.includes('${')
      ? []
      : [{ name, folder: own.value('--model_base_path') }]
  try {
    return messagesIn(file.text, 'model_config_list', 'config').flatMap((config) => {
      const of = (field: string) => textIn(config, field)
      return of('name') === undefined ? [] : [{ name: of('name')!, folder: of('base_path') }]
    })
  } catch (error) {
    if (!(error instanceof TextProtoError)) throw error
    throw new SettingsFileError(`${file.path}: ${error.message}`)
  }
}

function batchingText(knobs: Knobs, own: OwnSettings): string | undefined {
  const file = own.file(batchingFlag)
  if (file === undefined) {
    const parameters = batchingParameters(knobs, own.has('--enable_batching'))
    return parameters && textProto(parameters)
  }
  try {
    const ownSizes = numbersIn(file.text, 'allowed_batch_sizes')
    const parameters = batchingParameters(knobs, true, ownSizes)
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
 * undefined where no batching knob was tuned. `allowedBatchSizes`: 'powers' (the default: batches
 * are padded to powers of two) or 'any'.
 * @param batches the user's own command has batching on
 * @param ownSizes the allowed batch sizes of the user's file, which are kept below the largest batch
 */
function batchingParameters(
  knobs: Knobs,
  batches: boolean,
  ownSizes?: readonly number[],
): ProtoMessage | undefined {
  const batch = knobs.number('maxBatchSize', 'batchSize')
  const delayMs = knobs.number('maxDelayMs', 'maxQueueDelayMs', 'batchDelayMs')
  const delayMicros =
    knobs.number('batchTimeoutMicros') ??
    (delayMs === undefined ? undefined : Math.round(delayMs * 1000))
  // Without batches there is nothing that the others could set.
  if (batch === undefined && delayMicros === undefined && !batches) return undefined
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
    allowed_batch_sizes: batch === undefined ? undefined : allowedSizes(batch, sizes, ownSizes),
  }
}

/** Undefined: any. @param own of the user's file */
function allowedSizes(
  batch: number,
  tuned: number | string | undefined,
  own: readonly number[] | undefined,
): number[] | undefined {
  if (tuned === 'any') return undefined
  if (tuned !== undefined || own === undefined) return powersOfTwoUpTo(batch)
  return own.length === 0 ? undefined : [...own.filter((size) => size < batch), batch]
}

/** Increasing, the last one the largest batch, as TensorFlow Serving demands. */
function powersOfTwoUpTo(batch: number): number[] {
  const sizes: number[] = []
  for (let size = 1; size < batch; size *= 2) sizes.push(size)
  return [...sizes, batch]
}
