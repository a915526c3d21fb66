/**
 * KServe: InferenceService v1beta1 in Standard mode (plain deployments), Knative, and Standard
 * scaled by KEDA; LLMInferenceService of vLLM.
 */

import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { chosenServers, type DeployedServer } from '../figures.ts'
import {
  disruptionBudget,
  lasting,
  leastReplicas,
  lifecycle,
  scrapeAnnotations,
} from './available.ts'
import { huggingFaceServer, kserveUri, llmInferenceService } from './kserve-llm.ts'
import { overlayNotes, placedPod } from './laid-over.ts'
import { annotationsOf, type Manifest, manifestsYaml } from './manifest.ts'
import { platformUri, podStorage, storageOf } from './model-storage.ts'
import { placedStrategy, roomNote } from './placed.ts'
import {
  mounted,
  type PlatformServer,
  plainServer,
  tfservingServer,
  tritonServer,
} from './platform-pod.ts'
import { environment, fileMounts, probes, scratch } from './pod.ts'
import { claimTemplates, refuseClaim } from './pod-gpus.ts'
import {
  behaviour,
  cpuMetric,
  cpuNote,
  cpuTarget,
  defaultPrometheus,
  kedaNote,
  queriedNamespace,
  rangeNote,
  rateQuery,
  rateRangeNote,
  threshold,
  unscaledNote,
} from './scaling.ts'
import { secretNotes } from './secret-variables.ts'
import { wholeContainer } from './server-pod.ts'
import type { Serving } from './serving.ts'
import type { KserveVariant, SpecOptions, SpecTarget } from './target.ts'

/**
 * By a runtime that KServe brings: vLLM's is its Hugging Face server, which has vLLM in it, where
 * the user names no image of his own.
 */
const byRuntime = ({ deployed: { server }, container }: Serving): boolean =>
  server === 'tfserving' || server === 'triton' || (server === 'vllm' && !container.imageNamed)

export const target: SpecTarget = {
  title: 'KServe',
  files: ['inferenceservice.yaml', 'llminferenceservice.yaml'],
  writes:
    'InferenceService v1beta1 (`--variant standard`, `knative`, `keda`), or LLMInferenceService v1alpha1 (`--variant llm`, vLLM alone)',
  needs: 'KServe, from 0.16 on for `llm`; with `--variant knative` Knative, with `keda` KEDA',
  scaledBy:
    '`standard`: CPU usage; `knative`: requests per second; `keda`: request rate; `llm`: a fixed number of replicas',
  servers: ['builtin', 'command', 'url', ...chosenServers],
  namespaced: true,
  takes: ['variant', 'prometheus', 'backend'],
  host: ({ name }, { variant }) => (variant === 'llm' ? undefined : `${name}-predictor`),
  needsModelUri: byRuntime,
  render: (serving, { variant = 'standard', prometheus, backend }) => {
    if (variant === 'llm') return [llmInferenceService(serving)]
    const { objects, notes, namespace } = kserveObjects(serving, { variant, prometheus, backend })
    return [
      { name: 'inferenceservice.yaml', text: manifestsYaml(serving, objects, notes, namespace) },
    ]
  },
}

type KserveOptions = Pick<SpecOptions, 'prometheus' | 'backend'> & {
  readonly variant: Exclude<KserveVariant, 'llm'>
}

function kserveObjects(
  serving: Serving,
  options: KserveOptions,
): { objects: Manifest[]; notes: string[]; namespace: string | undefined } {
  const scaling = scalingOf(serving, options)
  const knative = options.variant === 'knative'
  const { predictor, server, container } = byRuntime(serving)
    ? modelPredictor(serving, options)
    : customPredictor(serving, options)
  if (knative) refuseClaim(server.gpu, 'Knative takes')
  const pods = { 'serving.kserve.io/inferenceservice': serving.name, component: 'predictor' }
  const several = leastReplicas(serving, !scaling.fixed) > 1
  const bare = {
    ...(knative ? {} : lasting(serving, pods, several)),
    ...predictor,
    containers: [{ name: kserveContainer, ...(knative ? withoutPodOnly(container) : container) }],
  }
  const annotations = {
    ...server.annotations,
    ...(scaling.scraped ? scrapeAnnotations(server.scraped) : {}),
  }
  const { metadata, spec } = placedPod(serving, server.gpu, bare, kserveContainer, { annotations })
  const { containers, ...pod } = spec as { readonly containers: readonly Manifest[] }
  const service: Manifest = {
    apiVersion: 'serving.kserve.io/v1beta1',
    kind: 'InferenceService',
    metadata: {
      name: serving.name,
      annotations: {
        'serving.kserve.io/deploymentMode': knative ? 'Knative' : 'Standard',
        ...(knative
          ? { 'serving.knative.dev/progress-deadline': `${serving.held.progressSeconds}s` }
          : {}),
        ...scaling.annotations,
        ...annotationsOf(serving),
      },
    },
    spec: {
      predictor: {
        minReplicas: serving.minReplicas,
        maxReplicas: scaling.fixed ? serving.minReplicas : serving.maxReplicas,
        ...scaling.fields,
        ...(serving.placed && !knative ? { deploymentStrategy: placedStrategy } : {}),
        ...metadata,
        ...pod,
        ...withContainer(serving, containers),
      },
    },
  }
  const budget = disruptionBudget(serving, several, pods)
  return {
    objects: [
      ...(server.configMap ? [server.configMap] : []),
      ...claimTemplates(serving, server.gpu),
      ...budget,
      service,
    ],
    notes: [
      ...server.notes,
      ...overlayNotes(serving),
      ...scaling.notes,
      ...(serving.placed ? [roomNote] : []),
    ],
    namespace: scaling.namespace ?? serving.namespace,
  }
}

