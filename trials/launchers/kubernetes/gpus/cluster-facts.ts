/** Inspects a cluster: nodes, GPU models, how they are shared, and how many are free. */

import type { V1Node, V1Pod } from '@kubernetes/client-node'
import { grouped } from '../../../grouped.ts'
import type { Resources } from '../../../resources.ts'
import { type Api, ApiError } from '../api/api.ts'
import { parseQuantity } from '../api/quantity.ts'
import {
  listAllocatedDevices,
  listSliceDevices,
  type ResourceSlice,
  type SliceDevice,
} from './device-slices.ts'
import { type DraOptions, type DraVersion, draDriver, findDraVersion } from './dra.ts'
import { findGpuByProduct, formatKarpenterProduct, matchesProduct } from './gpu-names.ts'
import { type GpuScheme, GpuSchemeError, vendorLabels, vendorResources } from './gpu-selection.ts'
import { listMigFaults } from './mig-config.ts'

/** GPUs of one product and one sharing scheme, over all nodes. */
export interface ClusterGpu {
  /** The nodes' label, such as 'NVIDIA-A100-SXM4-40GB'. */
  readonly product: string
  /** Catalogue name; undefined: not in the catalogue. */
  readonly gpu?: string
  readonly scheme: GpuScheme
  readonly nodes: number
  /** Memory of one GPU as the driver reports it, MiB; the minimum over nodes. Absent: unknown. */
  readonly memoryMiB?: number
  /** DRA: several claims can share one device. */
  readonly divisible?: boolean
  /**
   * Resource (DRA: device class, and MIG profile) → total and free amount. `free` is undefined
   * if pods of other namespaces may not be read.
   */
  readonly resources: Readonly<Record<string, { readonly total: number; readonly free?: number }>>
}

export interface ClusterFacts {
  readonly server: string
  readonly version: string
  readonly namespace: string
  readonly nodes: number
  readonly cpuCores: number
  readonly memoryMiB: number
  readonly gpus: readonly ClusterGpu[]
  /** Absent: the server has no resource.k8s.io. */
  readonly dra?: { readonly version: DraVersion; readonly deviceClasses: readonly string[] }
  /** Nodes whose MIG layout differs from the configured one. */
  readonly migFaults?: readonly string[]
  /** What could not be inspected, and why. */
  readonly problems: readonly string[]
}

/**
 * @throws ApiError if the cluster does not answer. Missing permissions for nodes or pods are
 * listed in `problems`.
 */
export async function inspectCluster(api: Api): Promise<ClusterFacts> {
  const { gitVersion } = await api.request<{ gitVersion: string }>('GET', '/version')
  const problems: string[] = []
  const list = async <T>(path: string): Promise<readonly T[] | undefined> => {
    try {
      return (await api.request<{ items: T[] }>('GET', path)).items
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 403) throw error
      problems.push(error.message)
      return undefined
    }
  }
  const nodes = (await list<V1Node>('/api/v1/nodes')) ?? []
  const pods = nodes.some(hasGpu) ? await list<V1Pod>('/api/v1/pods') : []
  const version = await findDraVersion(api)
  const classes =
    version &&
    (await list<{ metadata: { name: string } }>(`/apis/resource.k8s.io/${version}/deviceclasses`))
  const devices = version
    ? listSliceDevices(
        (await list<ResourceSlice>(`/apis/resource.k8s.io/${version}/resourceslices`)) ?? [],
      )
    : []
  const allocated =
    version && devices.length > 0 ? await listAllocatedDevices(api, version) : undefined
  const sum = (resource: string) =>
    nodes.reduce(
      (total, { status }) => total + parseQuantity(status?.allocatable?.[resource] ?? '0'),
      0,
    )
  return {
    server: api.server,
    version: gitVersion,
    namespace: api.namespace,
    nodes: nodes.length,
    cpuCores: sum('cpu'),
    memoryMiB: Math.round(sum('memory') / 2 ** 20),
    gpus: [...groupNodeGpus(nodes, pods), ...groupClaimableGpus(devices, allocated)],
    ...(version && {
      dra: { version, deviceClasses: (classes ?? []).map(({ metadata }) => metadata.name) },
    }),
    migFaults: listMigFaults(nodes),
    problems,
  }
}

/** @param allocated ids of allocated devices; undefined if they may not be read */
function groupClaimableGpus(
  devices: readonly SliceDevice[],
  allocated: ReadonlySet<string> | undefined,
): ClusterGpu[] {
  return [...grouped(devices, ({ product, divisible }) => `${product}\n${divisible}`).values()].map(
    (members): ClusterGpu => {
      const { product, divisible } = members[0]!
      const byResource = grouped(members, ({ migProfile }) =>
        migProfile === undefined ? draDriver : `mig.nvidia.com ${migProfile}`,
      )
      const resources = [...byResource].map(([name, all]) => {
        return [
          name,
          {
            total: all.length,
            free: allocated && all.filter(({ id }) => !allocated.has(id)).length,
          },
        ] as const
      })
      return {
        product,
        gpu: findGpuByProduct(product),
        scheme: 'dra',
        nodes: new Set(members.map(({ node }) => node)).size,
        ...findMinMemory(
          members.flatMap(({ migProfile, memoryMiB }) =>
            migProfile === undefined ? [memoryMiB] : [],
          ),
        ),
        ...(divisible && { divisible }),
        resources: Object.fromEntries(resources),
      }
    },
  )
}

