/** The parts of a pod that Kubernetes-based targets share. */
import { posix } from 'node:path'
import {
  type GpuSelection,
  gpuTolerations,
} from '../../trials/launchers/kubernetes/gpu-selection.ts'
import type { Manifest } from './manifest.ts'
import { containerClaims, instanceSelector, podClaims, specGpus } from './pod-gpus.ts'
import { secretVariable } from './secret-variables.ts'
import type { Container, Serving, WholeContainer } from './serving.ts'

/** 2 → '2', 1.5 → '1500m'. */
export const cpuQuantity = (cores: number): string =>
  Number.isInteger(cores) ? String(cores) : `${Math.round(cores * 1000)}m`
/** 4096 → '4Gi', 1500 → '1500Mi'. */
export const memoryQuantity = (mebibytes: number): string =>
  Number.isInteger(mebibytes / 1024) ? `${mebibytes / 1024}Gi` : `${Math.ceil(mebibytes)}Mi`

/**
 * Requests equal limits: what was measured is what is held. What was neither tuned nor measured is
 * not asked for.
 */
export function resourcesBlock(
  serving: Serving,
  gpu: GpuSelection = specGpus(serving.resources, serving.gpuScheme, serving.dra),
): Manifest {
  const { cpuCores, memoryMiB } = serving.held
  const held = {
    ...(cpuCores === undefined ? {} : { cpu: cpuQuantity(cpuCores) }),
    ...(memoryMiB === undefined ? {} : { memory: memoryQuantity(memoryMiB) }),
  }
  return { requests: held, limits: { ...held, ...gpu.limits }, ...containerClaims(gpu) }
}

/** Where a pod may run: nodes with the GPU, and apart from its siblings where there is a choice. */
export function placement(
  serving: Serving,
  gpu: GpuSelection,
  labels: Readonly<Record<string, string>>,
): Manifest {
  const hasGpu = serving.resources.gpu !== undefined
  return {
    ...(gpu.schedulerName ? { schedulerName: gpu.schedulerName } : {}),
    ...instanceSelector(serving),
    affinity: {
      ...(gpu.requirements.length > 0
        ? {
            nodeAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: {
                nodeSelectorTerms: [{ matchExpressions: gpu.requirements }],
              },
            },
          }
        : {}),
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          {
            weight: 100,
            podAffinityTerm: {
              topologyKey: 'kubernetes.io/hostname',
              labelSelector: { matchLabels: labels },
            },
          },
        ],
      },
    },
    ...podClaims(serving, gpu),
    ...(hasGpu ? { tolerations: gpuTolerations(gpu) } : {}),
  }
}

/** Probes by the protocol's own paths; the startup deadline comes from the measured launch. */
export function probes(
  { held }: Pick<Serving, 'held'>,
  { readyPath, livePath, probeSeconds }: Pick<Container, 'readyPath' | 'livePath' | 'probeSeconds'>,
  port: string | number,
): Manifest {
  const get = (path: string) => ({ httpGet: { path, port } })
  const periodSeconds = 5
  const within = probeSeconds === undefined ? {} : { timeoutSeconds: probeSeconds }
  return {
    startupProbe: {
      ...get(readyPath),
      periodSeconds,
      ...within,
      failureThreshold: Math.ceil(held.startupSeconds / periodSeconds),
    },
    readinessProbe: { ...get(readyPath), periodSeconds, ...within },
    livenessProbe: {
      ...get(livePath ?? readyPath),
      periodSeconds: 10,
      timeoutSeconds: probeSeconds ?? 5,
      failureThreshold: 3,
    },
  }
}

/**
 * What a Secret gives, then the rest in the order it was given; all values are strings. Nothing
 * where there is none.
 */
export function environment(
  {
    env = {},
    secretEnv = [],
    optionalSecretEnv = [],
  }: Pick<Container, 'env' | 'secretEnv' | 'optionalSecretEnv'>,
  of: string,
): { readonly env?: Manifest[] } {
  const secret = [
    ...secretEnv.map((name) => secretVariable(name, of)),
    ...optionalSecretEnv.map((name) => secretVariable(name, of, true)),
  ]
  const list = [...secret, ...Object.entries(env).map(([name, value]) => ({ name, value }))]
  return list.length > 0 ? { env: list } : {}
}

/**
 * Volumes that a pod begins with empty: memory that the server's processes share, of which a
 * container has 64 MiB otherwise, and its cache.
 */
export function scratch(
  { held }: Pick<Serving, 'held'>,
  { sharedMemory, cachePath }: Pick<WholeContainer, 'sharedMemory' | 'cachePath'>,
) {
  const limit =
    held.sharedMemoryMiB === undefined ? {} : { sizeLimit: memoryQuantity(held.sharedMemoryMiB) }
  const all: readonly (readonly [string, string, Manifest])[] = [
    ...(sharedMemory
      ? [['shared-memory', '/dev/shm', { medium: 'Memory', ...limit }] as const]
      : []),
    ...(cachePath === undefined ? [] : [['cache', cachePath, {}] as const]),
  ]
  return {
    volumes: all.map(([name, , emptyDir]): Manifest => ({ name, emptyDir })),
    volumeMounts: all.map(([name, mountPath]): Manifest => ({ name, mountPath })),
  }
}

interface FileMounts {
  readonly configMap?: Manifest
  readonly volumes: readonly Manifest[]
  readonly volumeMounts: readonly Manifest[]
}

/**
 * A ConfigMap of the container's files and its mounts, one per file, so that what else stands in
 * the folders stays.
 */
export function fileMounts(
  { name: of }: Pick<Serving, 'name'>,
  files: Container['files'] = [],
): FileMounts {
  if (files.length === 0) return { volumes: [], volumeMounts: [] }
  const name = `${of}-files`
  const keyOf = (path: string, index: number) =>
    `${index}-${posix.basename(path).replace(/[^-._a-zA-Z0-9]/g, '_')}`
  return {
    configMap: {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name },
      data: Object.fromEntries(files.map((file, i) => [keyOf(file.path, i), file.contents])),
    },
    volumes: [{ name: 'tuned-files', configMap: { name } }],
    volumeMounts: files.map((file, i) => ({
      name: 'tuned-files',
      mountPath: file.path,
      subPath: keyOf(file.path, i),
      readOnly: true,
    })),
  }
}
