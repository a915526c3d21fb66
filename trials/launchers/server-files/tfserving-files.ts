/** TensorFlow Serving: the tuned part of its command line and its batching_parameters_file. */
import type { Knobs } from './knobs.ts'
import { type ProtoMessage, textProto } from './text-proto.ts'

/** Name of the file beside the flags. */
export const batchingFile = 'batching_parameters.txt'

/**
 * Flags for the tuned parameters, none for others, and the text of the batching parameters where
 * batching is tuned.
 */
export function tfservingTuning(
  knobs: Knobs,
  folder: string,
): { readonly flags: readonly string[]; readonly batching?: string } {
  const batching = batchingParameters(knobs)
  const flag = (name: string, value: number | string | undefined) =>
    value === undefined ? [] : [`--${name}=${value}`]
  const flags = [
    ...(batching
      ? ['--enable_batching=true', `--batching_parameters_file=${folder}/${batchingFile}`]
      : []),
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
  return { flags, ...(batching && { batching: textProto(batching) }) }
}

/**
 * BatchingParameters of tensorflow_serving/servables/tensorflow/session_bundle_config.proto, or
 * undefined where no batching knob was tuned. `allowedBatchSizes`: 'powers' (the default: batches
 * are padded to powers of two) or 'any'.
 */
function batchingParameters(knobs: Knobs): ProtoMessage | undefined {
  const batch = knobs.number('maxBatchSize', 'batchSize')
  const delayMs = knobs.number('maxDelayMs', 'maxQueueDelayMs', 'batchDelayMs')
  const delayMicros =
    knobs.number('batchTimeoutMicros') ??
    (delayMs === undefined ? undefined : Math.round(delayMs * 1000))
  const threads = knobs.number('numBatchThreads', 'instances')
  const queue = knobs.number('queueLimit', 'queueSize')
  const enqueued =
    knobs.number('maxEnqueuedBatches') ??
    (queue === undefined ? undefined : Math.max(1, Math.ceil(queue / (batch ?? 1))))
  const anySize = knobs.value('allowedBatchSizes') === 'any'
  if (batch === undefined && delayMicros === undefined) return undefined
  const wrapped = (value: number | undefined): ProtoMessage | undefined =>
    value === undefined ? undefined : { value }
  return {
    max_batch_size: wrapped(batch),
    batch_timeout_micros: wrapped(delayMicros),
    num_batch_threads: wrapped(threads),
    max_enqueued_batches: wrapped(enqueued),
    allowed_batch_sizes: batch === undefined || anySize ? undefined : powersOfTwoUpTo(batch),
  }
}

/** Increasing, the last one the largest batch, as TensorFlow Serving demands. */
function powersOfTwoUpTo(batch: number): number[] {
  const sizes: number[] = []
  for (let size = 1; size < batch; size *= 2) sizes.push(size)
  return [...sizes, batch]
}
