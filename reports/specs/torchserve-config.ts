/** TorchServe: `model-config.yaml` of a model archive. */
import { Knobs, unusedNote } from '../../trials/launchers/server-files/knobs.ts'
import { header, type SpecFile, yamlOf } from './manifest.ts'
import type { Serving, WholeContainer } from './serving.ts'
import type { SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'TorchServe',
  servers: ['torchserve'],
  implies: 'torchserve',
  imageless: true,
  refusesModelUri: {
    why: 'the weights are in the archive that holds this file',
    hint: 'build it with torch-model-archiver --config-file model-config.yaml',
  },
  render: torchserveSpec,
}

/** TorchServe's own tag of an image: with CUDA, or without. */
export const torchserveImage = (gpu: boolean): string =>
  `pytorch/torchserve:0.12.0-${gpu ? 'gpu' : 'cpu'}`

const [inferencePort, metricsPort] = [8080, 8082]

/** Of one model, as its archive and the server's own configuration have them; absent: not tuned. */
function tuningOf(knobs: Knobs) {
  const workers = knobs.number('instances', 'workers')
  const delayMs = knobs.number('maxBatchDelay', 'maxDelayMs')
  return {
    minWorkers: knobs.number('minWorkers') ?? workers,
    maxWorkers: knobs.number('maxWorkers') ?? workers,
    batchSize: knobs.number('batchSize', 'maxBatchSize'),
    // Whole milliseconds only.
    maxBatchDelay: delayMs === undefined ? undefined : Math.max(1, Math.round(delayMs)),
  }
}

function torchserveSpec(serving: Serving): SpecFile[] {
  const knobs = new Knobs(serving.configuration)
  const config = {
    ...tuningOf(knobs),
    jobQueueSize: knobs.number('jobQueueSize', 'queueLimit'),
    startupTimeout: serving.held.startupSeconds,
    deviceType: serving.resources.gpu ? 'gpu' : 'cpu',
  }
  return [
    { name: 'model-config.yaml', text: `${header(serving, unusedNote(knobs))}${yamlOf(config)}` },
  ]
}

/**
 * The container of TorchServe, with the tuned values in its config.properties. @param folder of the
 * archive @param files where the configuration lies
 */
export function torchserveContainer(
  serving: Serving,
  folder: string,
  files: string,
): WholeContainer {
  const knobs = new Knobs(serving.configuration)
  const { model, modelVersion } = serving
  const queue = knobs.number('jobQueueSize', 'queueLimit')
  const version = modelVersion === undefined || modelVersion === 'latest' ? '1.0' : modelVersion
  const tuned = {
    defaultVersion: true,
    marName: `${model}.mar`,
    ...tuningOf(knobs),
    startupTimeout: serving.held.startupSeconds,
  }
  const path = `${files}/config.properties`
  const lines = [
    `inference_address=http://0.0.0.0:${inferencePort}`,
    'management_address=http://127.0.0.1:8081',
    `metrics_address=http://0.0.0.0:${metricsPort}`,
    'metrics_mode=prometheus',
    'disable_token_authorization=true',
    ...(queue === undefined ? [] : [`job_queue_size=${queue}`]),
    `models=${JSON.stringify({ [model]: { [version]: tuned } })}`,
  ]
  return {
    ...serving.container,
    command: ['sh', '-c', start, 'sh', model, folder, path],
    args: undefined,
    files: [{ path, contents: `${lines.join('\n')}\n` }],
    port: inferencePort,
    metrics: { port: metricsPort, path: '/metrics' },
    notes: [
      ...unusedNote(knobs),
      `the model URI holds ${model}.mar, built as version ${version}; a model-config.yaml inside it goes before what stands here`,
    ],
    sharedMemory: true,
  }
}

/**
 * $1 the model, $2 the archive's folder, or one of KServe's with model-store in it, $3 the
 * configuration.
 */
const start = `set -e
store="$2"; [ -f "$store/$1.mar" ] || store="$2/model-store"
[ -f "$store/$1.mar" ] || { echo "no $1.mar in $2: the model URI must hold a TorchServe archive" >&2; exit 1; }
exec torchserve --start --foreground --model-store="$store" --models="$1=$1.mar" --ts-config="$3"`
