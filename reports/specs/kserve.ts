/** KServe InferenceService v1beta1: Standard (plain deployments), Knative, and Standard scaled by KEDA. */

import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { annotationsOf, type Manifest, manifestsYaml } from './manifest.ts'
import { platformUri, storageOf } from './model-storage.ts'
import { nodePlacement, type PlatformServer, plainServer, tfservingServer } from './platform-pod.ts'
import { environment, fileMounts, probes } from './pod.ts'
import { claimTemplates, refuseClaim } from './pod-gpus.ts'
import { defaultPrometheus, kedaNote, queriedNamespace, rateQuery, threshold, unscaledNote } from './scaling.ts'
import { secretNotes } from './secret-variables.ts'
import { wholeContainer } from './server-pod.ts'
import type { Serving } from './serving.ts'
import type { KserveVariant, SpecOptions, SpecTarget } from './target.ts'
import { configFile } from './triton-config.ts'

const byRuntime = ({ deployed }: Serving): boolean => deployed.server === 'tfserving' || deployed.server === 'triton'

export const target: SpecTarget = {
  title: 'KServe',
  servers: ['builtin', 'command', 'url', 'tfserving', 'triton', 'vllm'],
  namespaced: true,
  takes: ['variant', 'prometheus', 'backend'],
  needsModelUri: byRuntime,
  render: (serving, { variant = 'standard', prometheus, backend }) => {
    const { objects, notes, namespace } = kserveObjects(serving, { variant, prometheus })
    return [{ name: 'inferenceservice.yaml', text: manifestsYaml(serving, objects, notes, namespace) }, ...configFile(serving, backend)]
  },
}

type KserveOptions = Pick<SpecOptions, 'prometheus'> & { readonly variant: KserveVariant }

