/** NVIDIA Triton: config.pbtxt of one model. */
import { Knobs, unusedNote } from './knobs.ts'
import { header, type SpecFile } from './manifest.ts'
import type { Serving } from './serving.ts'
import { Enum, type ProtoMessage, Text, textProto } from './text-proto.ts'

export const tritonImage = 'nvcr.io/nvidia/tritonserver:26.07-py3'

/** The tuned part of a ModelConfig (inference.ModelConfig of triton-inference-server/common). */
export function tritonConfig(
  serving: Serving,
  backend = 'onnxruntime',
): { readonly message: ProtoMessage; readonly notes: readonly string[] } {
  const knobs = new Knobs(serving.configuration)
  const batch = knobs.number('maxBatchSize', 'batchSize')
  const preferred = knobs.number('preferredBatchSize')
  const delayMs = knobs.number('maxDelayMs', 'maxQueueDelayMs', 'batchDelayMs')
  const delayMicros = knobs.number('maxQueueDelayMicroseconds') ?? (delayMs === undefined ? undefined : Math.round(delayMs * 1000))
  const instances = knobs.number('instances', 'instanceCount')
  const queue = knobs.number('queueLimit', 'maxQueueSize')
  // Without this block Triton runs each request as it comes, whatever its largest batch.
  const batching = (batch ?? 1) > 1
  const message: ProtoMessage = {
    name: new Text(serving.model),
    backend: new Text(backend),
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
        : [{ count: instances, kind: new Enum(serving.resources.gpu ? 'KIND_GPU' : 'KIND_CPU') } satisfies ProtoMessage],
  }
  return { message, notes: unusedNote(knobs) }
}

/** `config.pbtxt`; `backend` is the model's own, which tune does not choose. */
export function tritonSpec(serving: Serving, backend?: string): SpecFile[] {
  const { message, notes } = tritonConfig(serving, backend)
  return [{ name: 'config.pbtxt', text: `${header(serving, notes)}${textProto(message)}` }]
}
