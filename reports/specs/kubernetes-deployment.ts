/** Plain Kubernetes: Deployment and Service, and where it scales, HorizontalPodAutoscaler v2 and PodDisruptionBudget. */

import { keda, requestsMetric } from './keda.ts'
import { type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { environment, fileMounts, placement, probes, resourcesBlock } from './pod.ts'
import { claimTemplates, gpuSelection } from './pod-gpus.ts'
import type { OwnPod, Serving } from './serving.ts'

/** Name of the per-pod metric that the autoscaler reads: requests per second, from Prometheus through an adapter. */
export const rateMetric = 'inference_requests_per_second'

export interface KubernetesOptions {
  /** 'none': a fixed number of replicas, Deployment and Service alone. Else a PodDisruptionBudget and the autoscaler as well. */
  readonly autoscaler: 'none' | 'hpa' | 'keda'
  /** For 'keda'. */
  readonly prometheus?: string
}

/** `deployment.yaml`. Throws SpecError when the GPU scheme cannot give the share. */
export function kubernetesSpec(serving: Serving, options: KubernetesOptions): SpecFile[] {
  const gpu = gpuSelection(serving.resources, serving.gpuScheme, serving.dra)
  const notes = [...gpu.needs.map((need) => `needs: ${need}`), ...(options.autoscaler === 'hpa' ? [adapterNote(serving)] : [])]
  return [{ name: 'deployment.yaml', text: manifestsYaml(serving, kubernetesObjects(serving, options), notes) }]
}

/** The objects, in the order to apply them. */
export function kubernetesObjects(serving: Serving, options: KubernetesOptions): Manifest[] {
  const files = fileMounts(serving)
  return [
    ...(files.configMap && !serving.pod ? [files.configMap] : []),
    ...claimTemplates(serving, gpuSelection(serving.resources, serving.gpuScheme, serving.dra)),
    deployment(serving, options.autoscaler !== 'none'),
    service(serving),
    ...(options.autoscaler === 'hpa' ? [autoscaler(serving, { apiVersion: 'apps/v1', kind: 'Deployment', name: serving.name })] : []),
    ...(options.autoscaler === 'keda' ? [keda(serving, serving.name, options.prometheus)] : []),
    ...(options.autoscaler === 'none' ? [] : [disruptionBudget(serving)]),
  ]
}

const labelsOf = (serving: Serving) => ({ 'app.kubernetes.io/name': serving.name })

function deployment(serving: Serving, autoscale: boolean): Manifest {
  const labels = labelsOf(serving)
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: serving.name, labels },
    spec: {
      // The autoscaler owns the number; set here as well, each apply would set it back.
      ...(autoscale ? {} : { replicas: serving.replicas }),
      selector: { matchLabels: labels },
      template: serving.pod ? ownTemplate(serving.pod, labels) : podTemplate(serving, labels),
    },
  }
}

/** The user's pod, with the label that Service and Deployment know it by. */
function ownTemplate({ metadata, spec }: OwnPod, labels: Readonly<Record<string, string>>): Manifest {
  // What names one pod has no place in a template.
  const { name: _, namespace: __, labels: own, ...rest } = (metadata ?? {}) as { labels?: Manifest; name?: unknown; namespace?: unknown }
  return { metadata: { ...rest, labels: { ...own, ...labels } }, spec }
}

function podTemplate(serving: Serving, labels: Readonly<Record<string, string>>): Manifest {
  const { container } = serving
  const gpu = gpuSelection(serving.resources, serving.gpuScheme, serving.dra)
  const files = fileMounts(serving)
  return {
    metadata: { labels, ...(Object.keys(gpu.annotations).length > 0 ? { annotations: gpu.annotations } : {}) },
    spec: {
      ...placement(serving, gpu, labels),
      containers: [
        {
          name: 'predictor',
          image: container.image,
          command: container.command,
          args: container.args,
          ...(container.env ? { env: environment(container.env) } : {}),
          ports: [{ name: 'http', containerPort: container.port }],
          ...probes(serving, 'http'),
          resources: resourcesBlock(serving, gpu),
          ...(files.volumeMounts.length > 0 ? { volumeMounts: files.volumeMounts } : {}),
        },
      ],
      ...(files.volumes.length > 0 ? { volumes: files.volumes } : {}),
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

/** Scales on requests per second and pod, at capacity × (1 − headroom). */
export function autoscaler(serving: Serving, scaleTargetRef: Manifest): Manifest {
  return {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: serving.name, labels: labelsOf(serving) },
    spec: {
      scaleTargetRef,
      minReplicas: serving.minReplicas,
      maxReplicas: serving.maxReplicas,
      metrics: [
        {
          type: 'Pods',
          pods: { metric: { name: rateMetric }, target: { type: 'AverageValue', averageValue: rateQuantity(serving.perReplicaRps) } },
        },
      ],
    },
  }
}

/** 24.5 req/s → '24500m': a quantity has no decimals beyond milli. Rounded down, to scale rather early. */
const rateQuantity = (rps: number): string => (rps >= 100 || Number.isInteger(rps) ? String(Math.floor(rps)) : `${Math.floor(rps * 1000)}m`)

function disruptionBudget(serving: Serving): Manifest {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name: serving.name, labels: labelsOf(serving) },
    spec: { maxUnavailable: 1, selector: { matchLabels: labelsOf(serving) } },
  }
}

const adapterNote = (serving: Serving) =>
  `needs a metrics adapter that serves ${rateMetric} per pod, e.g. prometheus-adapter with metricsQuery sum(rate(${requestsMetric(serving)}{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)`
