/** NVIDIA Triton: config.pbtxt of one model, and a repository that holds it. */
import { describeUnused } from '../../../trials/servers/knobs.ts'
import { formatTextProto, type ProtoMessage, Text } from '../../../trials/servers/text-proto.ts'
import { createTritonTuning } from '../../../trials/servers/triton.ts'
import type { ServerContainer, Serving } from '../serving.ts'
import { resolveBatchingKnobs, resolveGatheredBatch } from './batching-knobs.ts'

export const tritonImage = 'nvcr.io/nvidia/tritonserver:26.07-py3'

const assumedBackend = 'onnxruntime'
const metricsPort = 8002

interface TritonConfig {
  readonly text: string
  readonly notes: readonly string[]
}

/** The tuned part of a ModelConfig (inference.ModelConfig of triton-inference-server/common). */
export function configureTriton(serving: Serving, backend?: string): TritonConfig {
  // The built-in predictor sends a full batch at once, as Triton does one of a preferred size.
  const batch = resolveGatheredBatch(serving)
  const { knobs, notes } = resolveBatchingKnobs(
    serving,
    batch === undefined ? {} : { preferredBatchSize: batch },
  )
  const message: ProtoMessage = {
    name: new Text(serving.model),
    backend: new Text(backend ?? assumedBackend),
    version_policy: buildVersionPolicy(serving.modelVersion),
    ...createTritonTuning(knobs, serving.resources.gpu !== undefined),
  }
  return {
    text: formatTextProto(message),
    notes: [
      ...describeUnused(knobs),
      ...notes,
      ...(backend === undefined
        ? [`backend ${assumedBackend} is assumed; --triton-backend sets another`]
        : []),
    ],
  }
}

/** Undefined: Triton's default, which serves the latest version. */
function buildVersionPolicy(version: string | undefined): ProtoMessage | undefined {
  if (version === undefined || version === 'latest') return undefined
  return version === 'all' ? { all: {} } : { specific: { versions: [Number(version)] } }
}

/** Where the tuned configuration is mounted. */
const configPath = '/etc/tuned/config.pbtxt'
const repository = '/tmp/repository'

/**
 * Shell commands that make a repository of one model, with links to its files and with the tuned
 * configuration; the source may be read-only. $1 is the model, $2 its repository or its own folder.
 */
const makeRepository = `set -e
from="$2/$1"; [ -d "$from" ] || from="$2"
ls -d "$from"/[0-9]*/ >/dev/null 2>&1 || { echo "no version folder of $1 in $2: the model URI must hold a Triton model" >&2; exit 1; }
to="${repository}/$1"; mkdir -p "$to"
for part in "$from"/*; do ln -sfn "$part" "$to/"; done
rm -f "$to/config.pbtxt"; cp ${configPath} "$to/config.pbtxt"
`

const replacedConfigNote =
  "the tuned config.pbtxt replaces the model's own: add settings that the model needs; Triton derives inputs and outputs from the model"

/**
 * Triton in a container. On a platform, its command ignores arguments, because those that the
 * platform adds would name another repository.
 * @param folder of the model, or of its repository
 */
export function buildTritonContainer(
  serving: Serving,
  { http, grpc, folder }: { readonly http: number; readonly grpc: number; readonly folder: string },
  backend: string | undefined,
  isOnPlatform: boolean,
): ServerContainer {
  const { text, notes } = configureTriton(serving, backend)
  const flags = [`--http-port=${http}`, `--grpc-port=${grpc}`, `--metrics-port=${metricsPort}`]
  const start = `exec tritonserver --model-repository=${repository}`
  const script = isOnPlatform
    ? `${makeRepository}${start} ${flags.join(' ')}`
    : `${makeRepository}shift 2; ${start} "$@"`
  return {
    ...serving.container,
    command: ['sh', '-c', script, 'sh', serving.model, folder],
    args: isOnPlatform ? undefined : flags,
    files: [{ path: configPath, contents: text }],
    port: http,
    metrics: { port: metricsPort, path: '/metrics' },
    notes: [...notes, replacedConfigNote],
    sharedMemory: true,
  }
}
