/** The predictor's pod, and the names and labels of all objects of a trial. */
import type { Configuration } from '../../../../search/types.ts'
import type { Resources } from '../../../resources.ts'
import { createPredictorEnvironment } from '../../builtin.ts'
import { fillCommand } from '../../fill.ts'
import {
  type LauncherValues,
  launcherPlaceholders,
  listStageValues,
  type TunedParameter,
} from '../../placeholders.ts'
import type { BuiltinTemplate, CommandTemplate } from '../../template.ts'
import { claimName } from '../gpus/dra.ts'
import { createGpuTolerations, type GpuSelection } from '../gpus/gpu-selection.ts'
import { createRestrictedSpec, mergeOverlay, type PodOverlay } from './pod-policy.ts'

/** A plain Kubernetes object: a user's template may contain fields that typed models lack. */
export type Json = { [key: string]: unknown }

/** The user's own predictor. */
export interface PodTemplate {
  /** The user's metadata and spec. */
  readonly pod: Readonly<Record<string, unknown>>
  /** Name of the container that gets the tuned values. */
  readonly container: string
}

interface TrialPodPlan {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly owner: Owner
  readonly template: BuiltinTemplate | CommandTemplate
  /** With a command template. */
  readonly own?: PodTemplate
  /**
   * Built-in predictor: an image whose entry point is the `tune` command, and the overlay of its
   * pod.
   */
  readonly image?: string
  readonly overlay?: PodOverlay
  readonly port: number
  readonly parameters: readonly TunedParameter[]
  /** Defaults included. */
  readonly configuration: Configuration
  readonly trialNumber: number
  readonly requested: Resources
  readonly gpu: GpuSelection
  /** Addresses of the stages that it calls, by name. */
  readonly stageUrls?: ReadonlyMap<string, string>
  /** Name of the claim template for a claim in `gpu`. Default: the pod's name. */
  readonly claimTemplateName?: string
  /** The cluster ends the pod after this time, even without the tuner. */
  readonly deadlineS: number
}

/** The Job that owns an experiment's objects (lease.ts). */
export interface Owner {
  readonly name: string
  readonly uid: string
}

export const labelNames = {
  managedBy: 'app.kubernetes.io/managed-by',
  experiment: 'tune/experiment',
  trial: 'tune/trial',
  role: 'tune/role',
  stage: 'tune/stage',
} as const
export const manager = 'tune'

/** The name of the built-in predictor's container, and of the load generator's. */
export const builtinContainer = 'predictor'
export const loadContainer = 'load'

/** Labels of one object. Roles: experiment, lease, payload, predictor, load. */
export const createLabels = (
  experiment: string,
  role: string,
  trial?: number,
  stage?: string,
): Record<string, string> => ({
  [labelNames.managedBy]: manager,
  [labelNames.experiment]: experiment,
  [labelNames.role]: role,
  ...(trial !== undefined && { [labelNames.trial]: String(trial) }),
  ...(stage !== undefined && { [labelNames.stage]: stage }),
})

/** Prefix of the names of an experiment's objects. */
export const formatOwnerName = (experiment: string): string => `tune-${experiment}`

export const createOwnerReferences = ({ name, uid }: Owner) => [
  { apiVersion: 'batch/v1', kind: 'Job', name, uid },
]

/** 2 → '2', 0.5 → '500m'. */
const formatCpu = (cores: number): string =>
  Number.isInteger(cores) ? String(cores) : `${Math.round(cores * 1000)}m`

