/**
 * The container of a serving, whole: what was tuned in the server's own flags and files, and its
 * weights. For pods and Compose services alike.
 */
import { textProto } from '../../trials/servers/text-proto.ts'
import { imageNotes, weightsRemedy } from './incomplete.ts'
import { wholeLanguageContainer } from './language-servers.ts'
import { mlserverContainer } from './mlserver-pod.ts'
import { modelFolder, storageOf } from './model-storage.ts'
import type { Serving, WholeContainer } from './serving.ts'
import { tfservingConfig } from './tfserving-deployment.ts'
import { tritonConfig } from './triton-config.ts'

const tunedFolder = '/etc/tuned'
const [tritonPort, tritonMetricsPort, tfservingPort] = [8000, 8002, 8501]

/** Where it counts for Prometheus, by the monitoring file, without which it counts for nobody. */
export const tfservingMetricsPath = '/monitoring/prometheus/metrics'
/** Its contents. */
export const tfservingMonitoring = `prometheus_config {\n  enable: true\n  path: "${tfservingMetricsPath}"\n}\n`

/** @param backend Triton's, of the model */
export function wholeContainer(serving: Serving, backend?: string): WholeContainer {
  const whole = contained(serving, backend)
  return serving.deployed.weights === 'missing' && serving.deployed.server !== 'builtin'
    ? refusing(whole)
    : whole
}

function contained(serving: Serving, backend: string | undefined): WholeContainer {
  const { container, deployed, model } = serving
  const folder = storageOf(serving)?.path ?? modelFolder
  switch (deployed.server) {
    case 'tfserving': {
      const places = {
        grpcPort: 8500,
        restPort: tfservingPort,
        modelName: model,
        basePath: folder,
        configFolder: tunedFolder,
      }
      const config = tfservingConfig(serving, places)
      return {
        ...container,
        command: ['/usr/bin/tensorflow_model_server'],
        args: [...config.args, `--monitoring_config_file=${tunedFolder}/monitoring.config`],
        files: [
          ...config.files,
          { path: `${tunedFolder}/monitoring.config`, contents: tfservingMonitoring },
        ],
        metrics: { port: tfservingPort, path: tfservingMetricsPath },
        port: tfservingPort,
        notes: config.notes,
        sharedMemory: false,
      }
    }
    case 'triton': {
      const config = tritonConfig(serving, backend)
      const ports = [
        `--http-port=${tritonPort}`,
        '--grpc-port=8001',
        `--metrics-port=${tritonMetricsPort}`,
      ]
      return {
        ...container,
        command: [
          'sh',
          '-c',
          `${tritonRepository}shift 2; exec tritonserver --model-repository=${madeRepository} "$@"`,
          'sh',
          model,
          folder,
        ],
        args: ports,
        files: [{ path: tunedTritonConfig, contents: textProto(config.message) }],
        metrics: { port: tritonMetricsPort, path: '/metrics' },
        port: tritonPort,
        notes: [...config.notes, tritonNote],
        sharedMemory: true,
      }
    }
    case 'mlserver':
      return mlserverContainer(serving, folder)
    case 'vllm':
    case 'sglang':
    case 'tgi':
    case 'tensorrt-llm':
      return wholeLanguageContainer(deployed.server, serving)
    default:
      return {
        ...container,
        notes: [
          ...(container.notes ?? []),
          ...imageNotes(container.image, serving.evidence.measured.image),
        ],
        sharedMemory: false,
      }
  }
}

const tritonNote =
  "the tuned config.pbtxt replaces the model's own: add settings that the model needs; Triton derives inputs and outputs from the model"

/** Where the tuned configuration lies. */
const tunedTritonConfig = `${tunedFolder}/config.pbtxt`
const madeRepository = '/tmp/repository'

/**
 * The repository of one model, of links to its files and the tuned configuration: what it is made
 * from may be read-only. $1 the model, $2 its repository or its own folder.
 */
const tritonRepository = `set -e
from="$2/$1"; [ -d "$from" ] || from="$2"
ls -d "$from"/[0-9]*/ >/dev/null 2>&1 || { echo "no version folder of $1 in $2: the model URI must hold a Triton model" >&2; exit 1; }
to="${madeRepository}/$1"; mkdir -p "$to"
for part in "$from"/*; do ln -sfn "$part" "$to/"; done
rm -f "$to/config.pbtxt"; cp ${tunedTritonConfig} "$to/config.pbtxt"
`

/**
 * As a platform's container: the platform may add arguments of its own, which would name another
 * repository and are not read.
 */
export const tritonOnPlatform = (
  serving: Serving,
  folder: string,
  ports: { readonly http: number; readonly grpc: number },
  backend?: string,
) => {
  const config = tritonConfig(serving, backend)
  const flags = `--http-port=${ports.http} --grpc-port=${ports.grpc} --metrics-port=${tritonMetricsPort}`
  const start = `${tritonRepository}exec tritonserver --model-repository=${madeRepository} ${flags}`
  return {
    command: ['sh', '-c', start, 'sh', serving.model, folder],
    files: [{ path: tunedTritonConfig, contents: textProto(config.message) }],
    metrics: { port: tritonMetricsPort, path: '/metrics' },
    notes: [...config.notes, tritonNote],
  }
}

/** Exits at once with the reason; the command that would start the server stays readable. */
const refusing = (container: WholeContainer): WholeContainer => ({
  ...container,
  command: [
    'sh',
    '-c',
    `echo 'no model weights. ${weightsRemedy}' >&2; exit 1`,
    ...(container.command ?? []),
  ],
})
