/** The objects of a trial: the predictor's pod, and what names and labels its others have. */
import type { Configuration } from '../../../search/types.ts'
import type { Resources } from '../../resources.ts'
import { predictorEnvironment } from '../builtin.ts'
import {
  fillCommand,
  type LauncherValues,
  launcherPlaceholders,
  type TunedParameter,
} from '../fill.ts'
import type { BuiltinTemplate, CommandTemplate } from '../template.ts'
import { claimName } from './dra.ts'
import { type GpuSelection, gpuTolerations } from './gpu-selection.ts'
import { overlaid, type PodOverlay, restrictedSpec } from './pod-policy.ts'

/** Plain Kubernetes objects: a user's template may hold fields that no typed model knows. */
export type Json = { [key: string]: unknown }

/** The user's own predictor. */
export interface PodTemplate {
  /** metadata and spec, as the user wrote them. */
  readonly pod: Readonly<Record<string, unknown>>
  /** Which container the tuned values go into. */
  readonly container: string
}

interface TrialPod {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly owner: Owner
  readonly template: BuiltinTemplate | CommandTemplate
  /** With a command template. */
  readonly own?: PodTemplate
  /**
   * With the built-in predictor: an image whose entry point is the `tune` command, and what is laid
   * over its pod.
   */
  readonly image?: string
  readonly overlay?: PodOverlay
  readonly port: number
  readonly parameters: readonly TunedParameter[]
  /** Defaults included. */
  readonly configuration: Configuration
  readonly trialNumber: number
  readonly asked: Resources
  readonly gpu: GpuSelection
  /** With a claim in `gpu`: the template that it is made from. Default: the pod's name. */
  readonly claimTemplateName?: string
  /** The cluster ends the pod itself after so long, whatever became of the tuner. */
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
} as const
export const manager = 'tune'

/** The name of the built-in predictor's container, and of the load generator's. */
export const builtinContainer = 'predictor'
export const loadContainer = 'load'

/** Labels of one object. Roles: experiment, lease, payload, predictor, load. */
export const labelsOf = (
  experiment: string,
  role: string,
  trial?: number,
): Record<string, string> => ({
  [labelNames.managedBy]: manager,
  [labelNames.experiment]: experiment,
  [labelNames.role]: role,
  ...(trial !== undefined && { [labelNames.trial]: String(trial) }),
})

/** What names of an experiment's own objects begin with. */
export const ownerName = (experiment: string): string => `tune-${experiment}`

export const ownerReferences = ({ name, uid }: Owner) => [
  { apiVersion: 'batch/v1', kind: 'Job', name, uid },
]

/** 2 → '2', 0.5 → '500m'. */
const cpu = (cores: number): string =>
  Number.isInteger(cores) ? String(cores) : `${Math.round(cores * 1000)}m`

/** @throws LaunchError for placeholders without a value */
export function trialPod(plan: TrialPod): Json {
  const given = plan.own?.pod ?? {
    metadata: plan.overlay?.metadata,
    spec: overlaid(ownSpec(builtinContainer), plan.overlay?.spec),
  }
  const metadata = (given.metadata ?? {}) as Json
  const spec = structuredClone((given.spec ?? { containers: [] }) as Json)
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
      ownerReferences: ownerReferences(plan.owner),
    },
    spec: {
      ...spec,
      // A predictor that ends has given its answer: started anew it would only hide it.
      restartPolicy: 'Never',
      activeDeadlineSeconds: plan.deadlineS,
      // Variables for every Service of the namespace, of which one may be called like a setting.
      enableServiceLinks: (spec.enableServiceLinks as boolean | undefined) ?? false,
      terminationGracePeriodSeconds: graceSeconds,
      ...(gpu.schedulerName && { schedulerName: gpu.schedulerName }),
      affinity: affinity((spec.affinity ?? {}) as Json, gpu),
      ...((gpu.requirements.length > 0 || gpu.claim) && {
        tolerations: [...((spec.tolerations as Json[] | undefined) ?? []), ...gpuTolerations(gpu)],
      }),
      ...(gpu.claim && {
        resourceClaims: [
          ...((spec.resourceClaims as Json[] | undefined) ?? []),
          { name: claimName, resourceClaimTemplateName: plan.claimTemplateName ?? plan.name },
        ],
      }),
      containers: containers.map((container) =>
        container.name === name ? tunedContainer(container, plan) : container,
      ),
    },
  }
}

/** Of one container of our own images, none of which calls the API server. */
export const ownSpec = (container: string): Json => ({
  automountServiceAccountToken: false,
  ...restrictedSpec(container),
})

/** From the request to end to the kill. A predictor under trial has nothing to save. */
export const graceSeconds = 1

