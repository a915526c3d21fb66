/**
 * NVIDIA Triton: how it is started, and the tuned part of a ModelConfig (inference.ModelConfig of
 * triton-inference-server/common, model_config.proto).
 */
import type { Knobs } from './knobs.ts'
import type { OwnSettings } from './own-settings.ts'
import type { ServerPlace, ServerPreset, ServerStart } from './server-start.ts'
import { Enum, type ProtoMessage } from './text-proto.ts'

/** Field names of the message; `Enum` values name a kind. */
export interface TritonTuning extends ProtoMessage {
  readonly max_batch_size: number | undefined
  readonly dynamic_batching: ProtoMessage | undefined
  readonly instance_group: readonly ProtoMessage[] | undefined
}

/**
 * Tuned fields; untuned ones are undefined.
 * @param gpu whether instances run on a GPU
 */
export function createTritonTuning(knobs: Knobs, gpu: boolean): TritonTuning {
  const batch = knobs.number('maxBatchSize', 'batchSize')
  const preferred = knobs.number('preferredBatchSize')
  const delayMs = knobs.number('maxDelayMs', 'maxQueueDelayMs', 'batchDelayMs')
  const delayMicros =
    knobs.number('maxQueueDelayMicroseconds') ??
    (delayMs === undefined ? undefined : Math.round(delayMs * 1000))
  const instances = knobs.number('instances', 'instanceCount')
  const queue = knobs.number('queueLimit', 'maxQueueSize')
  // Without this block Triton runs each request as it comes, whatever its largest batch.
  const batching =
    batch === undefined ? (delayMicros ?? preferred ?? queue) !== undefined : batch > 1
  return {
    max_batch_size: batch,
    dynamic_batching: batching
      ? {
          preferred_batch_size: preferred === undefined ? undefined : [preferred],
          max_queue_delay_microseconds: delayMicros,
          default_queue_policy: queue === undefined ? undefined : { max_queue_size: queue },
        }
      : undefined,
    instance_group:
      instances === undefined
        ? undefined
        : [{ count: instances, kind: new Enum(gpu ? 'KIND_GPU' : 'KIND_CPU') }],
  }
}

/**
 * Triton loads the model as its repository has it. The tuned values follow through the model
 * control API, for which it is started in explicit mode.
 */
export function startTriton(
  { modelPath, metricsPort }: ServerPreset,
  knobs: Knobs,
  { host, port, model }: ServerPlace,
  own: OwnSettings,
): ServerStart {
  createTritonTuning(knobs, false)
  const repository = modelPath.replace(/[/\\][^/\\]*[/\\]*$/, '') || '/'
  const args = [
    `--model-repository=${repository}`,
    '--model-control-mode=explicit',
    `--load-model=${model}`,
    `--http-address=${host}`,
    `--http-port=${port}`,
    ...(own.has('--allow-grpc', '--grpc-port') ? [] : ['--allow-grpc=false']),
    ...createMetricsFlags(own, metricsPort),
  ]
  return { args, files: [], replaced: [] }
}

/** None if the user's command has some; else on the port that metrics are read on, or off. */
function createMetricsFlags(own: OwnSettings, port: number | undefined): string[] {
  if (own.has('--allow-metrics', '--metrics-port')) return []
  return port === undefined
    ? ['--allow-metrics=false']
    : ['--allow-metrics=true', `--metrics-port=${port}`]
}
