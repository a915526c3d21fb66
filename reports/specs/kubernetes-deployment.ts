/** Plain Kubernetes: Deployment and Service, and where it scales, HorizontalPodAutoscaler v2 and PodDisruptionBudget. */

import { keda } from './keda.ts'
import { annotationsOf, type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { podStorage, storageOf } from './model-storage.ts'
import { environment, fileMounts, placement, probes, resourcesBlock } from './pod.ts'
import { claimTemplates, gpuSelection } from './pod-gpus.ts'
import { adapterNote, autoscaler, unscaledNote } from './scaling.ts'
import { type WholeContainer, wholeContainer } from './server-pod.ts'
import type { OwnPod, Serving } from './serving.ts'
import type { Autoscaler, SpecOptions, SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'plain Kubernetes',
  servers: ['builtin', 'command', 'url', 'tfserving', 'triton', 'vllm'],
  takes: ['autoscaler', 'prometheus', 'backend'],
  takesOwnPod: true,
  render: kubernetesSpec,
}

/** `deployment.yaml`. Throws SpecError when the GPU scheme cannot give the share, or the weights cannot be fetched. */
function kubernetesSpec(serving: Serving, { autoscaler: asked = 'hpa', prometheus, backend }: SpecOptions): SpecFile[] {
  const gpu = gpuSelection(serving.resources, serving.gpuScheme, serving.dra)
  // Its targets are figures of what scales, or they are not there.
  const scaler: Autoscaler = serving.figures.hold ? asked : 'none'
  const container = wholeContainer(serving, backend)
  const storage = podStorage(serving.pod ? undefined : storageOf(serving))
  const files = fileMounts(serving, serving.pod ? [] : container.files)
  const parts = { container, storage, files }
  const objects: Manifest[] = [
    ...(files.configMap ? [files.configMap] : []),
    ...claimTemplates(serving, gpu),
    deployment(serving, parts, scaler !== 'none'),
    service(serving),
    ...(scaler === 'hpa' ? [autoscaler(serving, { apiVersion: 'apps/v1', kind: 'Deployment', name: serving.name })] : []),
    ...(scaler === 'keda' ? [keda(serving, serving.name, prometheus)] : []),
    ...(scaler === 'none' ? [] : [disruptionBudget(serving)]),
  ]
  const notes = [
    ...gpu.needs.map((need) => `needs: ${need}`),
    ...(serving.pod ? [] : [...container.notes, ...storage.notes]),
    ...(scaler === 'hpa' ? [adapterNote(serving)] : []),
    ...(scaler === asked ? [] : [unscaledNote]),
  ]
  return [{ name: 'deployment.yaml', text: manifestsYaml(serving, objects, notes) }]
}

interface PodParts {
  readonly container: WholeContainer
  readonly storage: ReturnType<typeof podStorage>
  readonly files: ReturnType<typeof fileMounts>
}

const labelsOf = (serving: Serving) => ({ 'app.kubernetes.io/name': serving.name })

function deployment(serving: Serving, parts: PodParts, autoscale: boolean): Manifest {
  const labels = labelsOf(serving)
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: serving.name, labels, annotations: annotationsOf(serving) },
    spec: {
      // The autoscaler owns the number; set here as well, each apply would set it back.
      ...(autoscale ? {} : { replicas: serving.replicas }),
      selector: { matchLabels: labels },
      template: serving.pod ? ownTemplate(serving.pod, labels) : podTemplate(serving, parts, labels),
    },
  }
}

/** The user's pod, with the label that Service and Deployment know it by. */
function ownTemplate({ metadata, spec }: OwnPod, labels: Readonly<Record<string, string>>): Manifest {
  // What names one pod has no place in a template.
  const { name: _, namespace: __, labels: own, ...rest } = (metadata ?? {}) as { labels?: Manifest; name?: unknown; namespace?: unknown }
  return { metadata: { ...rest, labels: { ...own, ...labels } }, spec }
}

function podTemplate(serving: Serving, { container, storage, files }: PodParts, labels: Readonly<Record<string, string>>): Manifest {
  const gpu = gpuSelection(serving.resources, serving.gpuScheme, serving.dra)
  const shared = container.sharedMemory ? [{ name: 'shared-memory', emptyDir: { medium: 'Memory' } }] : []
  const volumes = [...storage.volumes, ...files.volumes, ...shared]
  const volumeMounts = [...storage.volumeMounts, ...files.volumeMounts, ...shared.map(({ name }) => ({ name, mountPath: '/dev/shm' }))]
  return {
    metadata: { labels, ...(Object.keys(gpu.annotations).length > 0 ? { annotations: gpu.annotations } : {}) },
    spec: {
      ...placement(serving, gpu, labels),
      ...(storage.initContainers.length > 0 ? { initContainers: storage.initContainers } : {}),
      containers: [
        {
          name: 'predictor',
          image: container.image,
          command: container.command,
          args: container.args,
          ...(container.env ? { env: environment(container.env) } : {}),
          ports: [{ name: 'http', containerPort: container.port }],
          ...probes(serving, container, 'http'),
          resources: resourcesBlock(serving, gpu),
          ...(volumeMounts.length > 0 ? { volumeMounts } : {}),
        },
      ],
      ...(volumes.length > 0 ? { volumes } : {}),
    },
  }
}

function service(serving: Serving): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: serving.name, labels: labelsOf(serving) },
    spec: { selector: labelsOf(serving), ports: [{ name: 'http', port: 80, targetPort: serving.pod ? serving.container.port : 'http' }] },
  }
}

function disruptionBudget(serving: Serving): Manifest {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name: serving.name, labels: labelsOf(serving) },
    spec: { maxUnavailable: 1, selector: { matchLabels: labelsOf(serving) } },
  }
}
