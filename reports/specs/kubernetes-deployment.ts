/** Plain Kubernetes: Deployment and Service, and where it scales, HorizontalPodAutoscaler v2 and PodDisruptionBudget. */

import { builtinContainer } from '../../trials/launchers/kubernetes/manifests.ts'
import { chosenServers } from '../figures.ts'
import { disruptionBudget, labelsOf, lastingOverZones, leastReplicas, lifecycle, scrapeAnnotations } from './available.ts'
import { laidOver, overlayNotes } from './laid-over.ts'
import { annotationsOf, type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { podStorage, storageOf } from './model-storage.ts'
import { cronScaled, placedNotes, placedStrategy } from './placed.ts'
import { environment, fileMounts, placement, probes, resourcesBlock, scratch } from './pod.ts'
import { claimTemplates, specGpus } from './pod-gpus.ts'
import { adapterNote, autoscaler, keda, kedaNote, queriedNamespace, unscaledNote } from './scaling.ts'
import { secretNotes } from './secret-variables.ts'
import { wholeContainer } from './server-pod.ts'
import type { Container, OwnPod, Serving, WholeContainer } from './serving.ts'
import { type Autoscaler, fetchesArchive, type SpecOptions, type SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'plain Kubernetes',
  servers: ['builtin', 'command', 'url', ...chosenServers],
  needsModelUri: fetchesArchive,
  takes: ['autoscaler', 'prometheus', 'backend'],
  takesOwnPod: true,
  namespaced: true,
  host: ({ name }) => name,
  render: kubernetesSpec,
}

/** `deployment.yaml`. Throws SpecError when the GPU scheme cannot give the share, or the weights cannot be fetched. */
function kubernetesSpec(serving: Serving, { autoscaler: asked = 'hpa', prometheus, backend }: SpecOptions): SpecFile[] {
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  const scheduled = cronScaled(serving)
  // Its targets are figures of what scales, or they are not there.
  const scaler: Autoscaler = serving.scalable && serving.placed === undefined ? asked : 'none'
  const container = wholeContainer(serving, backend)
  const storage = podStorage(serving.pod ? undefined : storageOf(serving))
  const files = fileMounts(serving, serving.pod ? [] : container.files)
  const several = leastReplicas(serving, scaler !== 'none') > 1
  const parts = { container, storage, files, scaled: scaler !== 'none', scheduled: scheduled.length > 0, several }
  const objects: Manifest[] = [
    ...(files.configMap ? [files.configMap] : []),
    ...claimTemplates(serving, gpu),
    deployment(serving, parts),
    service(serving),
    ...(scaler === 'hpa' ? [autoscaler(serving, { apiVersion: 'apps/v1', kind: 'Deployment', name: serving.name })] : []),
    ...(scaler === 'keda' ? [keda(serving, serving.name, prometheus)] : []),
    ...scheduled,
    ...disruptionBudget(serving, several, labelsOf(serving)),
  ]
  const notes = [
    ...secretNotes(container, serving.name),
    ...gpu.needs.map((need) => `needs: ${need}`),
    ...(serving.pod ? [] : [...container.notes, ...storage.notes, ...overlayNotes(serving)]),
    ...(scaler === 'hpa' ? [adapterNote(serving)] : scaler === 'keda' ? [kedaNote(serving, prometheus)] : []),
    ...(scaler === asked || serving.placed ? [] : [unscaledNote]),
    ...placedNotes(serving, scheduled.length > 0),
  ]
  const namespace = scaler === 'keda' ? queriedNamespace(serving) : serving.namespace
  return [
    {
      name: 'deployment.yaml',
      text: manifestsYaml(serving, objects, notes, namespace),
    },
  ]
}

interface PodParts {
  readonly container: WholeContainer
  readonly storage: ReturnType<typeof podStorage>
  readonly files: ReturnType<typeof fileMounts>
  /** An autoscaler sets the number of replicas. */
  readonly scaled: boolean
  /** Hours set it. */
  readonly scheduled: boolean
  /** There are several at any time. */
  readonly several: boolean
  /** Requests and probes come to it: default true. */
  readonly asked?: boolean
}

function deployment(serving: Serving, parts: PodParts): Manifest {
  const labels = labelsOf(serving)
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: serving.name, labels, annotations: annotationsOf(serving) },
    spec: {
      // The autoscaler owns the number; set here as well, each apply would set it back.
      ...(parts.scaled || parts.scheduled ? {} : { replicas: serving.replicas }),
      ...(serving.placed ? { strategy: placedStrategy } : {}),
      selector: { matchLabels: labels },
      progressDeadlineSeconds: serving.held.progressSeconds,
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

/** A pod of the container that was tuned, with its weights, its GPUs and what the user lays over it. */
export function podTemplate(serving: Serving, parts: PodParts, labels: Readonly<Record<string, string>>): Manifest {
  const { container, storage, files, asked = true } = parts
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  const empty = scratch(serving, container)
  const annotations = { ...gpu.annotations, ...storage.annotations, ...(parts.scaled ? scrapeAnnotations(container) : {}) }
  const volumes = [...storage.volumes, ...files.volumes, ...empty.volumes]
  const volumeMounts = [...storage.volumeMounts, ...files.volumeMounts, ...empty.volumeMounts]
  const template = {
    metadata: { labels, ...(Object.keys(annotations).length > 0 ? { annotations } : {}) },
    spec: {
      ...lastingOverZones(serving, labels, parts.several),
      ...placement(serving, gpu, labels),
      ...(storage.initContainers.length > 0 ? { initContainers: storage.initContainers } : {}),
      containers: [
        {
          name: builtinContainer,
          image: container.image,
          command: container.command,
          args: container.args,
          ...environment(container, serving.name),
          ...(asked && {
            ports: portsOf(container).map(({ name, port }) => ({ name, containerPort: port })),
            ...probes(serving, container, 'http'),
            lifecycle,
          }),
          resources: resourcesBlock(serving, gpu),
          ...(volumeMounts.length > 0 ? { volumeMounts } : {}),
        },
      ],
      ...(volumes.length > 0 ? { volumes } : {}),
    },
  }
  return { ...laidOver(serving, template, builtinContainer) }
}

const portsOf = ({ port, grpcPort }: Pick<Container, 'port' | 'grpcPort'>) => [
  { name: 'http', port },
  ...(grpcPort === undefined ? [] : [{ name: 'grpc', port: grpcPort }]),
]

function service(serving: Serving): Manifest {
  const [, ...others] = portsOf(serving.container)
  const ports = serving.pod
    ? [{ name: 'http', port: 80, targetPort: serving.container.port }]
    : [{ name: 'http', port: 80, targetPort: 'http' }, ...others.map(({ name, port }) => ({ name, port, targetPort: name }))]
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: serving.name, labels: labelsOf(serving) },
    spec: { selector: labelsOf(serving), ports },
  }
}