/**
 * Preferred schemes: whole GPUs from unshared ones first; shares from schemes that enforce them
 * first, time-slicing last.
 */
const schemesForWholeGpus: readonly GpuScheme[] = [
  'nvidia',
  'amd',
  'intel',
  'gke',
  'karpenter',
  'aks',
  'dra',
  'hami',
  'volcano',
  'aliyun',
  'mps',
  'time-slicing',
]
const schemesForShares: readonly GpuScheme[] = [
  'hami',
  'volcano',
  'aliyun',
  'mps',
  'dra',
  'time-slicing',
]
const schemesForSlices: readonly GpuScheme[] = ['mig-mixed', 'mig-single', 'dra']

interface GpuChoice {
  readonly scheme: GpuScheme
  readonly dra: DraOptions
}

/**
 * Chooses the scheme that provides a share best on nodes with that GPU, with DRA's options.
 * @throws GpuSchemeError if no scheme can provide the share
 */
export function chooseScheme(
  gpus: readonly ClusterGpu[],
  requested: Resources,
  dra: DraOptions = {},
): GpuChoice {
  const order = requested.migProfile
    ? schemesForSlices
    : requested.gpuShare < 1
      ? schemesForShares
      : schemesForWholeGpus
  const offers = gpus.filter(({ product }) => matchesProduct(product, requested.gpu!))
  const fits = (offer: ClusterGpu, scheme: GpuScheme) => {
    // Nodes with the mixed strategy may also have unpartitioned GPUs.
    if (offer.scheme === 'mig-mixed' && scheme === 'nvidia')
      return 'nvidia.com/gpu' in offer.resources
    if (offer.scheme === 'dra' && requested.migProfile)
      return scheme === 'dra' && `mig.nvidia.com ${requested.migProfile}` in offer.resources
    return offer.scheme === scheme
  }
  const scheme = order.find((one) => offers.some((offer) => fits(offer, one)))
  if (scheme === undefined) {
    const what = requested.migProfile
      ? `the slice ${requested.migProfile}`
      : requested.gpuShare < 1
        ? `${Math.round(requested.gpuShare * 100)} % of a GPU`
        : 'one'
    const how = [...new Set(offers.map((offer) => offer.scheme))].join(', ') || 'none'
    throw new GpuSchemeError(
      `the cluster shares its ${requested.gpu} by ${how}, which cannot provide ${what}`,
      'run tune doctor --backend kubernetes for details',
    )
  }
  const divisible = offers.some((offer) => offer.scheme === 'dra' && offer.divisible)
  return { scheme, dra: { ...(divisible && { sharing: 'capacity' }), ...dra } }
}

const gpuResource =
  /^(nvidia\.com\/(gpu|mig-|gpumem|gpucores)|volcano\.sh\/vgpu-|aliyun\.com\/gpu-|amd\.com\/gpu$|gpu\.intel\.com\/i915$)/
const listGpuResources = ({ status }: V1Node) =>
  Object.entries(status?.allocatable ?? {}).filter(
    ([name, amount]) => gpuResource.test(name) && parseQuantity(amount) > 0,
  )
const hasGpu = (node: V1Node): boolean => listGpuResources(node).length > 0

/** @param pods pods of the whole cluster; undefined if they may not be read */
export function groupNodeGpus(
  nodes: readonly V1Node[],
  pods: readonly V1Pod[] | undefined,
): ClusterGpu[] {
  return [
    ...grouped(
      nodes.filter(hasGpu),
      (node) => `${readProduct(node)}\n${detectScheme(node)}`,
    ).values(),
  ].map((members) => {
    const product = readProduct(members[0]!)
    const names = new Set(members.flatMap((node) => listGpuResources(node).map(([name]) => name)))
    const on = new Set(members.map(({ metadata }) => metadata!.name!))
    const podsOnNode = pods?.filter(
      ({ spec, status }) =>
        on.has(spec?.nodeName ?? '') && !['Succeeded', 'Failed'].includes(status?.phase ?? ''),
    )
    const resources = [...names].sort().map((name) => {
      const total = members.reduce(
        (all, { status }) => all + parseQuantity(status?.allocatable?.[name] ?? '0'),
        0,
      )
      return [
        name,
        {
          total,
          free:
            podsOnNode && total - podsOnNode.reduce((all, pod) => all + sumLimits(pod, name), 0),
        },
      ] as const
    })
    return {
      product,
      gpu: findGpuByProduct(product),
      scheme: detectScheme(members[0]!),
      nodes: members.length,
      ...findMinMemory(members.map(readGpuMemoryMiB)),
      resources: Object.fromEntries(resources),
    }
  })
}

