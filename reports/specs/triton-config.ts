/** NVIDIA Triton: config.pbtxt of one model. */
import { unusedNote } from '../../trials/servers/knobs.ts'
import { type ProtoMessage, Text, textProto } from '../../trials/servers/text-proto.ts'
import { tritonTuning } from '../../trials/servers/triton.ts'
import { quoteWord } from '../../trials/shell-words.ts'
import { header, type SpecFile } from './manifest.ts'
import { scriptPlace } from './model-storage.ts'
import { gatheredBatch, servedKnobs } from './served-knobs.ts'
import type { Serving } from './serving.ts'
import type { SpecTarget } from './target.ts'

export const tritonImage = 'nvcr.io/nvidia/tritonserver:26.07-py3'

/** The tuned part of a ModelConfig (inference.ModelConfig of triton-inference-server/common). */
export function tritonConfig(
  serving: Serving,
  backend?: string,
): { readonly message: ProtoMessage; readonly notes: readonly string[] } {
  // The built-in predictor sends a full batch at once, as Triton does one of a preferred size.
  const batch = gatheredBatch(serving)
  const { knobs, notes } = servedKnobs(
    serving,
    batch === undefined ? {} : { preferredBatchSize: batch },
  )
  const message: ProtoMessage = {
    name: new Text(serving.model),
    backend: new Text(backend ?? assumedBackend),
    version_policy: versionPolicy(serving.modelVersion),
    ...tritonTuning(knobs, serving.resources.gpu !== undefined),
  }
  return {
    message,
    notes: [
      ...unusedNote(knobs),
      ...notes,
      ...(backend === undefined
        ? [`backend ${assumedBackend} is assumed; --triton-backend sets another`]
        : []),
    ],
  }
}

const assumedBackend = 'onnxruntime'

/** Absent: Triton serves the latest. */
function versionPolicy(version: string | undefined): ProtoMessage | undefined {
  if (version === undefined || version === 'latest') return undefined
  return version === 'all' ? { all: {} } : { specific: { versions: [Number(version)] } }
}

/** It stands beside the weights, and names none. */
const aside = (serving: Serving): Serving => ({
  ...serving,
  deployed: { ...serving.deployed, weights: 'own' },
})

function configFile(serving: Serving, backend: string | undefined): SpecFile {
  const { message, notes } = tritonConfig(serving, backend)
  return { name: 'config.pbtxt', text: `${header(aside(serving), notes)}${textProto(message)}` }
}

/** `config.pbtxt`, and where the repository is known `serve.sh`, which starts Triton on it. */
export const target: SpecTarget = {
  title: 'Triton',
  files: ['config.pbtxt', 'serve.sh'],
  writes:
    'batching and instance group of the model; `serve.sh` is written with `--model-uri` alone',
  needs: 'a Triton model repository',
  servers: ['triton'],
  implies: 'triton',
  takes: ['backend'],
  imageless: true,
  render: (serving, { backend }) => [configFile(serving, backend), ...startScript(serving)],
}

function startScript(serving: Serving): SpecFile[] {
  if (serving.modelUri === undefined) return []
  const command = `exec tritonserver --model-repository=${quoteWord(scriptPlace(serving.modelUri))}`
  const notes = [`put config.pbtxt into the folder ${serving.model} of that repository`]
  return [{ name: 'serve.sh', text: `#!/bin/sh\n${header(serving, notes)}${command}\n` }]
}
