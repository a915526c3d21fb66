/** TensorFlow Serving: its command line, batching_parameters_file and model_config_file. */

import { boundsMemory, defaultScheme } from '../../trials/launchers/kubernetes/gpu-selection.ts'
import { unusedNote } from '../../trials/servers/knobs.ts'
import { type ProtoMessage, Text, textProto } from '../../trials/servers/text-proto.ts'
import { batchingFile, tfservingTuning } from '../../trials/servers/tfserving.ts'
import { quoteWord } from '../../trials/shell-words.ts'
import { header, type SpecFile } from './manifest.ts'
import { scriptPlace } from './model-storage.ts'
import { batchKnobs } from './served-knobs.ts'
import type { Serving } from './serving.ts'
import type { SpecTarget } from './target.ts'

export const tfservingImage = (gpu: boolean): string =>
  `tensorflow/serving:2.19.0${gpu ? '-gpu' : ''}`

/** Where a target puts things and listens. */
interface TfservingPlaces {
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

interface TfservingConfig {
  readonly args: readonly string[]
  readonly files: readonly { readonly path: string; readonly contents: string }[]
  readonly notes: readonly string[]
}

/**
 * Flags and files for the tuned configuration: a flag for what was tuned, none for what was not.
 */
export function tfservingConfig(serving: Serving, places: TfservingPlaces): TfservingConfig {
  const { knobs, notes } = batchKnobs(serving)
  const { flags, batching } = tfservingTuning(knobs, places.configFolder)
  const modelsPath = `${places.configFolder}/models.config`
  const fraction = memoryFraction(serving)
  // Versions are chosen there alone.
  const byFile =
    places.modelConfigFile ||
    (serving.modelVersion !== undefined && serving.modelVersion !== 'latest')
  const args = [
    `--port=${places.grpcPort}`,
    `--rest_api_port=${places.restPort}`,
    ...(byFile
      ? [`--model_config_file=${modelsPath}`]
      : [`--model_name=${places.modelName}`, `--model_base_path=${places.basePath}`]),
    ...flags,
    ...(fraction === undefined ? [] : [`--per_process_gpu_memory_fraction=${fraction}`]),
  ]
  const files = [
    ...(batching === undefined
      ? []
      : [{ path: `${places.configFolder}/${batchingFile}`, contents: batching }]),
    ...(byFile ? [{ path: modelsPath, contents: textProto(modelConfig(serving, places)) }] : []),
  ]
  return { args, files, notes: [...unusedNote(knobs), ...notes] }
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
  if (
    !gpu ||
    gpuShare >= 1 ||
    migProfile ||
    (scheme !== undefined && boundsMemory(scheme, serving.dra))
  )
    return undefined
  return gpuShare
}

export const target: SpecTarget = {
  title: 'TensorFlow Serving',
  files: ['serve.sh', 'batching_parameters.txt', 'models.config'],
  writes: 'command line, batching parameters and version policy',
  needs: '`tensorflow_model_server` on the PATH',
  servers: ['tfserving'],
  implies: 'tfserving',
  imageless: true,
  render: tfservingSpec,
}

/** `serve.sh` with the two files it names. */
function tfservingSpec(serving: Serving): SpecFile[] {
  const basePath =
    serving.modelUri === undefined ? `/models/${serving.model}` : scriptPlace(serving.modelUri)
  const config = tfservingConfig(serving, {
    grpcPort: 8500,
    restPort: 8501,
    modelName: serving.model,
    basePath,
    configFolder: '.',
    modelConfigFile: true,
  })
  // The server itself would wait for them for ever.
  const there = quoteWord(basePath)
  const check =
    serving.modelUri === undefined
      ? `[ -d ${there} ] || { echo 'no model weights in '${there} >&2; exit 1; }\n`
      : ''
  const command = ['exec tensorflow_model_server', ...config.args.map(quoteWord)].join(' \\\n  ')
  return [
    {
      name: 'serve.sh',
      text: `#!/bin/sh\n${header(serving, config.notes)}cd "$(dirname "$0")" || exit 1\n${check}${command}\n`,
    },
    ...config.files.map((file) => ({
      name: file.path.replace('./', ''),
      text: `${header(serving)}${file.contents}`,
    })),
  ]
}
