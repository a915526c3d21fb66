/** NVIDIA Triton: config.pbtxt of each model, and a repository that holds them. */
import type { Configuration } from '../../../search/types.ts'
import { pickStage } from '../../../trials/pipeline/stage-configuration.ts'
import { describeUnused, Knobs } from '../../../trials/servers/knobs.ts'
import type { TritonModel } from '../../../trials/servers/server-start.ts'
import {
  Enum,
  formatTextProto,
  mergeTextProto,
  type ProtoMessage,
  readFieldNumbers,
  Text,
} from '../../../trials/servers/text-proto.ts'
import { applyTuning, createTritonTuning, tuneConfigText } from '../../../trials/servers/triton.ts'
import { quoteWord } from '../../../trials/shell-words.ts'
import type { ServerContainer, Serving } from '../serving.ts'
import { SpecError } from '../spec-error.ts'
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
  const gpu = serving.resources.gpu !== undefined
  const message: ProtoMessage = {
    name: new Text(serving.model),
    backend: new Text(backend ?? assumedBackend),
    version_policy: buildVersionPolicy(serving.modelVersion),
    ...(applyTuning(
      {},
      createTritonTuning(knobs),
      new Enum(gpu ? 'KIND_GPU' : 'KIND_CPU'),
    ) as ProtoMessage),
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

/**
 * The config.pbtxt of each model of an ensemble or BLS model, by name, callers first.
 * @throws SpecError if the entry is gone from the repository
 */
export function configureTritonModels(
  serving: Serving,
  models: readonly TritonModel[],
  backend?: string,
): ReadonlyMap<string, TritonConfig> {
  if (!models.some(({ name }) => name === serving.model))
    throw new SpecError(
      `the config.pbtxt of ${serving.model} is gone from its model repository`,
      'restore the repository that was measured',
    )
  return new Map(
    models.map((model) => [model.name, configureModel(serving, model, models, backend)]),
  )
}

function configureModel(
  serving: Serving,
  model: TritonModel,
  models: readonly TritonModel[],
  backend: string | undefined,
): TritonConfig {
  const { name, stage, config } = model
  const configuration = stage === undefined ? {} : pickStage(serving.configuration, stage)
  if (config === undefined)
    return configureTriton(
      { ...serving, model: name, modelVersion: undefined, configuration },
      backend,
    )
  if (stage !== undefined) {
    const knobs = new Knobs(configuration)
    const text = tuneConfigText(config, createTritonTuning(knobs))
    return { text, notes: describeUnused(knobs) }
  }
  const limit = findMaxBatch(model, models, serving.configuration)
  const isLower = limit < readMaxBatch(config)
  return { text: isLower ? mergeTextProto(config, { max_batch_size: limit }) : config, notes: [] }
}

/** Largest batch that a model and all that it calls take; infinite for one without batches. */
function findMaxBatch(
  { stage, steps = [], config = '' }: TritonModel,
  models: readonly TritonModel[],
  configuration: Configuration,
): number {
  const tuned =
    stage === undefined
      ? undefined
      : createTritonTuning(new Knobs(pickStage(configuration, stage))).max_batch_size
  const own = tuned ?? readMaxBatch(config)
  return Math.min(
    own > 0 ? own : Number.POSITIVE_INFINITY,
    ...steps.map((step) =>
      findMaxBatch(models.find(({ name }) => name === step)!, models, configuration),
    ),
  )
}

const readMaxBatch = (config: string): number =>
  readFieldNumbers(config, 'max_batch_size').at(-1) ?? 0

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

/** The same for all models of an ensemble or BLS model. $2 is their repository. */
const makeRepositoryOf = (models: readonly string[]): string => `set -e
for model in ${models.map(quoteWord).join(' ')}; do
from="$2/$model"
ls -d "$from"/[0-9]*/ >/dev/null 2>&1 || { echo "no version folder of $model in $2: the model URI must hold the model repository" >&2; exit 1; }
to="${repository}/$model"; mkdir -p "$to"
for part in "$from"/*; do ln -sfn "$part" "$to/"; done
rm -f "$to/config.pbtxt"; cp "/etc/tuned/$model/config.pbtxt" "$to/config.pbtxt"
done
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
  const { tritonModels: models } = serving
  const configs =
    models === undefined
      ? new Map([['', configureTriton(serving, backend)]])
      : configureTritonModels(serving, models, backend)
  const prepare = models ? makeRepositoryOf(models.map(({ name }) => name)) : makeRepository
  const flags = [`--http-port=${http}`, `--grpc-port=${grpc}`, `--metrics-port=${metricsPort}`]
  const start = `exec tritonserver --model-repository=${repository}`
  const script = isOnPlatform
    ? `${prepare}${start} ${flags.join(' ')}`
    : `${prepare}shift 2; ${start} "$@"`
  return {
    ...serving.container,
    command: ['sh', '-c', script, 'sh', serving.model, folder],
    args: isOnPlatform ? undefined : flags,
    files: [...configs].map(([model, { text }]) => ({
      path: models ? `/etc/tuned/${model}/config.pbtxt` : configPath,
      contents: text,
    })),
    port: http,
    metrics: { port: metricsPort, path: '/metrics' },
    notes: [
      ...[...configs.values()].flatMap(({ notes }) => notes),
      ...(models ? [] : [replacedConfigNote]),
    ],
    sharedMemory: true,
  }
}