/** On nodes with the GPU, and apart from other trials and their load where there is room. */
function affinity(given: Json, gpu: GpuSelection): Json {
  const node = (given.nodeAffinity ?? {}) as Json
  const required = node.requiredDuringSchedulingIgnoredDuringExecution as
    | { nodeSelectorTerms: Json[] }
    | undefined
  const terms = required?.nodeSelectorTerms ?? [{}]
  const apart = (given.podAntiAffinity ?? {}) as Json
  const preferred =
    (apart.preferredDuringSchedulingIgnoredDuringExecution as Json[] | undefined) ?? []
  return {
    ...given,
    ...(gpu.requirements.length > 0 && {
      nodeAffinity: {
        ...node,
        // Terms are alternatives: each of the user's must hold together with ours.
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
      ...apart,
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

function tunedContainer(container: Json, plan: TrialPod): Json {
  const { configuration, asked, gpu, template } = plan
  const filled =
    template.kind === 'builtin'
      ? builtinFields(container, template, plan)
      : ownFields(container, template, plan)
  const resources = (container.resources ?? {}) as {
    requests?: Json
    limits?: Json
    claims?: Json[]
  }
  const builtin = template.kind === 'builtin'
  const held = {
    ...((builtin || 'cpuCores' in configuration) && { cpu: cpu(asked.cpuCores) }),
    ...((builtin || 'memoryMiB' in configuration) && { memory: `${Math.ceil(asked.memoryMiB)}Mi` }),
    ...gpu.limits,
  }
  const tunesGpu = 'gpu' in configuration
  const kept = (given: Json = {}) =>
    Object.fromEntries(Object.entries(given).filter(([name]) => !(tunesGpu && isGpu(name))))
  return {
    ...container,
    ...filled,
    // What was measured is what is held: requests equal limits.
    resources: {
      ...resources,
      requests: { ...kept(resources.requests), ...held },
      limits: { ...kept(resources.limits), ...held },
      ...(gpu.claim && { claims: [...(resources.claims ?? []), { name: claimName }] }),
    },
  }
}

const isGpu = (resource: string): boolean =>
  /^(nvidia\.com|aliyun\.com|volcano\.sh)\//.test(resource)

function builtinFields(
  container: Json,
  template: BuiltinTemplate,
  { image, configuration, asked, port }: TrialPod,
): Json {
  const engine = runningEngine(template)
  const env: Readonly<Record<string, string>> = {
    ...predictorEnvironment(template, configuration, engine, asked),
    HOST: '0.0.0.0',
    PORT: String(port),
  }
  return {
    image,
    args: ['predictor'],
    env: withVariables((container.env as Json[] | undefined) ?? [], env),
    ports: [{ containerPort: port }],
  }
}

/**
 * On a cluster the devices are there or asked for in vain: `auto` never turns into emulation behind
 * the user's back.
 */
export const runningEngine = ({
  engine,
}: BuiltinTemplate): Exclude<BuiltinTemplate['engine'], 'auto'> =>
  engine === 'auto' ? 'tfjs' : engine

/**
 * Environment and arguments join what the container has; `${name}` of parameters and launcher
 * values is filled in wherever it stands in command, args and env. Any other `${...}` is the
 * container's own, a shell's for instance.
 */
function ownFields(
  container: Json,
  template: CommandTemplate,
  { parameters, configuration, trialNumber, port, asked }: TrialPod,
): Json {
  const values: LauncherValues = {
    host: '0.0.0.0',
    port,
    model: template.model,
    trial: trialNumber,
    cpuCores: asked.cpuCores,
    gpuMemoryMiB: asked.gpuMemoryMiB ?? 0,
    gpuMemoryFraction: asked.gpuShare,
  }
  const known = new Set<string>([
    ...parameters.map(({ name }) => name),
    ...launcherPlaceholders,
    'args',
  ])
  const protect = (text: string) =>
    text.replace(/\$\{([^}]*)\}/g, (whole, name: string) => (known.has(name) ? whole : `$${whole}`))
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

  const given = ((container.env as Json[] | undefined) ?? []).map((entry) =>
    typeof entry.value === 'string' ? { ...entry, value: fill([entry.value], []).argv[0] } : entry,
  )
  const { env, argv } = fill((container.args as string[] | undefined) ?? [], parameters)
  const variables = withVariables(given, env)
  return {
    ...(container.command !== undefined && {
      command: fill(container.command as string[], []).argv,
    }),
    ...(argv.length > 0 && { args: argv }),
    ...(variables.length > 0 && { env: variables }),
  }
}

/** A container's variables with others, which stand in place of those of the same name. */
const withVariables = (given: readonly Json[], set: Readonly<Record<string, string>>): Json[] => [
  ...given.filter(({ name }) => !((name as string) in set)),
  ...Object.entries(set).map(([name, value]) => ({ name, value })),
]
