/** Pods: the template of a server's pod, and the parts that other targets write into their own. */
import { posix } from 'node:path'
import type { GpuSelection } from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { builtinContainer } from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import {
  buildScrapeAnnotations,
  buildZonalLifetime,
  type Labels,
  lifecycle,
} from './availability.ts'
import { type Manifest, omitEmpty, removeUndefined } from './manifest.ts'
import type { PodStorage } from './model-storage.ts'
import { applyOverlay, describeIgnoredFields } from './pod-overlay.ts'
import {
  buildContainerClaims,
  buildScheduling,
  describeGpuNeeds,
  selectServingGpus,
} from './scheduling.ts'
import { buildSecretVariable, describeSecret } from './secret-variables.ts'
import type { Container, ServerContainer, Serving } from './serving.ts'

export interface PodParts {
  readonly container: ServerContainer
  readonly storage: PodStorage
  /** Whether Prometheus reads a counter of the pods. */
  readonly isScraped: boolean
  /** Whether more than one pod runs at any time. */
  readonly isReplicated: boolean
  /** Whether requests and probes reach it: default true. */
  readonly receivesRequests?: boolean
}

export function buildPodTemplate(serving: Serving, parts: PodParts, labels: Labels): Manifest {
  const { container, storage, isScraped, isReplicated, receivesRequests = true } = parts
  const gpu = selectServingGpus(serving)
  const { volumes, volumeMounts } = mountVolumes(serving, container, storage)
  const template = {
    metadata: {
      labels,
      annotations: omitEmpty({
        ...gpu.annotations,
        ...storage.annotations,
        ...(isScraped && buildScrapeAnnotations(container)),
      }),
    },
    spec: {
      ...buildZonalLifetime(serving, labels, isReplicated),
      ...buildScheduling(serving, gpu, labels),
      initContainers: omitEmpty(storage.initContainers),
      containers: [
        {
          name: builtinContainer,
          image: container.image,
          command: container.command,
          args: container.args,
          env: buildEnvironment(container, serving.name),
          ...(receivesRequests && {
            ports: listPorts(container).map(({ name, port }) => ({ name, containerPort: port })),
            ...buildProbes(serving, container, 'http'),
            lifecycle,
          }),
          resources: buildResources(serving, gpu),
          volumeMounts,
        },
      ],
      volumes,
    },
  }
  return { ...applyOverlay(serving, template, builtinContainer) }
}

export const listPorts = ({ port, grpcPort }: Pick<Container, 'port' | 'grpcPort'>) => [
  { name: 'http', port },
  ...(grpcPort === undefined ? [] : [{ name: 'grpc', port: grpcPort }]),
]

/** Notes on what the reader must know before applying such a pod. */
export const describePod = (
  serving: Serving,
  { container, storage }: Pick<PodParts, 'container' | 'storage'>,
  gpu: GpuSelection,
): string[] => [
  ...describeSecret(container, serving.name),
  ...describeGpuNeeds(gpu),
  ...(serving.pod ? [] : [...container.notes, ...storage.notes, ...describeIgnoredFields(serving)]),
]

/** 2 → '2', 1.5 → '1500m'. */
export const formatCpu = (cores: number): string =>
  Number.isInteger(cores) ? String(cores) : `${Math.round(cores * 1000)}m`
/** 4096 → '4Gi', 1500 → '1500Mi'. */
export const formatMemory = (mebibytes: number): string =>
  Number.isInteger(mebibytes / 1024) ? `${mebibytes / 1024}Gi` : `${Math.ceil(mebibytes)}Mi`

/** Requests equal limits. What was neither tuned nor measured is not requested. */
export function buildResources(
  { requirements: { cpuCores, memoryMiB } }: Pick<Serving, 'requirements'>,
  gpu: GpuSelection,
): Manifest {
  const requests = {
    cpu: cpuCores === undefined ? undefined : formatCpu(cpuCores),
    memory: memoryMiB === undefined ? undefined : formatMemory(memoryMiB),
  }
  return { requests, limits: { ...requests, ...gpu.limits }, claims: buildContainerClaims(gpu) }
}

/** Probes by the protocol's own paths; the startup deadline comes from the measured launch. */
export function buildProbes(
  { requirements }: Pick<Serving, 'requirements'>,
  { readyPath, livePath, probeSeconds }: Pick<Container, 'readyPath' | 'livePath' | 'probeSeconds'>,
  port: string | number,
): Manifest {
  const ready = {
    httpGet: { path: readyPath, port },
    periodSeconds: 5,
    timeoutSeconds: probeSeconds,
  }
  return {
    startupProbe: {
      ...ready,
      failureThreshold: Math.ceil(requirements.startupSeconds / ready.periodSeconds),
    },
    readinessProbe: ready,
    livenessProbe: {
      httpGet: { path: livePath ?? readyPath, port },
      periodSeconds: 10,
      timeoutSeconds: probeSeconds ?? 5,
      failureThreshold: 3,
    },
  }
}

