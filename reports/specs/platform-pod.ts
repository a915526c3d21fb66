/** The server container and its placement, as the serving platforms' own objects carry them. */
import {
  type GpuSelection,
  gpuTolerations,
} from '../../trials/launchers/kubernetes/gpu-selection.ts'
import { lifecycle } from './available.ts'
import type { Manifest } from './manifest.ts'
import { fileMounts, probes, resourcesBlock, scratch } from './pod.ts'
import { instanceSelector, podClaims, specGpus } from './pod-gpus.ts'
import { tfservingMetricsPath, tfservingMonitoring, tritonOnPlatform } from './server-pod.ts'
import type { Container, Serving } from './serving.ts'
import { tfservingConfig } from './tfserving-deployment.ts'

const configFolder = '/etc/tfs'

export interface PlatformServer {
  /** Fields of the container beside its name and image. */
  readonly fields: Manifest
  readonly volumes: readonly Manifest[]
  /** What the volumes hold. */
  readonly configMap?: Manifest
  readonly gpu: GpuSelection
  readonly notes: readonly string[]
  /** Of the pod. */
  readonly annotations?: Readonly<Record<string, string>>
  /** Where it listens, and where Prometheus reads it. */
  readonly scraped: Pick<Container, 'port' | 'metrics'>
}

/** Where the platform wants it. */
interface Places {
  readonly http: number
  readonly grpc: number
  /** Folder of the model, or of its versions. */
  readonly folder: string
}

/** The volumes of a pod, as far as there are any. */
export const mounted = ({ volumes }: Pick<PlatformServer, 'volumes'>): Manifest =>
  volumes.length > 0 ? { volumes } : {}

/**
 * TensorFlow Serving with its files in a ConfigMap: batching, versions, and what has it count for
 * Prometheus.
 */
export function tfservingServer(serving: Serving, { http, grpc, folder }: Places): PlatformServer {
  const plain = plainServer(serving)
  const places = {
    grpcPort: grpc,
    restPort: http,
    basePath: folder,
    modelName: serving.name,
    configFolder,
  }
  const config = tfservingConfig(serving, places)
  const monitoring = { path: `${configFolder}/monitoring.config`, contents: tfservingMonitoring }
  const files = fileMounts(serving, [...config.files, monitoring])
  const readyPath = `/v1/models/${serving.name}`
  return {
    ...plain,
    notes: [...plain.notes, ...config.notes],
    fields: {
      args: [...config.args, `--monitoring_config_file=${monitoring.path}`],
      ...probes(serving, { readyPath }, http),
      lifecycle,
      volumeMounts: files.volumeMounts,
      ...plain.fields,
    },
    volumes: files.volumes,
    configMap: files.configMap,
    scraped: { port: http, metrics: { port: http, path: tfservingMetricsPath } },
  }
}

/**
 * Triton with the tuned config.pbtxt in a ConfigMap, on a repository of its own, of links to the
 * model that the platform fetched.
 */
export function tritonServer(
  serving: Serving,
  { http, grpc, folder }: Places,
  backend: string | undefined,
): PlatformServer {
  const plain = plainServer(serving)
  const triton = tritonOnPlatform(serving, folder, { http, grpc }, backend)
  const files = fileMounts(serving, triton.files)
  const shared = scratch(serving, { sharedMemory: true })
  return {
    ...plain,
    notes: [...plain.notes, ...triton.notes],
    fields: {
      command: triton.command,
      ...probes(serving, { readyPath: '/v2/health/ready', livePath: '/v2/health/live' }, http),
      lifecycle,
      volumeMounts: [...files.volumeMounts, ...shared.volumeMounts],
      ...plain.fields,
    },
    volumes: [...files.volumes, ...shared.volumes],
    configMap: files.configMap,
    scraped: { port: http, metrics: triton.metrics },
  }
}

/** What any server holds; where it listens is the platform's own. */
export function plainServer(serving: Serving): PlatformServer {
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  return {
    gpu,
    notes: gpu.needs.map((need) => `needs: ${need}`),
    fields: { resources: resourcesBlock(serving, gpu) },
    volumes: [],
    scraped: serving.container,
  }
}

/** Node selection in the form of a pod spec's fields; nothing where nothing is needed. */
export function nodePlacement(serving: Serving, gpu: GpuSelection): Manifest {
  return {
    ...(gpu.schedulerName ? { schedulerName: gpu.schedulerName } : {}),
    ...instanceSelector(serving),
    ...(gpu.requirements.length > 0
      ? {
          affinity: {
            nodeAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: {
                nodeSelectorTerms: [{ matchExpressions: gpu.requirements }],
              },
            },
          },
        }
      : {}),
    ...podClaims(serving, gpu),
    ...(serving.resources.gpu ? { tolerations: gpuTolerations(gpu) } : {}),
  }
}
