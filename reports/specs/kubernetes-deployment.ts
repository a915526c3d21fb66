/**
 * Plain Kubernetes: Deployment and Service, and where it scales, HorizontalPodAutoscaler v2 and
 * PodDisruptionBudget.
 */

import { chosenServers } from '../figures.ts'
import { disruptionBudget, labelsOf, leastReplicas } from './available.ts'
import { annotationsOf, type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { podStorage, storageOf } from './model-storage.ts'
import { cronScaled, placedNotes, placedStrategy } from './placed.ts'
import { fileMounts } from './pod.ts'
import { claimTemplates, specGpus } from './pod-gpus.ts'
import { type PodParts, podNotes, podTemplate, portsOf } from './pod-template.ts'
import { prefillDecodeSpec } from './prefill-decode.ts'
import { autoscalingFor } from './scaling.ts'
import { wholeContainer } from './server-pod.ts'
import type { OwnPod, Serving } from './serving.ts'
import type { SpecOptions, SpecTarget } from './target.ts'

export const target: SpecTarget = {
  title: 'plain Kubernetes',
  files: ['deployment.yaml'],
  writes:
    'Deployment, Service, and from two replicas on a PodDisruptionBudget; with an autoscaler its HorizontalPodAutoscaler or ScaledObject',
  needs: 'with `--autoscaler hpa` a metrics adapter or the metrics server; with `keda` KEDA',
  scaledBy: '`--autoscaler hpa` (default), `keda` or `none`',
  servers: ['builtin', 'command', 'url', ...chosenServers],
  takes: ['autoscaler', 'prometheus', 'backend'],
  takesOwnPod: true,
  takesPools: true,
  namespaced: true,
  host: ({ name }) => name,
  render: kubernetesSpec,
}

/**
 * `deployment.yaml`. Throws SpecError when the GPU scheme cannot give the share, or the weights
 * cannot be fetched.
 */
function kubernetesSpec(serving: Serving, options: SpecOptions): SpecFile[] {
  if (serving.resources.pools !== undefined)
    return prefillDecodeSpec(serving, options.autoscaler !== 'none')
  const { objects, notes, namespace } = kubernetesObjects(serving, options)
  return [{ name: 'deployment.yaml', text: manifestsYaml(serving, objects, notes, namespace) }]
}

/** The objects, what must be known before they are applied, and the namespace that they name. */
export function kubernetesObjects(
  serving: Serving,
  { autoscaler = 'hpa', prometheus, backend }: SpecOptions,
): {
  readonly objects: readonly Manifest[]
  readonly notes: readonly string[]
  readonly namespace: string | undefined
} {
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  const scheduled = cronScaled(serving)
  const scaling = autoscalingFor(serving, serving.placed ? 'none' : autoscaler, {
    deployment: serving.name,
    prometheus,
  })
  const isScaled = scaling.objects.length > 0
  const container = wholeContainer(serving, backend)
  const storage = podStorage(serving.pod ? undefined : storageOf(serving))
  const files = fileMounts(serving, serving.pod ? [] : container.files)
  const several = leastReplicas(serving, isScaled) > 1
  const parts = { container, storage, files, isScraped: scaling.isScraped, several }
  const objects: Manifest[] = [
    ...(files.configMap ? [files.configMap] : []),
    ...claimTemplates(serving, gpu),
    deployment(serving, parts, isScaled || scheduled.length > 0),
    service(serving),
    ...scaling.objects,
    ...scheduled,
    ...disruptionBudget(serving, several, labelsOf(serving)),
  ]
  const notes = [
    ...podNotes(serving, parts, gpu),
    ...scaling.notes,
    ...placedNotes(serving, scheduled.length > 0),
  ]
  return { objects, notes, namespace: scaling.namespace ?? serving.namespace }
}

/** @param isScaled an autoscaler sets the number of replicas */
function deployment(serving: Serving, parts: PodParts, isScaled: boolean): Manifest {
  const labels = labelsOf(serving)
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: serving.name, labels, annotations: annotationsOf(serving) },
    spec: {
      // The autoscaler owns the number; set here as well, each apply would set it back.
      ...(isScaled ? {} : { replicas: serving.replicas }),
      ...(serving.placed ? { strategy: placedStrategy } : {}),
      selector: { matchLabels: labels },
      progressDeadlineSeconds: serving.held.progressSeconds,
      template: serving.pod
        ? ownTemplate(serving.pod, labels)
        : podTemplate(serving, parts, labels),
    },
  }
}

/** The user's pod, with the label that Service and Deployment know it by. */
function ownTemplate(
  { metadata, spec }: OwnPod,
  labels: Readonly<Record<string, string>>,
): Manifest {
  // What names one pod has no place in a template.
  const {
    name: _,
    namespace: __,
    labels: own,
    ...rest
  } = (metadata ?? {}) as { labels?: Manifest; name?: unknown; namespace?: unknown }
  return {
    metadata: { ...rest, labels: { ...own, ...labels } },
    spec: spec as Manifest,
  }
}

function service(serving: Serving): Manifest {
  const [, ...others] = portsOf(serving.container)
  const ports = serving.pod
    ? [{ name: 'http', port: 80, targetPort: serving.container.port }]
    : [
        { name: 'http', port: 80, targetPort: 'http' },
        ...others.map(({ name, port }) => ({ name, port, targetPort: name })),
      ]
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: serving.name, labels: labelsOf(serving) },
    spec: { selector: labelsOf(serving), ports },
  }
}