/** Fields of a container for its start, its probes and its end. */
export const buildServerFields = (
  serving: Pick<Serving, 'requirements'>,
  container: ServerContainer,
): Manifest =>
  // An undefined command would replace the one that a target sets itself.
  removeUndefined({
    command: container.command,
    args: container.args,
    ...buildProbes(serving, container, container.port),
    lifecycle,
  })

/** Variables of the Secret, then the others in their order; all values are strings. */
export const buildEnvironment = (
  {
    env = {},
    secretEnv = [],
    optionalSecretEnv = [],
  }: Pick<Container, 'env' | 'secretEnv' | 'optionalSecretEnv'>,
  servingName: string,
): Manifest[] | undefined =>
  omitEmpty([
    ...secretEnv.map((name) => buildSecretVariable(name, servingName)),
    ...optionalSecretEnv.map((name) => buildSecretVariable(name, servingName, true)),
    ...Object.entries(env).map(([name, value]) => ({ name, value })),
  ])

/** Volumes of a pod, and where a container mounts them. */
interface Volumes {
  readonly volumes: readonly Manifest[]
  readonly volumeMounts: readonly Manifest[]
}

/**
 * The volumes of a server's weights, files and scratch space, as fields of the pod and of the
 * container: undefined if there are none.
 */
export function mountVolumes(
  serving: Pick<Serving, 'name' | 'requirements'>,
  container: ServerContainer,
  storage: Volumes = { volumes: [], volumeMounts: [] },
) {
  const parts = [storage, mountFiles(serving, container.files), buildScratch(serving, container)]
  return {
    volumes: omitEmpty(parts.flatMap(({ volumes }) => volumes)),
    volumeMounts: omitEmpty(parts.flatMap(({ volumeMounts }) => volumeMounts)),
  }
}

/**
 * Volumes that are empty when a pod starts: memory that the server's processes share, of which a
 * container has 64 MiB otherwise, and its cache.
 */
function buildScratch(
  { requirements: { sharedMemoryMiB } }: Pick<Serving, 'requirements'>,
  { sharedMemory, cachePath }: ServerContainer,
): Volumes {
  const sizeLimit = sharedMemoryMiB === undefined ? undefined : formatMemory(sharedMemoryMiB)
  const emptyVolumes = [
    ...(sharedMemory
      ? [{ name: 'shared-memory', path: '/dev/shm', emptyDir: { medium: 'Memory', sizeLimit } }]
      : []),
    ...(cachePath === undefined ? [] : [{ name: 'cache', path: cachePath, emptyDir: {} }]),
  ]
  return {
    volumes: emptyVolumes.map(({ name, emptyDir }) => ({ name, emptyDir })),
    volumeMounts: emptyVolumes.map(({ name, path }) => ({ name, mountPath: path })),
  }
}

const fileVolume = 'tuned-files'
/** Name of the ConfigMap. */
const nameFiles = ({ name }: Pick<Serving, 'name'>): string => `${name}-files`
/** Key of a file in the ConfigMap: '/etc/tuned/models.config', 0 → '0-models.config'. */
const nameKey = (path: string, index: number): string =>
  `${index}-${posix.basename(path).replace(/[^-._a-zA-Z0-9]/g, '_')}`

/** Builds the ConfigMap of a container's files; none if it has no files. */
export const buildConfigMaps = (
  serving: Pick<Serving, 'name'>,
  { files = [] }: Pick<Container, 'files'>,
): Manifest[] =>
  files.length === 0
    ? []
    : [
        {
          apiVersion: 'v1',
          kind: 'ConfigMap',
          metadata: { name: nameFiles(serving) },
          data: Object.fromEntries(
            files.map(({ path, contents }, i) => [nameKey(path, i), contents]),
          ),
        },
      ]

/** Each file is mounted by itself, so that others in its folder stay. */
const mountFiles = (
  serving: Pick<Serving, 'name'>,
  files: NonNullable<Container['files']> = [],
): Volumes => ({
  volumes:
    files.length === 0 ? [] : [{ name: fileVolume, configMap: { name: nameFiles(serving) } }],
  volumeMounts: files.map(({ path }, i) => ({
    name: fileVolume,
    mountPath: path,
    subPath: nameKey(path, i),
    readOnly: true,
  })),
})
