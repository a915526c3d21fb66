/**
 * KServe: InferenceService v1beta1 in Standard mode (plain deployments), Knative, and Standard
 * scaled by KEDA; LLMInferenceService of vLLM.
 */
import { protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import { type DeployedServer, selectableServers } from '../../figures.ts'
import {
  buildCpuMetric,
  buildRateQuery,
  defaultPrometheus,
  describeCpuTarget,
  describeFixedReplicas,
  describeKeda,
  describeRange,
  describeRateRange,
  formatThreshold,
  resolveBehaviour,
  resolveCpuTarget,
  resolveQueryNamespace,
} from '../autoscaling.ts'
import {
  buildDisruptionBudget,
  buildLifetime,
  buildScrapeAnnotations,
  countMinReplicas,
  lifecycle,
} from '../availability.ts'
import { buildContainer, buildPlatformContainer } from '../container.ts'
import { type Manifest, omitEmpty } from '../manifest.ts'
import {
  buildPodStorage,
  checkPlatformUri,
  type PodStorage,
  resolveStorage,
} from '../model-storage.ts'
import {
  buildConfigMaps,
  buildEnvironment,
  buildProbes,
  buildResources,
  buildServerFields,
  mountVolumes,
} from '../pod.ts'
import { applyOverlay, describeIgnoredFields } from '../pod-overlay.ts'
import { buildAnnotations } from '../provenance.ts'
import { fullFleetNote, fullFleetStrategy } from '../replica-schedule.ts'
import {
  buildClaimTemplates,
  buildScheduling,
  describeGpuNeeds,
  refuseClaim,
  selectServingGpus,
} from '../scheduling.ts'
import { describeSecret } from '../secret-variables.ts'
import { buildHuggingFaceContainer, resolveKserveUri } from '../servers/hugging-face.ts'
import type { ServerContainer, Serving } from '../serving.ts'
import { SpecError } from '../spec-error.ts'
import type { KserveVariant, SpecContent, SpecOptions, SpecTarget } from '../target.ts'
import { buildInferenceGraph } from './inference-graph.ts'
import { renderLlmInferenceService } from './llm-inference-service.ts'

export const target: SpecTarget = {
  title: 'KServe',
  files: ['inferenceservice.yaml', 'llminferenceservice.yaml'],
  writes:
    'InferenceService v1beta1 (`--variant standard`, `knative`, `keda`), or LLMInferenceService v1alpha1 (`--variant llm`, vLLM alone); of a pipeline an InferenceService for each stage, and an InferenceGraph where no stage calls another itself',
  needs: 'KServe, from 0.16 on for `llm`; with `--variant knative` Knative, with `keda` KEDA',
  scaledBy:
    '`standard`: CPU usage; `knative`: requests per second; `keda`: request rate; `llm`: a fixed number of replicas',
  servers: ['builtin', 'command', 'url', ...selectableServers],
  isNamespaced: true,
  takes: ['variant', 'prometheus', 'backend'],
  host: ({ name }, { variant }) => (variant === 'llm' ? undefined : `${name}-predictor`),
  pipeline: {
    stageUrl,
    buildRouter: (name, stages, options) =>
      buildInferenceGraph(
        name,
        stages,
        options.variant === 'knative' ? 'Knative' : 'Standard',
        (serving) => stageUrl(serving, options),
      ),
  },
  needsModelUri: usesRuntime,
  render: (serving, { variant = 'standard', ...options }) =>
    variant === 'llm'
      ? renderLlmInferenceService(serving)
      : renderInferenceService(serving, variant, options),
}

/**
 * Address of a stage for others of its namespace.
 * @throws SpecError for variants that deploy no pipelines
 */
function stageUrl({ name, namespace }: Serving, { variant }: SpecOptions): string {
  if (variant === 'llm')
    throw new SpecError('--variant llm deploys no pipelines', 'choose --variant standard')
  if (variant !== 'knative') return `http://${name}-predictor`
  // Knative routes by host names that contain the namespace.
  if (namespace === undefined)
    throw new SpecError(
      'the stages of a pipeline reach each other in Knative by their namespace',
      'give --namespace, or choose --variant standard',
    )
  return `http://${name}-predictor.${namespace}.svc.cluster.local`
}

type Mode = Exclude<KserveVariant, 'llm'>

/** KServe knows its own container by this name. */
const containerName = 'kserve-container'

function renderInferenceService(
  serving: Serving,
  mode: Mode,
  { prometheus, backend }: SpecOptions,
): SpecContent {
  const { name, minReplicas, maxReplicas, replicaPlan, requirements } = serving
  const isKnative = mode === 'knative'
  const scaling = buildScaling(serving, mode, prometheus)
  const {
    container,
    fields,
    storage,
    secretNotes = [],
  } = usesRuntime(serving) ? buildModel(serving, backend) : buildOwnContainer(serving, backend)
  const gpu = selectServingGpus(serving)
  if (isKnative) refuseClaim(gpu, 'Knative takes')
  const pods = { 'serving.kserve.io/inferenceservice': name, component: 'predictor' }
  const isReplicated = countMinReplicas(serving, !scaling.isFixed) > 1
  const { volumes, volumeMounts } = mountVolumes(serving, container, storage)
  const { lifecycle: _, startupProbe: __, ...knativeFields } = fields
  const { metadata, spec } = applyOverlay(
    serving,
    {
      metadata: {
        annotations: omitEmpty({
          ...gpu.annotations,
          ...storage?.annotations,
          ...(scaling.isScraped && buildScrapeAnnotations(container)),
        }),
      },
      spec: {
        ...buildScheduling(serving, gpu),
        // Knative ends and spreads pods itself, and on older releases has no startup probe.
        ...(isKnative ? {} : buildLifetime(serving, pods, isReplicated)),
        volumes,
        containers: [
          {
            name: containerName,
            ...(isKnative ? knativeFields : fields),
            volumeMounts,
            resources: buildResources(serving, gpu),
          },
        ],
      },
    },
    containerName,
  )
  return {
    name: 'inferenceservice.yaml',
    body: [
      ...buildConfigMaps(serving, container),
      ...buildClaimTemplates(serving, gpu),
      ...buildDisruptionBudget(serving, isReplicated, pods),
      {
        apiVersion: 'serving.kserve.io/v1beta1',
        kind: 'InferenceService',
        metadata: {
          name,
          annotations: {
            'serving.kserve.io/deploymentMode': isKnative ? 'Knative' : 'Standard',
            ...(isKnative && {
              'serving.knative.dev/progress-deadline': `${requirements.progressSeconds}s`,
            }),
            'serving.kserve.io/autoscalerClass': scaling.autoscalerClass,
            ...buildAnnotations(serving),
          },
        },
        spec: {
          predictor: {
            minReplicas,
            maxReplicas: scaling.isFixed ? minReplicas : maxReplicas,
            ...scaling.fields,
            deploymentStrategy: replicaPlan && !isKnative ? fullFleetStrategy : undefined,
            ...metadata,
            ...placeContainers(serving, spec),
          },
        },
      },
    ],
    notes: [
      ...secretNotes,
      ...describeGpuNeeds(gpu),
      ...(storage?.notes ?? []),
      ...container.notes,
      ...describeIgnoredFields(serving),
      ...scaling.notes,
      ...(serving.stage === undefined || isKnative
        ? []
        : [
            'the stages reach each other on port 80 of their Services, which need a cluster IP: serviceClusterIPNone in inferenceservice-config must be false',
          ]),
      ...(replicaPlan ? [fullFleetNote] : []),
    ],
    namespace: scaling.namespace,
  }
}

/**
 * Whether one of KServe's own runtimes serves the model. The runtime for vLLM is the Hugging Face
 * server, which contains vLLM; it is not used if the user names an image.
 */
function usesRuntime({ deployed: { server }, container }: Serving): boolean {
  return (
    server === 'tfserving' || server === 'triton' || (server === 'vllm' && !container.isImageNamed)
  )
}

/** A runtime's container is `model`, without its name; the user's sidecars stand beside it. */
function placeContainers(serving: Serving, { containers, ...pod }: Manifest): Manifest {
  if (!usesRuntime(serving)) return { ...pod, containers }
  const allContainers = containers as readonly Manifest[]
  const { name: _, ...model } = allContainers.find(({ name }) => name === containerName) ?? {}
  const sidecars = allContainers.filter(({ name }) => name !== containerName)
  return { ...pod, containers: omitEmpty(sidecars), model }
}

/** A container, and the fields of the predictor for it, without volumes and resources. */
interface KserveServer {
  readonly container: ServerContainer
  readonly fields: Manifest
  /** Weights that the pod mounts, because KServe cannot fetch them. */
  readonly storage?: PodStorage
  readonly secretNotes?: readonly string[]
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

/** Ports and folder of the runtimes. */
const places = { http: 8080, grpc: 9000, folder: '/mnt/models' } as const

function buildModel(serving: Serving, backend: string | undefined): KserveServer {
  const { server } = serving.deployed
  const container =
    server === 'vllm'
      ? buildHuggingFaceContainer(serving, places.http)
      : buildPlatformContainer(serving, places, backend)
  return {
    container,
    fields: {
      ...runtimes[server],
      storageUri: resolveKserveUri(serving),
      image: container.isImageNamed ? container.image : undefined,
      ...buildServerFields(serving, container),
    },
  }
}

function buildOwnContainer(serving: Serving, backend: string | undefined): KserveServer {
  const container = buildContainer(serving, backend)
  const weights = resolveStorage(serving)
  // KServe fetches what this variable names to /mnt/models; it has no CSI volumes.
  const storageVariable = weights !== undefined &&
    weights.kind !== 'csi' && { STORAGE_URI: checkPlatformUri(serving.modelUri!, 'KServe') }
  const isGrpc =
    container.grpcPort !== undefined &&
    protocolTable[serving.evidence.measured.protocol].transport === 'grpc'
  return {
    container,
    fields: {
      image: container.image,
      command: container.command,
      args: container.args,
      env: buildEnvironment(
        { ...container, env: { ...container.env, ...storageVariable } },
        serving.name,
      ),
      // KServe calls one port; it knows the gRPC port by this name.
      ports: [
        isGrpc
          ? { name: 'h2c', containerPort: container.grpcPort, protocol: 'TCP' }
          : { containerPort: container.port, protocol: 'TCP' },
      ],
      ...buildProbes(serving, container, container.port),
      lifecycle,
    },
    storage: weights?.kind === 'csi' ? buildPodStorage(weights) : undefined,
    secretNotes: describeSecret(container, serving.name),
  }
}

interface Scaling {
  readonly autoscalerClass?: 'hpa' | 'keda' | 'none'
  /** Fields of the predictor. */
  readonly fields?: Manifest
  readonly notes: readonly string[]
  readonly isFixed?: boolean
  /** Prometheus reads a counter of these pods. */
  readonly isScraped?: boolean
  /** Namespace that the query names; absent: there is no query. */
  readonly namespace?: string
}

function buildScaling(serving: Serving, mode: Mode, prometheus: string | undefined): Scaling {
  const isKnative = mode === 'knative'
  const buildFixed = (...notes: readonly string[]): Scaling => ({
    autoscalerClass: isKnative ? undefined : 'none',
    isFixed: true,
    notes,
  })
  if (serving.replicaPlan !== undefined) return buildFixed()
  const knativeNotes = isKnative ? describeKnative(serving) : []
  if (!serving.isScalable) return buildFixed(describeFixedReplicas(serving), ...knativeNotes)
  if (isKnative)
    return {
      fields: { scaleMetric: 'rps', scaleTarget: Math.max(1, Math.floor(serving.perReplicaRps)) },
      notes: [describeRateRange(serving), ...knativeNotes],
    }
  const behavior = resolveBehaviour(serving)
  const behaviourNotes =
    behavior === undefined
      ? []
      : ['autoScaling.behavior needs KServe 0.20 or later: remove it for an earlier release']
  if (mode === 'keda')
    return {
      autoscalerClass: 'keda',
      fields: {
        autoScaling: {
          metrics: [
            {
              type: 'External',
              external: {
                metric: {
                  backend: 'prometheus',
                  serverAddress: prometheus ?? defaultPrometheus,
                  query: buildRateQuery(serving, `${serving.name}-predictor`),
                },
                target: { type: 'AverageValue', averageValue: formatThreshold(serving) },
              },
            },
          ],
          behavior,
        },
      },
      isScraped: serving.container.requestsMetric !== undefined,
      namespace: resolveQueryNamespace(serving),
      notes: [describeRateRange(serving), describeKeda(serving, prometheus), ...behaviourNotes],
    }
  const cpu = resolveCpuTarget(serving)
  if ('problem' in cpu)
    return buildFixed(
      `no autoscaler: Standard mode scales only on CPU usage, and ${cpu.problem}. --variant keda scales on requests`,
    )
  return {
    autoscalerClass: 'hpa',
    // KServe takes scaling rates only beside `metrics`, so the CPU target stands there too.
    fields:
      behavior === undefined
        ? { scaleMetric: 'cpu', scaleTarget: cpu.percent }
        : { autoScaling: { metrics: [buildCpuMetric(cpu.percent)], behavior } },
    notes: [
      describeRange(serving),
      ...behaviourNotes,
      describeCpuTarget(cpu.percent, '--variant keda'),
    ],
  }
}

const describeKnative = ({ resources, instanceType }: Serving): string[] => [
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