/**
 * Knative ends containers itself, and has no startup probe on older releases: it waits for
 * readiness.
 */
function withoutPodOnly(container: Manifest): Manifest {
  const { lifecycle: _, startupProbe: __, ...rest } = container
  return rest
}

/** KServe knows its own container by this name. */
const kserveContainer = 'kserve-container'

/**
 * A runtime's container is given as `model`, without its name; sidecars of the user's stand beside
 * it.
 */
function withContainer(serving: Serving, containers: readonly Manifest[]): Manifest {
  if (!byRuntime(serving)) return { containers }
  const own = containers.find(({ name }) => name === kserveContainer)
  const { name: _, ...model } = own ?? {}
  const others = containers.filter((one) => one !== own)
  return { ...(others.length > 0 ? { containers: others } : {}), model }
}

/** What a target writes of the pod beside its container, and the container. */
interface Predictor {
  readonly predictor: Manifest
  readonly container: Manifest
  readonly server: PlatformServer
}

const runtimes: Readonly<Partial<Record<DeployedServer, Manifest>>> = {
  tfserving: { modelFormat: { name: 'tensorflow' }, runtime: 'kserve-tensorflow-serving' },
  triton: {
    modelFormat: { name: 'triton' },
    runtime: 'kserve-tritonserver',
    protocolVersion: 'v2',
  },
  vllm: { modelFormat: { name: 'huggingface' }, runtime: 'kserve-huggingfaceserver' },
}

/** Where the runtimes have them. */
const places = { http: 8080, grpc: 9000, folder: '/mnt/models' } as const

function modelPredictor(serving: Serving, { backend }: KserveOptions): Predictor {
  const { server: kind } = serving.deployed
  const server =
    kind === 'tfserving'
      ? tfservingServer(serving, places)
      : kind === 'vllm'
        ? huggingFaceServer(serving, places.http)
        : tritonServer(serving, places, backend)
  return {
    server,
    predictor: mounted(server),
    container: {
      ...runtimes[kind],
      storageUri: kserveUri(serving),
      // Else that of the runtime.
      ...(serving.container.imageNamed ? { image: serving.container.image } : {}),
      ...server.fields,
    },
  }
}

function customPredictor(serving: Serving, { backend }: KserveOptions): Predictor {
  const container = wholeContainer(serving, backend)
  const files = fileMounts(serving, container.files)
  const kept = storageOf(serving)
  // Which KServe does not know: the pod mounts it.
  const own = podStorage(kept?.kind === 'csi' ? kept : undefined)
  const plain = plainServer(serving)
  const asksGrpc =
    container.grpcPort !== undefined &&
    protocolTable[serving.evidence.measured.protocol].transport === 'grpc'
  const server = {
    ...plain,
    notes: [
      ...secretNotes(container, serving.name),
      ...plain.notes,
      ...own.notes,
      ...container.notes,
    ],
    annotations: own.annotations,
    configMap: files.configMap,
    scraped: container,
  }
  // KServe fetches what this variable names to /mnt/models.
  const fetches = kept !== undefined && kept.kind !== 'csi'
  const env = {
    ...container.env,
    ...(fetches && { STORAGE_URI: platformUri(serving.modelUri!, 'KServe') }),
  }
  const empty = scratch(serving, container)
  const volumes = [...own.volumes, ...files.volumes, ...empty.volumes]
  const volumeMounts = [...own.volumeMounts, ...files.volumeMounts, ...empty.volumeMounts]
  return {
    server,
    predictor: mounted({ volumes }),
    container: {
      image: container.image,
      command: container.command,
      args: container.args,
      ...environment({ ...container, env }, serving.name),
      // KServe calls one port: of a server asked over gRPC that one, by the name it is known by.
      ports: [
        asksGrpc
          ? { name: 'h2c', containerPort: container.grpcPort, protocol: 'TCP' }
          : { containerPort: container.port, protocol: 'TCP' },
      ],
      ...probes(serving, container, container.port),
      lifecycle,
      ...(volumeMounts.length > 0 ? { volumeMounts } : {}),
      ...server.fields,
    },
  }
}

