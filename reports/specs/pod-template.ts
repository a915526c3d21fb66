/**
 * The pod of a server, for targets that write pods of their own: its container, weights, GPUs, and
 * what the user lays over it.
 */
import { builtinContainer } from '../../trials/launchers/kubernetes/manifests.ts'
import { lastingOverZones, lifecycle, scrapeAnnotations } from './available.ts'
import { laidOver, overlayNotes } from './laid-over.ts'
import type { Manifest } from './manifest.ts'
import type { podStorage } from './model-storage.ts'
import { environment, type fileMounts, placement, probes, resourcesBlock, scratch } from './pod.ts'
import { specGpus } from './pod-gpus.ts'
import { secretNotes } from './secret-variables.ts'
import type { Container, Serving, WholeContainer } from './serving.ts'

export interface PodParts {
  readonly container: WholeContainer
  readonly storage: ReturnType<typeof podStorage>
  readonly files: ReturnType<typeof fileMounts>
  /** Prometheus reads a counter of the pods. */
  readonly isScraped: boolean
  /** There are several at any time. */
  readonly several: boolean
  /** Requests and probes come to it: default true. */
  readonly asked?: boolean
}

/**
 * A pod of the container that was tuned, with its weights, its GPUs and what the user lays over it.
 */
export function podTemplate(
  serving: Serving,
  parts: PodParts,
  labels: Readonly<Record<string, string>>,
): Manifest {
  const { container, storage, files, asked = true } = parts
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  const empty = scratch(serving, container)
  const annotations = {
    ...gpu.annotations,
    ...storage.annotations,
    ...(parts.isScraped ? scrapeAnnotations(container) : {}),
  }
  const volumes = [...storage.volumes, ...files.volumes, ...empty.volumes]
  const volumeMounts = [...storage.volumeMounts, ...files.volumeMounts, ...empty.volumeMounts]
  const template = {
    metadata: { labels, ...(Object.keys(annotations).length > 0 ? { annotations } : {}) },
    spec: {
      ...lastingOverZones(serving, labels, parts.several),
      ...placement(serving, gpu, labels),
      ...(storage.initContainers.length > 0 ? { initContainers: storage.initContainers } : {}),
      containers: [
        {
          name: builtinContainer,
          image: container.image,
          command: container.command,
          args: container.args,
          ...environment(container, serving.name),
          ...(asked && {
            ports: portsOf(container).map(({ name, port }) => ({ name, containerPort: port })),
            ...probes(serving, container, 'http'),
            // A proxy puts it away, once nothing comes.
            lifecycle,
          }),
          resources: resourcesBlock(serving, gpu),
          ...(volumeMounts.length > 0 ? { volumeMounts } : {}),
        },
      ],
      ...(volumes.length > 0 ? { volumes } : {}),
    },
  }
  return { ...laidOver(serving, template, builtinContainer) }
}

export const portsOf = ({ port, grpcPort }: Pick<Container, 'port' | 'grpcPort'>) => [
  { name: 'http', port },
  ...(grpcPort === undefined ? [] : [{ name: 'grpc', port: grpcPort }]),
]

/** What must be known of such a pod before it is applied. */
export const podNotes = (
  serving: Serving,
  { container, storage }: Pick<PodParts, 'container' | 'storage'>,
  { needs }: Pick<ReturnType<typeof specGpus>, 'needs'>,
): string[] => [
  ...secretNotes(container, serving.name),
  ...needs.map((need) => `needs: ${need}`),
  ...(serving.pod ? [] : [...container.notes, ...storage.notes, ...overlayNotes(serving)]),
]
