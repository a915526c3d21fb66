/** KServe InferenceService v1beta1: Standard (plain deployments), Knative, and Standard scaled by KEDA. */

import { defaultPrometheus, rateQuery, threshold } from './keda.ts'
import { type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { nodePlacement, type PlatformServer, plainServer, tfservingServer } from './platform-pod.ts'
import { environment, fileMounts, probes } from './pod.ts'
import { claimTemplates, refuseClaim } from './pod-gpus.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './serving.ts'
import { tritonSpec } from './triton-config.ts'

export const kserveVariants = ['standard', 'knative', 'keda'] as const
export type KserveVariant = (typeof kserveVariants)[number]

export interface KserveOptions {
  readonly variant: KserveVariant
  readonly prometheus?: string
  /** Triton's backend of the model. */
  readonly backend?: string
}

/** `inferenceservice.yaml`, and for Triton the config.pbtxt that belongs into the model repository. */
export function kserveSpec(serving: Serving, options: KserveOptions): SpecFile[] {
  const { objects, notes } = kserveObjects(serving, options)
  const triton = serving.server === 'triton' ? tritonSpec(serving, options.backend) : []
  return [{ name: 'inferenceservice.yaml', text: manifestsYaml(serving, objects, notes) }, ...triton]
}

export function kserveObjects(serving: Serving, options: KserveOptions): { objects: Manifest[]; notes: string[] } {
  const scaling = scalingOf(serving, options)
  const { predictor, server } = serving.server === 'custom' ? customPredictor(serving, options.variant) : modelPredictor(serving)
  if (options.variant === 'knative') refuseClaim(server.gpu, 'Knative takes')
  const service: Manifest = {
    apiVersion: 'serving.kserve.io/v1beta1',
    kind: 'InferenceService',
    metadata: {
      name: serving.name,
      annotations: { 'serving.kserve.io/deploymentMode': options.variant === 'knative' ? 'Knative' : 'Standard', ...scaling.annotations },
    },
    spec: {
      predictor: {
        minReplicas: serving.minReplicas,
        maxReplicas: scaling.fixed ? serving.minReplicas : serving.maxReplicas,
        ...scaling.fields,
        ...nodePlacement(serving, server.gpu),
        ...(Object.keys(server.gpu.annotations).length > 0 ? { annotations: server.gpu.annotations } : {}),
        ...predictor,
      },
    },
  }
  const place = serving.server === 'triton' ? [`config.pbtxt belongs into the model repository, in the folder ${serving.model}`] : []
  return {
    objects: [...(server.configMap ? [server.configMap] : []), ...claimTemplates(serving, server.gpu), service],
    notes: [...server.notes, ...scaling.notes, ...place],
  }
}

function modelPredictor(serving: Serving): { predictor: Manifest; server: PlatformServer } {
  if (!serving.modelUri)
    throw new SpecError('KServe fetches the model itself, and its place is not known', 'give --model-uri, e.g. s3://bucket/model')
  const tensorflow = serving.server === 'tfserving'
  const server = tensorflow ? tfservingServer(serving, { grpcPort: 9000, restPort: 8080, basePath: '/mnt/models' }) : plainServer(serving)
  return {
    server,
    predictor: {
      ...(server.volumes.length > 0 ? { volumes: server.volumes } : {}),
      model: {
        modelFormat: { name: tensorflow ? 'tensorflow' : 'triton' },
        runtime: tensorflow ? 'kserve-tensorflow-serving' : 'kserve-tritonserver',
        ...(tensorflow ? {} : { protocolVersion: 'v2' }),
        storageUri: serving.modelUri,
        ...server.fields,
      },
    },
  }
}

function customPredictor(serving: Serving, variant: KserveVariant): { predictor: Manifest; server: PlatformServer } {
  const { container } = serving
  const files = fileMounts(serving)
  const server = { ...plainServer(serving), configMap: files.configMap }
  const { startupProbe, readinessProbe, livenessProbe } = probes(serving, container.port)
  return {
    server,
    predictor: {
      ...(files.volumes.length > 0 ? { volumes: files.volumes } : {}),
      containers: [
        {
          // KServe knows its own container by this name.
          name: 'kserve-container',
          image: container.image,
          command: container.command,
          args: container.args,
          ...(container.env ? { env: environment(container.env) } : {}),
          ports: [{ containerPort: container.port, protocol: 'TCP' }],
          // Knative has no startup probe on older releases, and waits for readiness itself.
          ...(variant === 'knative' ? {} : { startupProbe }),
          readinessProbe,
          livenessProbe,
          ...(files.volumeMounts.length > 0 ? { volumeMounts: files.volumeMounts } : {}),
          ...server.fields,
        },
      ],
    },
  }
}

interface Scaling {
  readonly annotations: Readonly<Record<string, string>>
  readonly fields: Manifest
  readonly notes: readonly string[]
  readonly fixed?: boolean
}

function scalingOf(serving: Serving, { variant, prometheus = defaultPrometheus }: KserveOptions): Scaling {
  if (variant === 'knative') {
    return {
      annotations: {},
      fields: { scaleMetric: 'rps', scaleTarget: Math.max(1, Math.floor(serving.perReplicaRps)) },
      notes: serving.resources.gpu
        ? [
            'Knative must allow affinity and tolerations: features kubernetes.podspec-affinity and kubernetes.podspec-tolerations in config-features',
          ]
        : [],
    }
  }
  if (variant === 'keda') {
    const query = rateQuery(serving, `${serving.name}-predictor`)
    const target = { type: 'AverageValue', averageValue: threshold(serving) }
    return {
      annotations: { 'serving.kserve.io/autoscalerClass': 'keda' },
      fields: {
        autoScaling: {
          metrics: [{ type: 'External', external: { metric: { backend: 'prometheus', serverAddress: prometheus, query }, target } }],
        },
      },
      notes: [`needs KEDA, and a Prometheus at ${prometheus} that scrapes the predictor's pods`],
    }
  }
  const busy = serving.evidence.cpuCoresBusy
  if (busy === undefined) {
    return {
      annotations: { 'serving.kserve.io/autoscalerClass': 'none' },
      fields: {},
      fixed: true,
      notes: ['the number of replicas is fixed: Standard mode scales on CPU alone, and CPU usage was not measured (see --variant keda)'],
    }
  }
  const target = Math.min(100, Math.max(1, Math.round((100 * busy * (1 - serving.headroom)) / serving.resources.cpuCores)))
  return {
    annotations: { 'serving.kserve.io/autoscalerClass': 'hpa' },
    fields: { scaleMetric: 'cpu', scaleTarget: target },
    notes: [
      `the CPU target of ${target} % is the measured usage at the capacity, times 1 - headroom; a request rate is the better signal (--variant keda)`,
    ],
  }
}