interface Scaling {
  readonly annotations: Readonly<Record<string, string>>
  readonly fields: Manifest
  readonly notes: readonly string[]
  readonly fixed?: boolean
  /** Prometheus is asked for a counter of these pods. */
  readonly scraped?: boolean
  /** That its query names. */
  readonly namespace?: string
}

function scalingOf(serving: Serving, { variant, prometheus }: KserveOptions): Scaling {
  if (serving.placed !== undefined) return fixedScaling(variant, [])
  if (!serving.scalable)
    return fixedScaling(variant, [
      unscaledNote(serving),
      ...(variant === 'knative' ? knativeNotes(serving) : []),
    ])
  if (variant === 'knative') {
    return {
      annotations: {},
      fields: { scaleMetric: 'rps', scaleTarget: Math.max(1, Math.floor(serving.perReplicaRps)) },
      notes: [rateRangeNote(serving), ...knativeNotes(serving)],
    }
  }
  if (variant === 'keda') {
    const serverAddress = prometheus ?? defaultPrometheus
    const query = rateQuery(serving, `${serving.name}-predictor`)
    const target = { type: 'AverageValue', averageValue: threshold(serving) }
    return {
      annotations: { 'serving.kserve.io/autoscalerClass': 'keda' },
      fields: {
        autoScaling: {
          metrics: [
            {
              type: 'External',
              external: {
                metric: { backend: 'prometheus', serverAddress, query },
                target,
              },
            },
          ],
          ...behaviour(serving),
        },
      },
      scraped: serving.container.requestsMetric !== undefined,
      namespace: queriedNamespace(serving),
      notes: [rateRangeNote(serving), kedaNote(serving, prometheus), ...behaviourNotes(serving)],
    }
  }
  const cpu = cpuTarget(serving)
  if ('problem' in cpu)
    return fixedScaling(variant, [
      `no autoscaler: Standard mode scales only on CPU usage, and ${cpu.problem}. --variant keda scales on requests`,
    ])
  return {
    annotations: { 'serving.kserve.io/autoscalerClass': 'hpa' },
    fields: cpuScaling(serving, cpu.percent),
    notes: [rangeNote(serving), ...behaviourNotes(serving), cpuNote(cpu.percent, '--variant keda')],
  }
}

/** A fixed number of replicas. @param notes why */
const fixedScaling = (variant: KserveOptions['variant'], notes: readonly string[]): Scaling => ({
  annotations: variant === 'knative' ? {} : { 'serving.kserve.io/autoscalerClass': 'none' },
  fields: {},
  fixed: true,
  notes,
})

/** KServe takes scaling rates only beside `metrics`, so the CPU target stands there too. */
function cpuScaling(serving: Serving, averageUtilization: number): Manifest {
  const { behavior } = behaviour(serving)
  if (behavior === undefined) return { scaleMetric: 'cpu', scaleTarget: averageUtilization }
  return { autoScaling: { metrics: [cpuMetric(averageUtilization)], behavior } }
}

const behaviourNotes = (serving: Serving): string[] =>
  behaviour(serving).behavior === undefined
    ? []
    : ['autoScaling.behavior needs KServe 0.20 or later: remove it for an earlier release']

const knativeNotes = ({ resources, instanceType }: Serving): string[] => [
  'Knative stops and spreads pods itself: it accepts no preStop hook, grace period or spread, and drains requests for up to its timeoutSeconds (300)',
  ...(resources.gpu
    ? [
        'Knative must allow affinity and tolerations: features kubernetes.podspec-affinity and kubernetes.podspec-tolerations in config-features',
      ]
    : []),
  ...(instanceType === undefined
    ? []
    : [
        'Knative must allow node selectors: feature kubernetes.podspec-nodeselector in config-features',
      ]),
]
