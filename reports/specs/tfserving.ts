/** TensorFlow Serving: its command line, batching_parameters_file and model_config_file. */

import { defaultScheme } from './gpu-selection.ts'
import { Knobs, unusedNote } from './knobs.ts'
import { header, oneLine, type SpecFile } from './manifest.ts'
import type { Serving } from './serving.ts'
import { type ProtoMessage, Text, textProto } from './text-proto.ts'

export const tfservingImage = (gpu: boolean): string => `tensorflow/serving:2.19.0${gpu ? '-gpu' : ''}`

/** Where a target puts things and listens. */
export interface TfservingPlaces {
  readonly grpcPort: number
  readonly restPort: number
  readonly modelName: string
  /** Folder with the version folders. */
  readonly basePath: string
  /** Folder of the batching parameters and, with `modelConfigFile`, of the model configuration. */
  readonly configFolder: string
  /** Serve by model_config_file (version policy) instead of by --model_name. */
  readonly modelConfigFile?: boolean
}

export interface TfservingConfig {
  readonly args: readonly string[]
  readonly files: readonly { readonly path: string; readonly contents: string }[]
  readonly notes: readonly string[]
}

/** Flags and files for the tuned configuration: a flag for what was tuned, none for what was not. */
export function tfservingConfig(serving: Serving, places: TfservingPlaces): TfservingConfig {
  const knobs = new Knobs(serving.configuration)
  const batching = batchingParameters(knobs)
  const batchingPath = `${places.configFolder}/batching_parameters.txt`
  const modelsPath = `${places.configFolder}/models.config`
  const flag = (name: string, value: number | string | undefined) => (value === undefined ? [] : [`--${name}=${value}`])
  const args = [
    `--port=${places.grpcPort}`,
    `--rest_api_port=${places.restPort}`,
    ...(places.modelConfigFile
      ? [`--model_config_file=${modelsPath}`]
      : [`--model_name=${places.modelName}`, `--model_base_path=${places.basePath}`]),
    ...(batching ? ['--enable_batching=true', `--batching_parameters_file=${batchingPath}`] : []),
    ...flag('per_process_gpu_memory_fraction', memoryFraction(serving)),
    ...flag('tensorflow_intra_op_parallelism', knobs.number('tensorflowIntraOpParallelism', 'intraOpParallelism', 'intraOpThreads')),
    ...flag('tensorflow_inter_op_parallelism', knobs.number('tensorflowInterOpParallelism', 'interOpParallelism', 'interOpThreads')),
    ...flag('rest_api_num_threads', knobs.number('restApiNumThreads')),
  ]
  const files = [
    ...(batching ? [{ path: batchingPath, contents: textProto(batching) }] : []),
    ...(places.modelConfigFile ? [{ path: modelsPath, contents: textProto(modelConfig(serving, places)) }] : []),
  ]
  return { args, files, notes: unusedNote(knobs) }
}

/** BatchingParameters of tensorflow_serving/config or undefined where no batching knob was tuned. A batch of 1 with no delay is no batching. */
function batchingParameters(knobs: Knobs): ProtoMessage | undefined {
  const batch = knobs.number('maxBatchSize', 'batchSize')
  const delayMs = knobs.number('maxDelayMs', 'maxQueueDelayMs', 'batchDelayMs')
  const delayMicros = knobs.number('batchTimeoutMicros') ?? (delayMs === undefined ? undefined : Math.round(delayMs * 1000))
  const threads = knobs.number('numBatchThreads', 'instances')
  const queue = knobs.number('queueLimit', 'queueSize')
  const enqueued = knobs.number('maxEnqueuedBatches') ?? (queue === undefined ? undefined : Math.max(1, Math.ceil(queue / (batch ?? 1))))
  if (batch === undefined && delayMicros === undefined) return undefined
  const wrapped = (value: number | undefined): ProtoMessage | undefined => (value === undefined ? undefined : { value })
  return {
    max_batch_size: wrapped(batch),
    batch_timeout_micros: wrapped(delayMicros),
    num_batch_threads: wrapped(threads),
    max_enqueued_batches: wrapped(enqueued),
    allowed_batch_sizes: batch === undefined ? undefined : powersOfTwoUpTo(batch),
  }
}

/** Increasing, the last one the largest batch, as TensorFlow Serving demands. */
function powersOfTwoUpTo(batch: number): number[] {
  const sizes: number[] = []
  for (let size = 1; size < batch; size *= 2) sizes.push(size)
  return [...sizes, batch]
}

function modelConfig(serving: Serving, places: TfservingPlaces): ProtoMessage {
  const version = serving.modelVersion
  const policy: ProtoMessage =
    version === undefined || version === 'latest'
      ? { latest: { num_versions: 1 } }
      : version === 'all'
        ? { all: {} }
        : { specific: { versions: Number(version) } }
  return {
    model_config_list: {
      config: {
        name: new Text(places.modelName),
        base_path: new Text(places.basePath),
        model_platform: new Text('tensorflow'),
        model_version_policy: policy,
      },
    },
  }
}

/** The part of the GPU's memory, where nothing but the server itself holds it to that. */
function memoryFraction(serving: Serving): number | undefined {
  const { gpuShare, gpu, migProfile } = serving.resources
  const scheme = serving.gpuScheme ?? defaultScheme(serving.resources)
  if (!gpu || gpuShare >= 1 || migProfile || scheme === 'hami' || scheme === 'volcano') return undefined
  return gpuShare
}

/** `serve.sh` with the two files it names. */
export function tfservingSpec(serving: Serving): SpecFile[] {
  const config = tfservingConfig(serving, {
    grpcPort: 8500,
    restPort: 8501,
    modelName: serving.model,
    basePath: serving.modelUri ?? `/models/${serving.model}`,
    configFolder: '.',
    modelConfigFile: true,
  })
  const quotedArg = (arg: string) => (/^[\w./:=@%+,-]+$/.test(arg) ? arg : `'${oneLine(arg).replaceAll("'", `'\\''`)}'`)
  const command = ['exec tensorflow_model_server', ...config.args.map(quotedArg)].join(' \\\n  ')
  return [
    { name: 'serve.sh', text: `#!/bin/sh\n${header(serving, config.notes)}cd "$(dirname "$0")" || exit 1\n${command}\n` },
    ...config.files.map((file) => ({ name: file.path.replace('./', ''), text: `${header(serving)}${file.contents}` })),
  ]
}