/** @throws LaunchError for placeholders without a value */
export function createTrialPod(plan: TrialPodPlan): Json {
  const podTemplate = plan.own?.pod ?? {
    metadata: plan.overlay?.metadata,
    spec: mergeOverlay(createOwnImageSpec(builtinContainer), plan.overlay?.spec),
  }
  const metadata = (podTemplate.metadata ?? {}) as Json
  const spec = structuredClone((podTemplate.spec ?? { containers: [] }) as Json)
  const name = plan.own?.container ?? builtinContainer
  const containers = spec.containers as Json[]
  const { gpu } = plan
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...(metadata.annotations !== undefined || Object.keys(gpu.annotations).length > 0
        ? { annotations: { ...(metadata.annotations as Json | undefined), ...gpu.annotations } }
        : {}),
      name: plan.name,
      labels: { ...(metadata.labels as Json | undefined), ...plan.labels },
      ownerReferences: createOwnerReferences(plan.owner),
    },
    spec: {
      ...spec,
      // A predictor that ends is a result; a restart would hide it.
      restartPolicy: 'Never',
      activeDeadlineSeconds: plan.deadlineS,
      // Service links add variables for every Service, whose names may collide with settings.
      enableServiceLinks: (spec.enableServiceLinks as boolean | undefined) ?? false,
      terminationGracePeriodSeconds: graceSeconds,
      ...(gpu.schedulerName && { schedulerName: gpu.schedulerName }),
      affinity: createAffinity((spec.affinity ?? {}) as Json, gpu),
      ...((gpu.requirements.length > 0 || gpu.claim) && {
        tolerations: [
          ...((spec.tolerations as Json[] | undefined) ?? []),
          ...createGpuTolerations(gpu),
        ],
      }),
      ...(gpu.claim && {
        resourceClaims: [
          ...((spec.resourceClaims as Json[] | undefined) ?? []),
          { name: claimName, resourceClaimTemplateName: plan.claimTemplateName ?? plan.name },
        ],
      }),
      containers: containers.map((container) =>
        container.name === name ? createTunedContainer(container, plan) : container,
      ),
    },
  }
}

/** Pod spec for a container of our own images, which need no access to the API server. */
export const createOwnImageSpec = (container: string): Json => ({
  automountServiceAccountToken: false,
  ...createRestrictedSpec(container),
})

/** Seconds from SIGTERM to SIGKILL. A predictor under trial has no state to save. */
export const graceSeconds = 1

/** Requires nodes with the GPU, and prefers nodes without other trials and their load. */
function createAffinity(affinity: Json, gpu: GpuSelection): Json {
  const node = (affinity.nodeAffinity ?? {}) as Json
  const required = node.requiredDuringSchedulingIgnoredDuringExecution as
    | { nodeSelectorTerms: Json[] }
    | undefined
  const terms = required?.nodeSelectorTerms ?? [{}]
  const antiAffinity = (affinity.podAntiAffinity ?? {}) as Json
  const preferred =
    (antiAffinity.preferredDuringSchedulingIgnoredDuringExecution as Json[] | undefined) ?? []
  return {
    ...affinity,
    ...(gpu.requirements.length > 0 && {
      nodeAffinity: {
        ...node,
        // Terms are alternatives: add our requirements to each of the user's.
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: terms.map((term) => ({
            ...term,
            matchExpressions: [
              ...((term.matchExpressions as Json[] | undefined) ?? []),
              ...gpu.requirements,
            ],
          })),
        },
      },
    }),
    podAntiAffinity: {
      ...antiAffinity,
      preferredDuringSchedulingIgnoredDuringExecution: [...preferred, awayFromTrials],
    },
  }
}

export const awayFromTrials = {
  weight: 100,
  podAffinityTerm: {
    topologyKey: 'kubernetes.io/hostname',
    labelSelector: { matchLabels: { [labelNames.managedBy]: manager } },
  },
}

function createTunedContainer(container: Json, plan: TrialPodPlan): Json {
  const { configuration, requested, gpu, template } = plan
  const filled =
    template.kind === 'builtin'
      ? createBuiltinFields(container, template, plan)
      : createCommandFields(container, template, plan)
  const resources = (container.resources ?? {}) as {
    requests?: Json
    limits?: Json
    claims?: Json[]
  }
  const builtin = template.kind === 'builtin'
  const tunedResources = {
    ...((builtin || 'cpuCores' in configuration) && { cpu: formatCpu(requested.cpuCores) }),
    ...((builtin || 'memoryMiB' in configuration) && {
      memory: `${Math.ceil(requested.memoryMiB)}Mi`,
    }),
    ...gpu.limits,
  }
  const tunesGpu = 'gpu' in configuration
  const keepResources = (quantities: Json = {}) =>
    Object.fromEntries(
      Object.entries(quantities).filter(([name]) => !(tunesGpu && isGpuResource(name))),
    )
  return {
    ...container,
    ...filled,
    // Requests equal limits, so that the measured resources are the reserved ones.
    resources: {
      ...resources,
      requests: { ...keepResources(resources.requests), ...tunedResources },
      limits: { ...keepResources(resources.limits), ...tunedResources },
      ...(gpu.claim && { claims: [...(resources.claims ?? []), { name: claimName }] }),
    },
  }
}

