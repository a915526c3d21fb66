/** The server container and its placement, as the serving platforms' own objects carry them. */
import { posix } from 'node:path'
import type { GpuSelection } from '../../trials/launchers/kubernetes/gpu-selection.ts'
import type { Manifest } from './manifest.ts'
import { resourcesBlock } from './pod.ts'
import { podClaims, specGpus } from './pod-gpus.ts'
import type { Serving } from './serving.ts'
import { type TfservingPlaces, tfservingConfig } from './tfserving-deployment.ts'

const configFolder = '/etc/tfs'

export interface PlatformServer {
  /** Fields of the container beside its name and image. */
  readonly fields: Manifest
  readonly volumes: readonly Manifest[]
  /** What the volumes hold. */
  readonly configMap?: Manifest
  readonly gpu: GpuSelection
  readonly notes: readonly string[]
}

/** The volumes of a pod, as far as there are any. */
export const mounted = ({ volumes }: Pick<PlatformServer, 'volumes'>): Manifest => (volumes.length > 0 ? { volumes } : {})

/** TensorFlow Serving with its batching file in a ConfigMap. */
export function tfservingServer(serving: Serving, places: Omit<TfservingPlaces, 'configFolder' | 'modelName'>): PlatformServer {
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  const config = tfservingConfig(serving, { ...places, modelName: serving.name, configFolder })
  const name = `${serving.name}-batching`
  const hasFiles = config.files.length > 0
  return {
    gpu,
    notes: [...gpu.needs.map((need) => `needs: ${need}`), ...config.notes],
    fields: {
      args: config.args,
      ...(hasFiles ? { volumeMounts: [{ name: 'batching', mountPath: configFolder, readOnly: true }] } : {}),
      resources: resourcesBlock(serving, gpu),
    },
    volumes: hasFiles ? [{ name: 'batching', configMap: { name } }] : [],
    ...(hasFiles
      ? {
          configMap: {
            apiVersion: 'v1',
            kind: 'ConfigMap',
            metadata: { name },
            data: Object.fromEntries(config.files.map((file) => [posix.basename(file.path), file.contents])),
          },
        }
      : {}),
  }
}

/** A server whose tuned values are not in its container: Triton reads them from config.pbtxt in the model repository. */
export function plainServer(serving: Serving): PlatformServer {
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  return {
    gpu,
    notes: gpu.needs.map((need) => `needs: ${need}`),
    fields: { resources: resourcesBlock(serving, gpu) },
    volumes: [],
  }
}

/** Node selection in the form of a pod spec's fields; nothing where nothing is needed. */
export function nodePlacement(serving: Serving, gpu: GpuSelection): Manifest {
  return {
    ...(gpu.schedulerName ? { schedulerName: gpu.schedulerName } : {}),
    ...(gpu.requirements.length > 0
      ? {
          affinity: {
            nodeAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: gpu.requirements }] },
            },
          },
        }
      : {}),
    ...podClaims(serving, gpu),
    ...(serving.resources.gpu ? { tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }] } : {}),
  }
}