function kserveObjects(serving: Serving, options: KserveOptions): { objects: Manifest[]; notes: string[]; namespace: string | undefined } {
  const scaling = scalingOf(serving, options)
  const { predictor, server } = byRuntime(serving) ? modelPredictor(serving) : customPredictor(serving, options.variant)
  if (options.variant === 'knative') refuseClaim(server.gpu, 'Knative takes')
  const service: Manifest = {
    apiVersion: 'serving.kserve.io/v1beta1',
    kind: 'InferenceService',
    metadata: {
      name: serving.name,
      annotations: {
        'serving.kserve.io/deploymentMode': options.variant === 'knative' ? 'Knative' : 'Standard',
        ...scaling.annotations,
        ...annotationsOf(serving),
      },
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
  const place =
    serving.deployed.server === 'triton' ? [`config.pbtxt belongs into the model repository, in the folder ${serving.model}`] : []
  return {
    objects: [...(server.configMap ? [server.configMap] : []), ...claimTemplates(serving, server.gpu), service],
    notes: [...server.notes, ...scaling.notes, ...place],
    namespace: scaling.namespace ?? serving.namespace,
  }
}

function modelPredictor(serving: Serving): { predictor: Manifest; server: PlatformServer } {
  const tensorflow = serving.deployed.server === 'tfserving'
  const server = tensorflow ? tfservingServer(serving, { grpcPort: 9000, restPort: 8080, basePath: '/mnt/models' }) : plainServer(serving)
  return {
    server,
    predictor: {
      ...(server.volumes.length > 0 ? { volumes: server.volumes } : {}),
      model: {
        modelFormat: { name: tensorflow ? 'tensorflow' : 'triton' },
        runtime: tensorflow ? 'kserve-tensorflow-serving' : 'kserve-tritonserver',
        ...(tensorflow ? {} : { protocolVersion: 'v2' }),
        storageUri: platformUri(serving.modelUri!, 'KServe'),
        // Else that of the runtime.
        ...(serving.container.imageNamed ? { image: serving.container.image } : {}),
        ...server.fields,
      },
    },
  }
}

function customPredictor(serving: Serving, variant: KserveVariant): { predictor: Manifest; server: PlatformServer } {
  const container = wholeContainer(serving)
  const files = fileMounts(serving, container.files)
  const plain = plainServer(serving)
  const asksGrpc = container.grpcPort !== undefined && protocolTable[serving.evidence.measured.protocol].transport === 'grpc'
  const server = {
    ...plain,
    notes: [...secretNotes(container.secretEnv, serving.name), ...plain.notes, ...container.notes],
    configMap: files.configMap,
  }
  const { startupProbe, readinessProbe, livenessProbe } = probes(serving, container, container.port)
  // KServe fetches what this variable names to /mnt/models.
  const fetches = storageOf(serving) !== undefined
  const env = { ...container.env, ...(fetches && { STORAGE_URI: platformUri(serving.modelUri!, 'KServe') }) }
  const shared = container.sharedMemory ? [{ name: 'shared-memory', emptyDir: { medium: 'Memory' } }] : []
  const volumes = [...files.volumes, ...shared]
  const volumeMounts = [...files.volumeMounts, ...shared.map(({ name }) => ({ name, mountPath: '/dev/shm' }))]
  return {
    server,
    predictor: {
      ...(volumes.length > 0 ? { volumes } : {}),
      containers: [
        {
          // KServe knows its own container by this name.
          name: 'kserve-container',
          image: container.image,
          command: container.command,
          args: container.args,
          ...environment({ env, secretEnv: container.secretEnv }, serving.name),
          // KServe calls one port: of a server asked over gRPC that one, by the name it is known by.
          ports: [
            asksGrpc
              ? { name: 'h2c', containerPort: container.grpcPort, protocol: 'TCP' }
              : { containerPort: container.port, protocol: 'TCP' },
          ],
          // Knative has no startup probe on older releases, and waits for readiness itself.
          ...(variant === 'knative' ? {} : { startupProbe }),
          readinessProbe,
          livenessProbe,
          ...(volumeMounts.length > 0 ? { volumeMounts } : {}),
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
  /** That its query names. */
  readonly namespace?: string
}

function scalingOf(serving: Serving, { variant, prometheus = defaultPrometheus }: KserveOptions): Scaling {
  if (!serving.scalable) {
    const annotations: Readonly<Record<string, string>> = variant === 'knative' ? {} : { 'serving.kserve.io/autoscalerClass': 'none' }
    return { annotations, fields: {}, fixed: true, notes: [unscaledNote, ...(variant === 'knative' ? knativeNotes(serving) : [])] }
  }
  if (variant === 'knative') {
    return {
      annotations: {},
      fields: { scaleMetric: 'rps', scaleTarget: Math.max(1, Math.floor(serving.perReplicaRps)) },
      notes: knativeNotes(serving),
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
      namespace: queriedNamespace(serving),
      notes: [kedaNote(serving, prometheus)],
    }
  }
  const busy = serving.evidence.cpuCoresBusy
  const { cpuCores } = serving.held
  if (busy === undefined || cpuCores === undefined) {
    return {
      annotations: { 'serving.kserve.io/autoscalerClass': 'none' },
      fields: {},
      fixed: true,
      notes: ['the number of replicas is fixed: Standard mode scales on CPU alone, and CPU usage was not measured (see --variant keda)'],
    }
  }
  const target = Math.min(100, Math.max(1, Math.round((100 * busy * (1 - serving.headroom)) / cpuCores)))
  return {
    annotations: { 'serving.kserve.io/autoscalerClass': 'hpa' },
    fields: { scaleMetric: 'cpu', scaleTarget: target },
    notes: [
      `the CPU target of ${target} % is the measured usage at the capacity, times 1 - headroom; a request rate is the better signal (--variant keda)`,
    ],
  }
}

const knativeNotes = ({ resources }: Serving): string[] =>
  resources.gpu
    ? [
        'Knative must allow affinity and tolerations: features kubernetes.podspec-affinity and kubernetes.podspec-tolerations in config-features',
      ]
    : []