const isGpuResource = (resource: string): boolean =>
  /^(nvidia\.com|aliyun\.com|volcano\.sh)\//.test(resource)

function createBuiltinFields(
  container: Json,
  template: BuiltinTemplate,
  { image, configuration, requested, port }: TrialPodPlan,
): Json {
  const engine = resolveEngine(template)
  const env: Readonly<Record<string, string>> = {
    ...createPredictorEnvironment(template, configuration, engine, requested),
    HOST: '0.0.0.0',
    PORT: String(port),
  }
  return {
    image,
    args: ['predictor'],
    env: mergeVariables((container.env as Json[] | undefined) ?? [], env),
    ports: [{ containerPort: port }],
  }
}

/**
 * On a cluster, `auto` never falls back to emulation: devices exist, or the pod stays
 * unschedulable.
 */
export const resolveEngine = ({
  engine,
}: BuiltinTemplate): Exclude<BuiltinTemplate['engine'], 'auto'> =>
  engine === 'auto' ? 'tfjs' : engine

/**
 * Adds environment and arguments to the container, and fills in `${name}` of parameters and
 * launcher values in command, args and env. Any other `${...}` is left alone, for example for a
 * shell.
 */
function createCommandFields(
  container: Json,
  template: CommandTemplate,
  { parameters, configuration, trialNumber, port, requested, stageUrls }: TrialPodPlan,
): Json {
  const stageValues = listStageValues(stageUrls)
  const values: LauncherValues = {
    ...stageValues,
    host: '0.0.0.0',
    port,
    model: template.model,
    trial: trialNumber,
    cpuCores: requested.cpuCores,
    gpuMemoryMiB: requested.gpuMemoryMiB ?? 0,
    gpuMemoryFraction: requested.gpuShare,
  }
  const knownNames = new Set<string>([
    ...parameters.map(({ name }) => name),
    ...launcherPlaceholders,
    ...Object.keys(stageValues),
    'args',
  ])
  const protect = (text: string) =>
    text.replace(/\$\{([^}]*)\}/g, (whole, name: string) =>
      knownNames.has(name) ? whole : `$${whole}`,
    )
  const fill = (
    command: readonly string[],
    tuned: readonly TunedParameter[],
    env: Readonly<Record<string, string>> = {},
  ) =>
    fillCommand(
      { ...template, command: command.map(protect), env, files: [], cwd: undefined },
      tuned,
      configuration,
      values,
    )

  const containerVariables = ((container.env as Json[] | undefined) ?? []).map((entry) =>
    typeof entry.value === 'string' ? { ...entry, value: fill([entry.value], []).argv[0] } : entry,
  )
  const { env, argv } = fill((container.args as string[] | undefined) ?? [], parameters)
  const variables = mergeVariables(containerVariables, env)
  return {
    ...(container.command !== undefined && {
      command: fill(container.command as string[], []).argv,
    }),
    ...(argv.length > 0 && { args: argv }),
    ...(variables.length > 0 && { env: variables }),
  }
}

/** Merges variables into a container's; new ones replace those of the same name. */
const mergeVariables = (
  ownVariables: readonly Json[],
  set: Readonly<Record<string, string>>,
): Json[] => [
  ...ownVariables.filter(({ name }) => !((name as string) in set)),
  ...Object.entries(set).map(([name, value]) => ({ name, value })),
]
