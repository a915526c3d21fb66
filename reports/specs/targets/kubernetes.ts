/**
 * Plain Kubernetes: Deployment and Service, and where it scales, HorizontalPodAutoscaler v2 and
 * PodDisruptionBudget.
 */
import { selectableServers } from '../../figures.ts'
import { buildAutoscaling } from '../autoscaling.ts'
import {
  buildDisruptionBudget,
  buildLabels,
  countMinReplicas,
  type Labels,
} from '../availability.ts'
import { buildContainer } from '../container.ts'
import type { Manifest } from '../manifest.ts'
import { buildPodStorage, resolveStorage } from '../model-storage.ts'
import { buildConfigMaps, buildPodTemplate, describePod, listPorts } from '../pod.ts'
import { buildAnnotations } from '../provenance.ts'
import { buildCronScaler, describeSchedule, fullFleetStrategy } from '../replica-schedule.ts'
import { buildClaimTemplates, selectServingGpus } from '../scheduling.ts'
import type { OwnPod, Serving } from '../serving.ts'
import type { SpecContent, SpecOptions, SpecTarget } from '../target.ts'
import { renderPools } from './kubernetes-pools.ts'

export const target: SpecTarget = {
  title: 'plain Kubernetes',
  files: ['deployment.yaml'],
  writes:
    'Deployment, Service, and from two replicas on a PodDisruptionBudget; with an autoscaler its HorizontalPodAutoscaler or ScaledObject; of a pipeline these of each stage',
  needs: 'with `--autoscaler hpa` a metrics adapter or the metrics server; with `keda` KEDA',
  scaledBy: '`--autoscaler hpa` (default), `keda` or `none`',
  servers: ['builtin', 'command', 'url', ...selectableServers],
  takes: ['autoscaler', 'prometheus', 'backend'],
  takesOwnPod: true,
  takesPools: true,
  isNamespaced: true,
  host: ({ name }) => name,
  pipeline: { stageUrl: ({ name }) => `http://${name}` },
  render: (serving, options) => ({
    name: 'deployment.yaml',
    ...(serving.resources.pools === undefined
      ? renderDeployment(serving, options)
      : renderPools(serving, options.autoscaler !== 'none')),
  }),
}

/** @throws SpecError if the GPU scheme cannot give the share, or the weights cannot be fetched */
export function renderDeployment(
  serving: Serving,
  { autoscaler = 'hpa', prometheus, backend }: SpecOptions,
): Omit<SpecContent, 'name'> & { readonly body: readonly Manifest[] } {
  const { name, pod, replicaPlan } = serving
  const labels = buildLabels(serving)
  const gpu = selectServingGpus(serving)
  const schedule = buildCronScaler(serving)
  const scaling = buildAutoscaling(serving, replicaPlan ? 'none' : autoscaler, {
    deployment: name,
    prometheus,
  })
  const isScaled = scaling.objects.length > 0
  const isScheduled = schedule.length > 0
  const isReplicated = countMinReplicas(serving, isScaled) > 1
  const container = buildContainer(serving, backend)
  const storage = buildPodStorage(pod ? undefined : resolveStorage(serving))
  const parts = { container, storage, isScraped: scaling.isScraped, isReplicated }
  const [, ...otherPorts] = listPorts(serving.container)
  return {
    body: [
      ...(pod ? [] : buildConfigMaps(serving, container)),
      ...buildClaimTemplates(serving, gpu),
      {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name, labels, annotations: buildAnnotations(serving) },
        spec: {
          // An autoscaler owns the number; set here as well, each apply would reset it.
          replicas: isScaled || isScheduled ? undefined : serving.replicas,
          strategy: replicaPlan && fullFleetStrategy,
          selector: { matchLabels: labels },
          progressDeadlineSeconds: serving.requirements.progressSeconds,
          template: pod ? labelPod(pod, labels) : buildPodTemplate(serving, parts, labels),
        },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name, labels },
        spec: {
          selector: labels,
          ports: pod
            ? [{ name: 'http', port: 80, targetPort: serving.container.port }]
            : [
                { name: 'http', port: 80, targetPort: 'http' },
                ...otherPorts.map(({ name, port }) => ({ name, port, targetPort: name })),
              ],
        },
      },
      ...scaling.objects,
      ...schedule,
      ...buildDisruptionBudget(serving, isReplicated, labels),
    ],
    notes: [
      ...describePod(serving, parts, gpu),
      ...scaling.notes,
      ...describeSchedule(serving, isScheduled),
    ],
    namespace: scaling.namespace,
  }
}

/** The user's pod as a template, with the labels that Service and Deployment select it by. */
function labelPod({ metadata, spec }: OwnPod, labels: Labels): Manifest {
  // Name and namespace identify one pod, and have no place in a template.
  const {
    name: _,
    namespace: __,
    labels: ownLabels,
    ...otherMetadata
  } = (metadata ?? {}) as { labels?: Manifest; name?: unknown; namespace?: unknown }
  return { metadata: { ...otherMetadata, labels: { ...ownLabels, ...labels } }, spec }
}
