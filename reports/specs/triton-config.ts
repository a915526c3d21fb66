/** NVIDIA Triton: config.pbtxt of one model. */
import { Knobs, unusedNote } from '../../trials/launchers/server-files/knobs.ts'
import { type ProtoMessage, Text, textProto } from '../../trials/launchers/server-files/text-proto.ts'
import { tritonTuning } from '../../trials/launchers/server-files/triton-files.ts'
import { header, type SpecFile } from './manifest.ts'
import type { Serving } from './serving.ts'

export const tritonImage = 'nvcr.io/nvidia/tritonserver:26.07-py3'

/** The tuned part of a ModelConfig (inference.ModelConfig of triton-inference-server/common). */
export function tritonConfig(
  serving: Serving,
  backend = 'onnxruntime',
): { readonly message: ProtoMessage; readonly notes: readonly string[] } {
  const knobs = new Knobs(serving.configuration)
  const message: ProtoMessage = {
    name: new Text(serving.model),
    backend: new Text(backend),
    ...tritonTuning(knobs, serving.resources.gpu !== undefined),
  }
  return { message, notes: unusedNote(knobs) }
}

/** `config.pbtxt`; `backend` is the model's own, which tune does not choose. */
export function tritonSpec(serving: Serving, backend?: string): SpecFile[] {
  const { message, notes } = tritonConfig(serving, backend)
  return [{ name: 'config.pbtxt', text: `${header(serving, notes)}${textProto(message)}` }]
}