const findMinMemory = (
  memories: readonly (number | undefined)[],
): { readonly memoryMiB?: number } => {
  const knownMemories = memories.filter((memory) => memory !== undefined)
  return knownMemories.length > 0 ? { memoryMiB: Math.min(...knownMemories) } : {}
}

/**
 * Memory of one GPU of a node: the label of GPU feature discovery, else the annotation of HAMi or
 * Volcano, as JSON or comma-separated.
 */
function readGpuMemoryMiB({ metadata }: V1Node): number | undefined {
  const { labels = {}, annotations = {} } = metadata ?? {}
  const registered =
    annotations['hami.io/node-nvidia-register'] ??
    annotations['volcano.sh/node-vgpu-register'] ??
    ''
  const found = [
    labels['nvidia.com/gpu.memory'],
    ...[...registered.matchAll(/"devmem":\s*(\d+)/g)].map(([, memory]) => memory),
    ...[...registered.matchAll(/(?:^|:)GPU-[^,:]+,\d+,(\d+),/g)].map(([, memory]) => memory),
  ].map(Number)
  const memories = found.filter((memory) => memory > 0)
  return memories.length > 0 ? Math.min(...memories) : undefined
}

/** Memory of one GPU of a model, MiB; undefined if unknown. */
export function findNodeMemoryMiB(gpus: readonly ClusterGpu[], gpu: string): number | undefined {
  return findMinMemory(
    gpus.filter(({ product }) => matchesProduct(product, gpu)).map(({ memoryMiB }) => memoryMiB),
  ).memoryMiB
}

const sumLimits = ({ spec }: V1Pod, resource: string): number =>
  (spec?.containers ?? []).reduce(
    (all, { resources }) => all + parseQuantity(resources?.limits?.[resource] ?? '0'),
    0,
  )

/**
 * GPU product of a node: the label of GPU feature discovery or of the cloud. AKS labels no model,
 * but the machine type implies it.
 */
const readProduct = ({ metadata }: V1Node): string => {
  const labels = metadata?.labels ?? {}
  return (
    labels['nvidia.com/gpu.product'] ??
    labels[vendorLabels.amd] ??
    labels[vendorLabels.intel] ??
    labels['cloud.google.com/gke-accelerator'] ??
    (labels['karpenter.k8s.aws/instance-gpu-name'] &&
      formatKarpenterProduct(
        labels['karpenter.k8s.aws/instance-gpu-name'],
        labels['karpenter.k8s.aws/instance-gpu-memory'],
      )) ??
    ('kubernetes.azure.com/accelerator' in labels
      ? labels['node.kubernetes.io/instance-type']
      : undefined) ??
    labels['kubernetes.azure.com/accelerator'] ??
    'unlabelled'
  )
}

/** Detects the scheme of a node, by the resources and labels that it advertises. */
function detectScheme(node: V1Node): GpuScheme {
  const labels = node.metadata?.labels ?? {}
  const names = listGpuResources(node).map(([name]) => name)
  const has = (prefix: string) => names.some((name) => name.startsWith(prefix))
  if (has('volcano.sh/vgpu')) return 'volcano'
  if (has('aliyun.com/gpu-mem')) return 'aliyun'
  // HAMi advertises only nvidia.com/gpu, and registers devices in an annotation.
  if (
    has('nvidia.com/gpumem') ||
    'hami.io/node-nvidia-register' in (node.metadata?.annotations ?? {})
  )
    return 'hami'
  if (has('nvidia.com/mig-')) return 'mig-mixed'
  if (has(vendorResources.amd)) return 'amd'
  if (has(vendorResources.intel)) return 'intel'
  const product = labels['nvidia.com/gpu.product']
  if (product?.includes('-MIG-')) return 'mig-single'
  const sharing = labels['nvidia.com/gpu.sharing-strategy']
  if (sharing === 'mps') return 'mps'
  if (sharing === 'time-slicing' || product?.endsWith('-SHARED')) return 'time-slicing'
  if (product !== undefined) return 'nvidia'
  if ('cloud.google.com/gke-accelerator' in labels) return detectGkeScheme(labels)
  if ('karpenter.k8s.aws/instance-gpu-name' in labels) return 'karpenter'
  if ('kubernetes.azure.com/accelerator' in labels) return 'aks'
  return 'nvidia'
}

/** GKE node pools may partition GPUs, or share them between pods. */
function detectGkeScheme(labels: Readonly<Record<string, string>>): GpuScheme {
  if ('cloud.google.com/gke-gpu-partition-size' in labels) return 'mig-single'
  const sharing = labels['cloud.google.com/gke-gpu-sharing-strategy']
  if (sharing === 'mps') return 'mps'
  return sharing === undefined ? 'gke' : 'time-slicing'
}
