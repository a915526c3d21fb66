/** TensorFlow Serving: its command line, batching_parameters_file and model_config_file. */
import {
  chooseDefaultScheme,
  limitsGpuMemory,
} from '../../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { describeUnused } from '../../../trials/servers/knobs.ts'
import { formatTextProto, type ProtoMessage, Text } from '../../../trials/servers/text-proto.ts'
import { batchingFile, createTfservingTuning } from '../../../trials/servers/tfserving.ts'
import type { ServerContainer, Serving } from '../serving.ts'
import { resolveBatchSizeKnobs } from './batching-knobs.ts'

export const chooseTfservingImage = (hasGpu: boolean): string =>
  `tensorflow/serving:2.19.0${hasGpu ? '-gpu' : ''}`
export const tfservingProgram = '/usr/bin/tensorflow_model_server'

/** Path of the metrics, which TensorFlow Serving exports only with a monitoring file. */
const metricsPath = '/monitoring/prometheus/metrics'
const monitoring = `prometheus_config {\n  enable: true\n  path: "${metricsPath}"\n}\n`

/** Ports and folders of a target. */
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

/** Flags and files for the tuned configuration: a flag for what was tuned, none for the rest. */
export function configureTfserving(serving: Serving, places: TfservingPlaces): TfservingConfig {
  const { knobs, notes } = resolveBatchSizeKnobs(serving)
  const { flags, batching } = createTfservingTuning(knobs, places.configFolder)
  const modelsPath = `${places.configFolder}/models.config`
  const fraction = resolveMemoryFraction(serving)
  // Versions can be chosen only in the file.
  const usesModelFile =
    places.modelConfigFile ||
    (serving.modelVersion !== undefined && serving.modelVersion !== 'latest')
  return {
    args: [
      `--port=${places.grpcPort}`,
      `--rest_api_port=${places.restPort}`,
      ...(usesModelFile
        ? [`--model_config_file=${modelsPath}`]
        : [`--model_name=${places.modelName}`, `--model_base_path=${places.basePath}`]),
      ...flags,
      ...(fraction === undefined ? [] : [`--per_process_gpu_memory_fraction=${fraction}`]),
    ],
    files: [
      ...(batching === undefined
        ? []
        : [{ path: `${places.configFolder}/${batchingFile}`, contents: batching }]),
      ...(usesModelFile
        ? [{ path: modelsPath, contents: formatTextProto(buildModelConfig(serving, places)) }]
        : []),
    ],
    notes: [...describeUnused(knobs), ...notes],
  }
}

/** TensorFlow Serving in a container, where it exports metrics for Prometheus. */
export function buildTfservingContainer(
  serving: Serving,
  places: Omit<TfservingPlaces, 'modelConfigFile'>,
): ServerContainer {
  const { args, files, notes } = configureTfserving(serving, places)
  const monitoringPath = `${places.configFolder}/monitoring.config`
  return {
    ...serving.container,
    command: undefined,
    args: [...args, `--monitoring_config_file=${monitoringPath}`],
    files: [...files, { path: monitoringPath, contents: monitoring }],
    port: places.restPort,
    metrics: { port: places.restPort, path: metricsPath },
    notes,
    sharedMemory: false,
  }
}

function buildModelConfig(serving: Serving, places: TfservingPlaces): ProtoMessage {
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

/** Resolves the share of the GPU's memory, where only the server itself can enforce it. */
function resolveMemoryFraction({ resources, gpuScheme, dra }: Serving): number | undefined {
  const { gpuShare, gpu, migProfile } = resources
  const scheme = gpuScheme ?? chooseDefaultScheme(resources)
  const isBounded = scheme !== undefined && limitsGpuMemory(scheme, dra)
  return !gpu || gpuShare >= 1 || migProfile || isBounded ? undefined : gpuShare
}
